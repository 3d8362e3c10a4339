"""What a type checker knows of an operator's program; checked by mypy and pyright, never run.

A line that must be refused carries the checkers' own ignore; one that they would not refuse any
more is reported as an unused ignore.
"""

from typing import Any, assert_type

from rws_operator import (
    Action,
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
