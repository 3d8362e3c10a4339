"""What a controller declares, and what it refuses; no cluster in sight."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rws_operator.controller import Action, BlockingContext, Context, Controller, Watch
from rws_operator.controller.handlers import check_handler
from rws_operator.errors import ConfigurationError
from rws_operator.metrics import metrics_text
from rws_operator.resources import CustomResource, Kind, PolicyRule, kinds
from tests.controller.running import Estate, Widget, environment


async def handler(widget: Any, ctx: Any) -> None:
    """A handler that does nothing."""


def test_rules_of_a_bare_controller() -> None:
    """Its own kind without update, the status, and events; nothing else."""
    group = "controller.test.example.com"
    assert Controller(Widget).rules() == [
        PolicyRule(group, ("widgets",), ("get", "list", "watch", "patch")),
        PolicyRule(group, ("widgets/status",), ("get", "patch")),
        PolicyRule("events.k8s.io", ("events",), ("create", "patch")),
    ]


def test_rules_of_what_it_owns_watches_and_reads() -> None:
    """Owned kinds may be written, the others only read; owning needs the finalizers rule."""
    controller = Controller(
        Widget,
        owns=[kinds.CronJob],
        watches=[Watch(kinds.Secret, to=lambda _: None)],
        reads=[kinds.Node],
    )
    extra = PolicyRule("", ("pods/exec",), ("create",))
    controller.rule(extra)
    rules = controller.rules()
    group = "controller.test.example.com"
    assert PolicyRule(group, ("widgets/finalizers",), ("update",)) in rules
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    assert PolicyRule("batch", ("cronjobs",), verbs) in rules
    assert PolicyRule("", ("secrets",), ("get", "list", "watch")) in rules
    assert PolicyRule("", ("nodes",), ("get", "list", "watch")) in rules
    assert extra in rules
    assert not any("update" in r.verbs for r in rules if r.resources == ("widgets",))


def test_name_is_the_kinds_by_default() -> None:
    """The name labels the metrics."""
    assert Controller(Widget).name == "Widget"
    assert Controller(kinds.ConfigMap, name="other").name == "other"
    assert Controller(Widget).kinds() == [Controller(Widget).kind]


def test_decorators_return_what_they_decorate() -> None:
    """A decorated function can still be called in the author's own tests."""
    controller = Controller(Widget)
    assert controller.reconcile(handler) is handler
    assert controller.finalizer("example.com/x")(handler) is handler
    assert controller.finalizer_name == "example.com/x"


class Other(CustomResource, group="controller.test.example.com", version="v1"):
    """Another kind."""


class WidgetOld(
    CustomResource,
    kind="Widget",
    group="controller.test.example.com",
    version="v1alpha1",
    storage=False,
):
    """An older version of Widget."""


def test_versions_join_by_kind() -> None:
    """A further version of the same kind is kept for the CRD."""
    assert Controller(Widget, versions=[WidgetOld]).versions == (WidgetOld,)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"workers": 0}, "workers=0"),
        ({"workers": True}, "workers=True"),
        ({"workers": 1.5}, "workers=1.5"),
        ({"name": ""}, "is no name"),
        ({"name": "two words"}, "is no name"),
        ({"name": "x" * 64}, "is no name"),
        ({"namespaces": []}, "namespaces is empty"),
        ({"namespaces": ["Prod"]}, "namespace 'Prod' is not a DNS label"),
        ({"reporter": "My Reporter!"}, "reporter 'My Reporter!' is not a qualified name"),
        ({"reporter": "a/b/c"}, "is not a qualified name"),
        ({"on_error": 5}, "on_error=5"),
        ({"watches": [kinds.Secret]}, "one of watches="),
        ({"deadline_seconds": 0}, "deadline_seconds=0"),
        ({"deadline_seconds": float("inf")}, "deadline_seconds=inf"),
        ({"deadline_seconds": "120"}, "deadline_seconds: '120' is no number of seconds"),
        ({"label_selector": "shard 1"}, "label_selector='shard 1' is no selector"),
        ({"label_selector": {"shard": "1"}}, "is no selector"),
        ({"field_selector": "metadata.name"}, "field_selector='metadata.name' is no selector"),
        ({"namespaces": "default"}, r"pass a list: namespaces=\[\.\.\.\]"),
        ({"owns": kinds.Secret}, r"pass a list: owns=\[\.\.\.\]"),
        ({"owns": [kinds.ClusterRole]}, "can't own the cluster-scoped ClusterRole"),
        ({"watches": Watch(kinds.Secret, to=str)}, r"pass a list: watches=\[\.\.\.\]"),
        ({"versions": [Other]}, "is no version of"),
    ],
)
def test_refused_at_construction(arguments: dict[str, Any], says: str) -> None:
    """A wrong argument is refused where it stands, with the remedy."""
    with pytest.raises(ConfigurationError, match=says) as refused:
        Controller(Widget, **arguments)
    assert refused.value.remedy


@pytest.mark.parametrize(
    "label_selector",
    [
        "",
        "app",
        "!app",
        "app=",
        "app==db",
        "example.com/tier != web",
        "app=db,tier in (a, b), tier notin (c),!x",
        "level>3",
    ],
)
def test_selectors_of_the_api_are_taken(label_selector: str) -> None:
    """Whatever an API server can read."""
    made = Controller(
        Widget, label_selector=label_selector, field_selector="metadata.name=x,spec.a!=b\\,c"
    )
    assert made.label_selector == label_selector


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"namespaces": "prod"}, r"pass a list: namespaces=\[\.\.\.\]"),
        ({"namespaces": ["a b"]}, "namespace 'a b' is not a DNS label"),
        ({"label_selector": "a=b=c"}, "is no selector"),
        ({"to": handler}, "the mapping handler is async: use a plain function"),
        ({"to": "name"}, "to='name'"),
    ],
)
def test_watches_are_refused_at_construction(arguments: dict[str, Any], says: str) -> None:
    """A mapping that can't work would be tried again for ever, unseen."""
    given: dict[str, Any] = {"to": str} | arguments
    with pytest.raises(ConfigurationError, match=says) as refused:
        Watch(kinds.Secret, **given)
    assert "secret" in str(refused.value).lower() or "pass a list" in says
    assert refused.value.remedy


def test_a_watch_keeps_namespaces_that_are_read_once() -> None:
    """A generator would be empty when the informers are made."""
    given: Any = (name for name in ["a", "b"])
    assert Watch(kinds.Secret, to=str, namespaces=given).namespaces == ("a", "b")


def test_namespaces_of_a_cluster_scoped_kind_are_refused() -> None:
    """Its objects live in no namespace."""
    with pytest.raises(ConfigurationError, match="lives in no namespace"):
        Controller(Estate, namespaces=["default"])


@pytest.mark.parametrize(
    "name",
    ["plain", "/x", "example.com/", "Example.com/x", "example.com/x/y", "example.com/x y", "a_b/x"],
)
def test_finalizer_must_be_a_qualified_name(name: str) -> None:
    """A finalizer without a domain is deprecated by Kubernetes, and may clash."""
    with pytest.raises(ConfigurationError, match="is no qualified name"):
        Controller(Widget).finalizer(name)


def test_a_decorator_without_its_argument_says_how_to_write_it() -> None:
    """Parentheses too many or too few are told where they stand, not by a bare TypeError."""
    controller: Any = Controller(Widget)
    with pytest.raises(ConfigurationError, match=r"write @<controller>\.reconcile, without"):
        controller.reconcile()
    with pytest.raises(ConfigurationError, match="of handler has no name: name it: @<controller>"):
        controller.finalizer(handler)


def test_second_handlers_are_refused() -> None:
    """Neither reconcile nor finalizer is silently replaced; the first one stays."""
    controller = Controller(Widget)
    controller.reconcile(handler)
    controller.finalizer("example.com/x")(handler)
    with pytest.raises(ConfigurationError, match="has two reconciles"):
        controller.reconcile(handler)
    for name in ("example.com/x", "example.com/y"):
        with pytest.raises(ConfigurationError, match="has two finalizers"):
            controller.finalizer(name)(handler)
    assert controller.finalizer_name == "example.com/x"


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda one: None, lambda one, two, three: None, lambda *, one, two: None],
)
def test_handlers_with_other_arguments_are_refused(function: Any) -> None:
    """Found when it is decorated, not when the first object comes."""
    with pytest.raises(ConfigurationError, match="can't be called with") as raised:
        Controller(Widget).reconcile(function)
    assert raised.value.__suppress_context__


def test_handlers_of_many_shapes_are_accepted() -> None:
    """Methods, partials and objects with __call__ are functions too."""

    class Handler:
        async def method(self, widget: Widget, ctx: Context) -> Action | None:
            return None

        def __call__(self, widget: Widget, ctx: BlockingContext) -> Action | None:
            return None

    for function in (Handler().method, Handler(), partial(lambda extra, w, c: None, 1)):
        check_handler(function, "the reconcile")


def test_missing_reconcile_is_refused_at_bind() -> None:
    """A controller never runs with nothing to do."""
    lent = environment(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Widget has no reconcile"):
        Controller(Widget).bind(lent)


async def test_running_alone_is_refused() -> None:
    """A controller needs an Operator."""
    with pytest.raises(ConfigurationError, match="runs without an operator"):
        await Controller(Widget).run()


async def test_series_exist_at_zero_once_bound() -> None:
    """Alerts on a rate work from the first error on, and on standbys."""
    controller = Controller(Widget, name="zero", workers=3)
    controller.reconcile(handler)
    controller.bind(environment(None))  # type: ignore[arg-type]
    page = metrics_text()
    assert 'rws_controller_reconcile_errors_total{controller="zero"} 0.0' in page
    assert 'controller_runtime_reconcile_total{controller="zero",result="error"} 0.0' in page
    assert 'workqueue_depth{controller="zero",name="zero"} 0.0' in page
    assert 'controller_runtime_max_concurrent_reconciles{controller="zero"} 3.0' in page


async def test_informers_follow_namespaces_and_scope() -> None:
    """One informer per namespace; cluster-scoped kinds have one; a shared kind is watched once."""
    lent = environment(None)  # type: ignore[arg-type]
    controller = Controller(
        Widget,
        namespaces=["a", "b"],
        owns=[kinds.ConfigMap],
        reads=[kinds.Node, kinds.ConfigMap],
        label_selector="x=y",
    )
    controller.reconcile(handler)
    controller.bind(lent)
    watched = sorted(each.partition(":")[0] for each in lent.informers.unsynced())
    assert watched == [
        "configmaps (namespace=a)",
        "configmaps (namespace=b)",
        "nodes",
        "widgets.controller.test.example.com (namespace=a, labelSelector=x=y)",
        "widgets.controller.test.example.com (namespace=b, labelSelector=x=y)",
    ]


def test_kind_given_as_a_value() -> None:
    """Any kind can be served without a class."""
    made = Controller(Kind("example.com/v1", "Gadget", "gadgets", namespaced=False))
    assert made.rules()[0].resources == ("gadgets",)
