"""What a type checker knows of an operator's program; checked by mypy and pyright, never run.

A line that must be refused carries the checkers' own ignore; one that they would not refuse any
more is reported as an unused ignore.
"""

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from rws_operator import (
    Action,
    AdmissionRequest,
    BlockingContext,
    Context,
    Controller,
    CustomResource,
    Environment,
    Kind,
    Model,
    Operator,
    PolicyRule,
    Runnable,
    WebhookCertificate,
    Webhooks,
    kinds,
)
from rws_operator.cli import Program


class Spec(Model):
    """A spec."""

    size: int = 1


class Widget(CustomResource, group="typing.example.com", version="v1"):
    """A kind."""

    spec: Spec = Spec()


operator = Operator("app")
operator.leader_election(lease="app", lease_seconds=30)
widgets = operator.controller(Widget, owns=[kinds.ConfigMap], workers=2)
pods = operator.controller(Kind("v1", "Pod", "pods"), name="pods")

assert_type(widgets, Controller[Widget])
assert_type(pods, Controller[dict[str, Any]])
assert_type(operator.add(widgets), Controller[Widget])
operator.rule(PolicyRule("", ("secrets",), ("get",)))
assert_type(operator.rules(), list[PolicyRule])
assert_type(operator.kinds(), list[Kind])
program: Program = operator
controller: Runnable = widgets

operator.controller(Widget, worker=2)  # type: ignore[call-overload]
operator.controller("Widget")  # type: ignore[call-overload]


@widgets.reconcile
async def reconcile(widget: Widget, ctx: Context) -> Action | None:
    """An async handler."""
    assert_type(widget.spec.size, int)
    child: dict[str, Any] = {}
    assert_type(await ctx.apply_owned(widget, child), dict[str, Any])
    assert_type(await ctx.patch_status(widget, {"size": 1}), Widget)
    assert_type(await ctx.get(Widget, "a", "default"), Widget | None)
    assert_type(await ctx.list(kinds.ConfigMap), list[dict[str, Any]])
    return Action.requeue(300)


@pods.reconcile
def reconcile_pod(pod: dict[str, Any], ctx: BlockingContext) -> None:
    """A plain handler."""
    assert_type(ctx.patch_status(pod, {}), dict[str, Any])


@widgets.finalizer("typing.example.com/clean")
async def cleanup(widget: Widget, ctx: Context) -> None:
    """A cleanup without an answer."""


@widgets.reconcile  # type: ignore[arg-type]
async def of_another_kind(pod: dict[str, Any], ctx: Context) -> None:
    """A handler of the wrong type."""


class OldWidget(CustomResource, group="typing.example.com", version="v1alpha1", kind="Widget"):
    """Its older version."""

    spec: Spec = Spec()


@operator.validate(Widget, operations=["CREATE", "DELETE"], failure_policy="Ignore")
async def check(request: AdmissionRequest[Widget]) -> None:
    """An async validation."""
    assert_type(request.object.spec.size, int)
    assert_type(request.old_object, Widget | None)


validation: Callable[[AdmissionRequest[Widget]], Coroutine[Any, Any, None]] = check


@operator.validate(kinds.Pod)
def check_pod(request: AdmissionRequest[dict[str, Any]]) -> None:
    """A plain validation of a kind."""
    assert_type(request.object, dict[str, Any])


assert_type(check_pod, Callable[[AdmissionRequest[dict[str, Any]]], None])


@operator.mutate(Widget, timeout_seconds=5)
async def default(request: AdmissionRequest[Widget]) -> Widget:
    """An async mutation."""
    return request.object


@operator.mutate(Widget, path="/mutate/again", name="again.widgets.typing.example.com")
def default_in_place(request: AdmissionRequest[Widget]) -> None:
    """A plain mutation in place."""
    request.object.spec.size = 2


@operator.mutate(kinds.Pod)
def label(request: AdmissionRequest[dict[str, Any]]) -> dict[str, Any]:
    """A plain mutation of a kind."""
    return request.object


@operator.convert(OldWidget, Widget)
def upgrade(old: OldWidget) -> Widget:
    """A plain conversion."""
    return Widget(metadata=old.metadata, spec=old.spec)


@operator.convert(Widget, OldWidget)
async def downgrade(widget: Widget) -> OldWidget:
    """An async conversion."""
    return OldWidget(metadata=widget.metadata, spec=widget.spec)


assert_type(upgrade, Callable[[OldWidget], Widget])
assert_type(operator.webhooks, Webhooks)
operator.certificate(names=["webhooks.example.com"], lifetime_seconds=86400)
made: WebhookCertificate = WebhookCertificate.generate("app", "default")

operator.validate(Widget, operation=["CREATE"])  # type: ignore[call-overload]
operator.mutate(Widget, reinvocation="Always")  # type: ignore[call-overload]


@operator.validate(Widget)  # type: ignore[arg-type]
async def check_another(request: AdmissionRequest[OldWidget]) -> None:
    """A validation of another kind."""


@operator.validate(Widget)  # type: ignore[type-var]
async def check_with_answer(request: AdmissionRequest[Widget]) -> bool:
    """A validation that answers instead of raising."""
    return True


@operator.mutate(Widget)  # type: ignore[arg-type]
async def default_another(request: AdmissionRequest[Widget]) -> OldWidget:
    """A mutation that returns another kind."""
    return OldWidget(metadata=request.object.metadata)


@operator.convert(OldWidget, Widget)  # type: ignore[arg-type]
def upgrade_to_nothing(old: OldWidget) -> None:
    """A conversion that returns nothing."""


class Poller:
    """A loop of one's own."""

    name = "poller"

    def rules(self) -> list[PolicyRule]:
        """Its permissions."""
        return []

    def kinds(self) -> list[Kind]:
        """Its kinds."""
        return []

    def bind(self, environment: Environment) -> None:
        """Take what is lent."""

    async def run(self) -> None:
        """Work."""


assert_type(operator.add(Poller()), Poller)
operator.add(object())  # type: ignore[type-var]


def ends() -> int:
    """`main` never returns."""
    operator.main()
