import re
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.metrics import metrics_text
from rws_operator.operator import Operator
from rws_operator.resources import CustomResource, Kind, Model, kind_of, kinds
from rws_operator.webhook import AdmissionRequest, Call, Webhooks
from rws_operator.webhook.registration import WebhookOptions, default_path

if TYPE_CHECKING:
    from collections.abc import Callable


class Spec(Model):
    """Nothing in particular."""


class Thing(CustomResource, group="webhooks.test.example.com", version="v1"):
    """A kind of the registration tests."""

    spec: Spec = Spec()


class Echo:
    """An endpoint of one's own."""

    name = path = "/echo"
    timeout_seconds = 5.0

    async def answer(self, body: bytes, call: Call) -> bytes:
        """Give back what came."""
        return body


async def check(request: AdmissionRequest[Any]) -> None:
    """Let everything through."""


def test_what_was_left_open_is_filled_in() -> None:
    """Fail closed, ten seconds, no side effects, create and update of the object itself."""
    (found,) = Webhooks().validate(Thing, "/validate-things", check).registrations
    assert (found.kind, found.resource, found.mutating) == (kind_of(Thing), Thing, False)
    assert (found.path, found.name) == (
        "/validate-things", "validate.things.webhooks.test.example.com",
    )  # fmt: skip
    assert (found.operations, found.resources) == (("CREATE", "UPDATE"), ("things",))
    assert (found.failure_policy, found.timeout_seconds, found.options) == ("Fail", 10, {})
    assert not found.exempt_own_namespace


def test_options_are_kept() -> None:
    """As values that can't be changed any more."""
    (found,) = Webhooks().mutate(
        kinds.Pod,
        "/mutate-pods",
        check,
        name="pods.example.com",
        operations=["CREATE"],
        subresources=["", "ephemeralcontainers"],
        failure_policy="Ignore",
        timeout_seconds=3,
        side_effects="NoneOnDryRun",
        match_policy="Exact",
        match_conditions={"not-ours": "request.userInfo.username != 'us'"},
        object_selector={"matchLabels": {"a": "b"}},
        reinvocation="IfNeeded",
    ).registrations  # fmt: skip
    assert (found.name, found.operations) == ("pods.example.com", ("CREATE",))
    assert found.resources == ("pods", "pods/ephemeralcontainers")
    assert (found.failure_policy, found.timeout_seconds) == ("Ignore", 3)
    assert found.options == {
        "timeout_seconds": 3,
        "side_effects": "NoneOnDryRun",
        "match_policy": "Exact",
        "match_conditions": {"not-ours": "request.userInfo.username != 'us'"},
        "object_selector": {"matchLabels": {"a": "b"}},
        "reinvocation": "IfNeeded",
    }


def test_core_kinds_have_a_name_of_three_labels_too() -> None:
    """The API server asks for three."""
    (found,) = Webhooks().mutate(kinds.Pod, "/m", check).registrations
    assert found.name == "mutate.pods.core"


@pytest.mark.parametrize(
    ("kind", "exempt"),
    [
        (kinds.Pod, True),
        (kinds.Namespace, True),
        (kinds.Node, False),
        (Thing, False),
        (kind_of(Thing), True),
    ],
)
def test_whose_rules_exempt_our_own_namespace(kind: Any, exempt: bool) -> None:
    """One on Pods or Namespaces must not keep the operator's own from being made."""
    (found,) = Webhooks().validate(kind, "/v", check).registrations
    assert found.exempt_own_namespace is exempt
    (found,) = Webhooks().validate(kind, "/v", check, exempt_own_namespace=not exempt).registrations
    assert found.exempt_own_namespace is not exempt


def test_default_paths_name_kind_and_version() -> None:
    """Two versions of a kind have two paths."""
    assert (
        default_path("validate", kind_of(Thing)) == "/validate/things.webhooks.test.example.com/v1"
    )
    assert default_path("mutate", kinds.Pod) == "/mutate/pods.core/v1"


def test_all_paths_answer() -> None:
    """Admission, conversion and one's own endpoints, in the order they came in."""
    webhooks = (
        Webhooks()
        .validate(Thing, "/v", check)
        .mutate(Thing, "/m", check)
        .convert("/convert", lambda obj, version: obj)
        .add(Echo())
    )
    assert [each.path for each in webhooks.endpoints] == ["/v", "/m", "/convert", "/echo"]
    assert [each.mutating for each in webhooks.registrations] == [False, True]


def test_series_exist_from_the_start() -> None:
    """rate() and alerts work from the first failure on."""
    Webhooks().validate(Thing, "/series", check)
    page = metrics_text()
    for line in (
        'controller_runtime_webhook_latency_seconds_count{webhook="/series"} 0.0',
        'controller_runtime_webhook_requests_total{code="500",webhook="/series"} 0.0',
        'controller_runtime_webhook_requests_in_flight{webhook="/series"} 0.0',
        'rws_webhook_reviews_total{result="failed",webhook="/series"} 0.0',
        "controller_runtime_webhook_panics_total",
        "controller_runtime_conversion_webhook_panics_total",
        "rws_webhook_certificate_expiry_timestamp_seconds",
    ):
        assert line in page


@pytest.mark.parametrize("path", ["", "v", "/v/", "//", "/V", "/v//w", "/v w", "/{v}", "/v?a=b"])
def test_a_path_the_api_server_would_refuse_is_refused(path: str) -> None:
    """When the program is made, not when its manifests are applied."""
    with pytest.raises(ConfigurationError, match=re.escape(repr(path))):
        Webhooks().validate(Thing, path, check)


@pytest.mark.parametrize("path", ["/", "/v", "/v/w-1.x"])
def test_usual_paths_are_taken(path: str) -> None:
    """What a configuration may name."""
    assert Webhooks().validate(Thing, path, check).endpoints[0].path == path


def test_a_path_is_taken_once() -> None:
    """Else the first or the last would win in silence."""
    webhooks = Webhooks().validate(Thing, "/v", check)
    with pytest.raises(ConfigurationError, match=r"path /v has a webhook already.*path="):
        webhooks.mutate(Thing, "/v", check)
    with pytest.raises(ConfigurationError, match=r"path /v has a webhook already.*path="):
        webhooks.convert("/v", lambda obj, version: obj)
    assert len(webhooks.registrations) == 1


def test_a_name_is_taken_once() -> None:
    """Names are unique within a configuration."""
    webhooks = Webhooks().validate(Thing, "/v", check)
    with pytest.raises(ConfigurationError, match=r"named validate\.things.*name="):
        webhooks.validate(Thing, "/w", check)
    assert len(webhooks.validate(Thing, "/w", check, name="a.b.c").endpoints) == 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"name": "short"}, "fewer than three parts"),
        ({"name": "a.b"}, "fewer than three parts"),
        ({"name": "A.b.c"}, "not a DNS subdomain"),
        ({"operations": []}, "operations"),
        ({"operations": ["PATCH"]}, "PATCH"),
        ({"operations": "CREATE"}, r"operations='CREATE': pass a list"),
        ({"operations": ["*", "CREATE"]}, "all of them"),
        ({"subresources": []}, "subresources"),
        ({"subresources": "status"}, r"subresources='status': pass a list"),
        ({"subresources": ["scale"]}, r"'scale' hold no Thing.*kind_of\(Thing\)"),
        ({"failure_policy": "fail"}, "Fail, Ignore"),
        ({"side_effects": "Some"}, "NoneOnDryRun"),
        ({"match_policy": "Any"}, "Equivalent"),
        ({"timeout_seconds": 0}, "from 1 to 30"),
        ({"timeout_seconds": 31}, "from 1 to 30"),
        ({"timeout_seconds": 2.5}, "from 1 to 30"),
        ({"timeout_seconds": True}, "from 1 to 30"),
        ({"match_conditions": {"a b": "true"}}, "match condition"),
        ({"match_conditions": {"a": ""}}, "no CEL expression"),
        ({"namespace_selector": {"a": "b"}}, "namespace_selector"),
        ({"reinvocation": "IfNeeded"}, "only mutating webhooks"),
        ({"failurepolicy": "Fail"}, "unknown option 'failurepolicy'.*failure_policy"),
    ],
)
def test_an_option_that_can_not_be_is_refused(options: Any, what: str) -> None:
    """The message names it, and what may be written."""
    with pytest.raises(ConfigurationError, match=what):
        Webhooks().validate(Thing, "/v", check, **options)


def test_a_kind_may_have_any_subresource() -> None:
    """Its handler gets dicts, of whatever kind the subresource is."""
    scale = Kind("apps/v1", "Deployment", "deployments")
    (found,) = Webhooks().validate(scale, "/v", check, subresources=["scale"]).registrations
    assert found.resources == ("deployments/scale",)


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None, "check"])
def test_what_can_not_be_called_with_a_request_is_refused(function: Any) -> None:
    """When it is registered, with how to define it."""
    with pytest.raises(ConfigurationError, match=r"validate Thing.*\(request\)"):
        Webhooks().validate(Thing, "/v", function)


def test_what_can_not_convert_is_refused() -> None:
    """A converter gets an object and the version wanted."""
    wrong: Any = lambda obj: obj  # noqa: E731
    with pytest.raises(ConfigurationError, match="desired_version"):
        Webhooks().convert("/c", wrong)


@pytest.mark.parametrize("kinds_", [["Thing"], Thing, [CustomResource]])
def test_a_conversion_of_what_is_no_kind_is_refused(kinds_: Any) -> None:
    """When it is registered."""
    with pytest.raises(ConfigurationError, match=r"has no kind|pass a list|not the class of"):
        Webhooks().convert("/c", lambda obj, version: obj, kinds_)


def test_a_class_without_a_kind_is_refused() -> None:
    """A plain base class is no resource."""
    with pytest.raises(ConfigurationError, match="not the class of a kind"):
        Webhooks().validate(CustomResource, "/v", check)


def generator(request: Any) -> Any:
    """A call of it runs nothing."""
    yield request


async def async_generator(request: Any) -> Any:
    """A call of it runs nothing either."""
    yield request


@pytest.mark.parametrize("function", [generator, async_generator])
def test_a_generator_is_no_handler(function: Any) -> None:
    """It would let everything through."""
    with pytest.raises(ConfigurationError, match="generator"):
        Webhooks().validate(Thing, "/v", function)


@pytest.mark.parametrize(
    "options",
    [
        {"name": 5},
        {"name": None},
        {"operations": None},
        {"operations": 3},
        {"operations": [["CREATE"]]},
        {"subresources": None},
        {"subresources": [5]},
        {"subresources": [" "]},
        {"subresources": ["a/b"]},
        {"match_conditions": [{"name": "a", "expression": "true"}]},
        {"match_conditions": {5: "true"}},
        {"match_conditions": {"a": 5}},
        {"match_conditions": ""},
        {"exempt_own_namespace": "no"},
        {"exempt_own_namespace": None},
        {"namespace_selector": 0},
        {"namespace_selector": []},
        {"namespace_selector": {"matchLabels": {"a": 5}}},
        {"object_selector": 0},
        {"object_selector": ""},
        {"object_selector": {"matchExpressions": [{"key": "a", "operator": ["In"]}]}},
    ],
)
@pytest.mark.parametrize("kind", [kinds.Pod, kinds.Node])
def test_an_option_of_another_type_is_refused(kind: Any, options: dict[str, Any]) -> None:
    """As what the author can mend, and before anything is printed."""
    with pytest.raises(ConfigurationError, match=r"^webhook "):
        Webhooks().validate(kind, "/v", check, **options)


@pytest.mark.parametrize("path", [5, None, ["/v"]])
def test_a_path_is_a_text(path: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(ConfigurationError, match="path"):
        Webhooks().validate(Thing, path, check)


def test_nothing_is_added_after_the_start() -> None:
    """Nothing would make the API server call it."""
    webhooks = Webhooks().validate(Thing, "/v", check)
    webhooks.seal()
    late: list[Callable[[], Any]] = [
        lambda: webhooks.validate(Thing, "/w", check, name="other.example.com"),
        lambda: webhooks.mutate(Thing, "/m", check),
        lambda: webhooks.convert("/c", lambda obj, desired_version: obj),
        lambda: webhooks.add(Echo()),
    ]
    for add in late:
        with pytest.raises(ConfigurationError, match="after the start"):
            add()
    assert [each.path for each in webhooks.endpoints] == ["/v"]
    assert len(webhooks.registrations) == 1


@pytest.mark.parametrize("document", [WebhookOptions.__doc__, Operator.mutate.__doc__])
def test_every_option_is_documented(document: str) -> None:
    """Where it is looked for."""
    for option in WebhookOptions.__annotations__:
        assert re.search(rf"^ +{option}\b.*:", document, re.MULTILINE), option
