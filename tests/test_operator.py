"""The Operator as a definition: what it refuses, and what follows from it without a cluster."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import (
    AdmissionRequest,
    Context,
    Controller,
    CustomResource,
    Kind,
    Model,
    Operator,
    PolicyRule,
    kinds,
)
from rws_operator.client import Client, ClientConfig
from rws_operator.errors import ConfigurationError, ResourceDefinitionError
from rws_operator.resources import kind_of

if TYPE_CHECKING:
    from rws_operator import Environment

GROUP = "definition.test.example.com"


class Spec(Model):
    """Nothing much."""

    size: int = 1


class Thing(CustomResource, group=GROUP, version="v1"):
    """A kind of one's own."""

    spec: Spec = Spec()


class ThingV1Alpha1(CustomResource, group=GROUP, kind="Thing", version="v1alpha1", storage=False):
    """Its older version."""

    spec: Spec = Spec()


class Loop:
    """A Runnable that is no Controller."""

    name = "loop"

    def rules(self) -> list[PolicyRule]:
        """One permission."""
        return [PolicyRule("", ("nodes",), ("list",))]

    def kinds(self) -> list[Kind]:
        """No kind."""
        return []

    def bind(self, environment: Environment) -> None:
        """Take nothing."""

    async def run(self) -> None:
        """Do nothing."""


async def reconcile(thing: Any, ctx: Context) -> None:
    """Do nothing."""


@pytest.mark.parametrize("name", ["app", "backup-operator", "example.com/Backup_operator", "a.b"])
def test_a_qualified_name_is_taken(name: str) -> None:
    """Field managers and reporting controllers may look like this."""
    assert Operator(name).name == name


@pytest.mark.parametrize(
    "name", ["", "two words", "-app", "app-", "a/b/c", "/app", "Example.com/app", "a" * 64, "é"]
)
def test_another_name_is_refused(name: str) -> None:
    """The error quotes the name and says what one looks like."""
    with pytest.raises(ConfigurationError, match="is not a qualified name: use at most 63"):
        Operator(name)


def test_a_name_that_is_no_text_is_refused() -> None:
    """The error shows what was given and how to write it."""
    name: Any = 5
    with pytest.raises(ConfigurationError, match=r'operator name=5: pass a text: Operator\("'):
        Operator(name)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), "30"])
def test_a_drain_that_is_no_time_is_refused(seconds: Any) -> None:
    """The error names operator and argument."""
    with pytest.raises(ConfigurationError, match="operator app: drain_seconds"):
        Operator("app", drain_seconds=seconds)


def test_the_pods_grace_period_follows_the_drain() -> None:
    """Who lets reconciles run longer has pods that live longer."""
    operator = Operator("app", drain_seconds=299.5)
    operator.controller(Thing)
    deployment = next(each for each in operator.manifests() if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 315


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lease": "My_Lease"}, "lease 'My_Lease' is not a DNS subdomain"),
        ({"namespace": "a.b"}, "namespace 'a.b' is not a DNS label"),
        ({"renew_seconds": 15}, "renew_seconds must be less|retry_seconds must be less"),
        ({"retry_seconds": 0}, "whole seconds, at least 1"),
    ],
)
def test_an_election_that_can_not_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    """A name or a duration that can't be used is an error where it is written."""
    with pytest.raises(ConfigurationError, match=message):
        Operator("app").leader_election(**arguments)


def test_two_controllers_of_one_name_are_refused() -> None:
    """The error names both operator and controller, and the way out works."""
    operator = Operator("app")
    operator.controller(Thing)
    with pytest.raises(ConfigurationError, match="app: two controllers are named Thing: give one"):
        operator.controller(Thing)
    assert operator.controller(Thing, name="other").name == "other"


async def test_an_operator_without_controllers_does_not_run() -> None:
    """It would do nothing for ever, unnoticed."""
    with pytest.raises(ConfigurationError, match="app has neither controllers nor webhooks: add"):
        await Operator("app").run()


@pytest.mark.behaviour("RUN-08")
def test_to_stop_what_never_ran_is_harmless() -> None:
    """A stop before the start changes nothing."""
    operator = Operator("app")
    operator.stop()
    assert not operator.has_lost_lease()


def test_a_controller_made_elsewhere_can_be_added() -> None:
    """Controllers and loops of one's own stand side by side."""
    operator = Operator("app")
    controller = operator.add(Controller(kinds.ConfigMap))
    operator.add(Loop())
    assert controller.name == "ConfigMap"
    assert operator.kinds() == [kinds.ConfigMap]
    assert PolicyRule("", ("nodes",), ("list",)) in operator.rules()


def test_rules_are_merged_over_all_controllers() -> None:
    """Main kind: read and patch; status: get and patch; owned kinds and finalizers as needed."""
    operator = Operator("app")
    operator.leader_election()
    first = operator.controller(Thing, owns=[kinds.ConfigMap])
    operator.controller(kinds.ConfigMap)
    first.rule(PolicyRule("", ("secrets",), ("get",), ("tls",)))
    read = ("get", "list", "watch")
    assert operator.rules() == [
        PolicyRule("", ("configmaps",), (*read, "create", "patch", "delete")),
        PolicyRule("", ("configmaps/status",), ("get", "patch")),
        PolicyRule("", ("secrets",), ("get",), ("tls",)),
        PolicyRule(GROUP, ("things",), (*read, "patch")),
        PolicyRule(GROUP, ("things/finalizers",), ("update",)),
        PolicyRule(GROUP, ("things/status",), ("get", "patch")),
        PolicyRule("events.k8s.io", ("events",), ("create", "patch")),
    ]


def test_what_webhook_handlers_need_can_be_declared() -> None:
    """No declaration says what they ask for, and no controller need be there to say it."""
    operator = Operator("guard")
    wanted = PolicyRule("", ("secrets",), ("get", "list"))
    operator.rule(PolicyRule("", ("secrets",), ("list",)))
    operator.rule(PolicyRule("", ("secrets",), ("get",)))

    @operator.validate(kinds.Pod)
    async def has_its_secret(request: AdmissionRequest[dict[str, Any]]) -> None:
        await request.client.list(kinds.Secret, request.namespace)

    assert operator.rules() == [wanted]
    printed = operator.manifests()
    (role,) = [each for each in printed if each["kind"] == "ClusterRole"]
    assert wanted.to_wire() in role["rules"]
    with pytest.raises(ConfigurationError, match="operator guard: rule='secrets'"):
        operator.rule("secrets")  # type: ignore[arg-type]


def test_manifests_hold_each_own_kind_once_with_all_its_versions() -> None:
    """Two controllers of one kind share a CRD; built-in kinds have none."""
    operator = Operator("example.com/App")
    operator.controller(Thing, versions=[ThingV1Alpha1])
    operator.controller(Thing, name="second")
    operator.controller(kinds.ConfigMap)
    documents = operator.manifests()
    crds = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    assert [version["name"] for version in crds[0]["spec"]["versions"]] == ["v1", "v1alpha1"]
    assert len(crds) == 1
    assert "Role" not in [each["kind"] for each in documents]
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    assert deployment["metadata"]["name"] == deployment["metadata"]["namespace"] == "app"
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == operator.default_image == "app:latest"


def test_manifests_put_the_role_where_the_lease_is() -> None:
    """An election in another namespace needs its Role there."""
    operator = Operator("app")
    operator.leader_election(namespace="locks", lease="app.lock")
    operator.controller(Thing)
    role = next(each for each in operator.manifests(namespace="n") if each["kind"] == "Role")
    assert role["metadata"]["namespace"] == "locks"
    assert role["rules"][1]["resourceNames"] == ["app.lock"]


def test_a_kind_without_a_stored_version_has_no_manifest() -> None:
    """What a CRD can't hold is an error that names the class."""
    operator = Operator("app")
    operator.controller(ThingV1Alpha1)
    with pytest.raises(ResourceDefinitionError, match="ThingV1Alpha1: no version would be stored"):
        operator.manifests()


async def test_a_missing_reconcile_is_told_before_a_kubeconfig_is_looked_for() -> None:
    """The author's own mistake comes first, also where there is no cluster yet."""
    operator = Operator("app")
    things = operator.controller(Thing)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="controller Thing has no reconcile"):
            await operator.run(kubeconfig="/nowhere")
    things.reconcile(reconcile)
    with pytest.raises(ConfigurationError, match="/nowhere"):
        await operator.run(kubeconfig="/nowhere")


async def test_an_operator_runs_once(tmp_path: Any) -> None:
    """A failed start leaves no task; what was run can neither run again nor take more."""
    operator = Operator("app")
    operator.controller(Thing).reconcile(reconcile)
    before = asyncio.all_tasks()
    with pytest.raises(ConfigurationError, match="no kubeconfig"):
        await operator.run(kubeconfig=str(tmp_path / "none"))
    assert asyncio.all_tasks() == before
    with pytest.raises(ConfigurationError, match="was run before: make a new Operator"):
        await operator.run()
    with pytest.raises(ConfigurationError, match="ConfigMap was added after the start"):
        operator.controller(kinds.ConfigMap)
    with pytest.raises(ConfigurationError, match="a rule was added after the start"):
        operator.rule(PolicyRule("", ("secrets",), ("get",)))
    with pytest.raises(ConfigurationError, match=r"webhook at .* was added after the start"):
        validating(operator)
    with pytest.raises(ConfigurationError, match="Thing to Thing was added after the start"):
        operator.convert(Thing, Thing)(lambda thing: thing)


@pytest.mark.parametrize("where", ["development", "namespace"])
async def test_a_copy_has_not_run_and_declares_nothing_on_the_original(
    where: str, tmp_path: Any
) -> None:
    """A copy of what ran takes more and runs; the original stays as it was."""
    operator = Operator("app")
    operator.controller(Thing, namespaces=["a", "b"]).reconcile(reconcile)
    with pytest.raises(ConfigurationError, match="no kubeconfig"):
        await operator.run(kubeconfig=str(tmp_path / "none"))
    before = operator.rules()
    async with Client(ClientConfig("http://127.0.0.1:1")) as client:
        if where == "development":
            copy = operator.for_development(client, alone=True)
        else:
            copy = operator.confined("here", client)
        copy.controller(kinds.ConfigMap).reconcile(reconcile)
        copy.rule(PolicyRule("", ("secrets",), ("get",)))
        validating(copy)
        assert copy.rules() != before == operator.rules()
        assert operator.kinds() == [kind_of(Thing)]
        assert not operator.webhooks.endpoints
        running = asyncio.create_task(copy.run(webhook_port=None))
        await asyncio.sleep(0)
        copy.stop()
        await asyncio.wait_for(running, 10)


def test_a_controllers_copy_watches_what_it_is_confined_to() -> None:
    """One namespace where its kind lives in any; what the original does if none is given."""
    things = Controller(Thing, namespaces=["a", "b"])
    assert things.confined(None).namespaces == things.namespaces == ("a", "b")
    assert things.confined("c").namespaces == ("c",)
    assert Controller(kinds.Node).confined("c").namespaces is None


def validating(operator: Operator, kind: Any = Thing, **options: Any) -> None:
    """Give an Operator a validating webhook."""

    @operator.validate(kind, **options)
    async def check(request: AdmissionRequest[Any]) -> None:
        """Allow everything."""


def converting(operator: Operator) -> None:
    """Give an Operator both converters of Thing."""

    @operator.convert(ThingV1Alpha1, Thing)
    def upgrade(old: ThingV1Alpha1) -> Thing:
        return Thing(metadata=old.metadata, spec=old.spec)

    @operator.convert(Thing, ThingV1Alpha1)
    def downgrade(thing: Thing) -> ThingV1Alpha1:
        return ThingV1Alpha1(metadata=thing.metadata, spec=thing.spec)


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of a kind."""
    return [each for each in documents if each["kind"] == kind]


def grace_seconds(operator: Operator) -> int:
    """The pods' grace period."""
    pod = of_kind(operator.manifests(), "Deployment")[0]["spec"]["template"]["spec"]
    seconds: int = pod["terminationGracePeriodSeconds"]
    return seconds


def test_the_decorators_leave_the_functions_as_they_are() -> None:
    """They can be called and tested as they were written."""

    def check(request: AdmissionRequest[Any]) -> None:
        """Allow everything."""

    def default(request: AdmissionRequest[Any]) -> None:
        """Change nothing."""

    def upgrade(old: ThingV1Alpha1) -> Thing:
        return Thing(metadata=old.metadata, spec=old.spec)

    operator = Operator("app")
    assert operator.validate(Thing)(check) is check
    assert operator.mutate(Thing)(default) is default
    assert operator.convert(ThingV1Alpha1, Thing)(upgrade) is upgrade
    paths = [each.path for each in operator.webhooks.endpoints]
    assert paths == [f"/validate/things.{GROUP}/v1", f"/mutate/things.{GROUP}/v1", "/convert"]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda operator: operator.validate(reconcile),
            r"validate\(<function.*: write @operator.va",
        ),
        (lambda operator: operator.mutate("Thing"), r"mutate\('Thing'\): write @operator.mutate\("),
        (lambda operator: operator.convert(1, Thing), r"convert\(1, .*with CustomResource classes"),
        (lambda operator: operator.convert(Thing, kinds.Pod), "with CustomResource classes"),
    ],
)
def test_a_decorator_without_its_kind_is_refused(declare: Any, message: str) -> None:
    """The error shows what was given and how to write it."""
    with pytest.raises(ConfigurationError, match=message):
        declare(Operator("app"))


def test_webhooks_alone_are_enough_to_run() -> None:
    """An operator need not have a controller."""
    operator = Operator("app")
    validating(operator)
    operator.check_complete()


def test_a_version_without_converter_is_refused_before_the_run() -> None:
    """Whether the version is known by the converters or by a controller."""

    class ThingV1Beta1(CustomResource, group=GROUP, kind="Thing", version="v1beta1", storage=False):
        """A version in between."""

        spec: Spec = Spec()

    operator = Operator("app")
    converting(operator)
    operator.check_complete()
    operator.controller(Thing, versions=[ThingV1Beta1]).reconcile(reconcile)
    with pytest.raises(ConfigurationError, match=r"no converter for .*v1beta1 to v1"):
        operator.check_complete()


def raw(obj: dict[str, Any], desired_version: str) -> dict[str, Any]:
    """Convert nothing."""
    return obj


def test_a_raw_conversion_calls_from_the_crds_of_its_kinds() -> None:
    """Its own path stands in a CRD that a class makes; what that may need is known exactly."""
    operator = Operator("app")
    operator.controller(Thing).reconcile(reconcile)
    operator.webhooks.convert("/raw", raw, kinds=[Thing, ThingV1Alpha1])
    operator.check_complete()
    documents = operator.manifests(namespace="n")
    (crd,) = of_kind(documents, "CustomResourceDefinition")
    assert [each["name"] for each in crd["spec"]["versions"]] == ["v1", "v1alpha1"]
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == "/raw"
    (role,) = of_kind(documents, "ClusterRole")
    (rule,) = (each for each in role["rules"] if "customresourcedefinitions" in each["resources"])
    assert rule["resourceNames"] == [f"things.{GROUP}"]
    declared = operator._declaration
    assert declared.needs_conversion(kind_of(ThingV1Alpha1))
    assert not declared.needs_conversion(Kind(f"{GROUP}/v1", "Other", "others"))
    assert service_targets(operator) == (f"things.{GROUP}",)


def test_a_raw_conversion_of_a_kind_given_as_a_value() -> None:
    """The CRD is somebody else's, its caBundle is kept all the same."""
    operator = Operator("app")
    operator.controller(Thing).reconcile(reconcile)
    other = Kind(f"{GROUP}/v1", "Other", "others")
    operator.webhooks.convert("/raw", raw, kinds=[other])
    documents = operator.manifests()
    (crd,) = of_kind(documents, "CustomResourceDefinition")
    assert crd["metadata"]["name"] == f"things.{GROUP}"
    assert "conversion" not in crd["spec"]
    (role,) = of_kind(documents, "ClusterRole")
    (rule,) = (each for each in role["rules"] if "customresourcedefinitions" in each["resources"])
    assert rule["resourceNames"] == [f"others.{GROUP}"]
    assert {"get", "watch", "patch"} <= set(rule["verbs"])
    assert service_targets(operator) == (f"others.{GROUP}",)
    assert operator._declaration.needs_conversion(other)
    assert not operator._declaration.needs_conversion(kind_of(Thing))


def service_targets(operator: Operator) -> tuple[str, ...]:
    """The CRDs whose caBundle a running operator keeps."""
    service = operator._service(0, None)
    assert service is not None
    return service._targets("app", "app").crds


def test_a_raw_conversion_of_unknown_kinds_is_refused_before_the_run() -> None:
    """Else no CRD would call it, and no caBundle be written."""
    operator = Operator("app")
    operator.webhooks.convert("/raw", raw)
    with pytest.raises(ConfigurationError, match=r"at /raw: write .*convert\('/raw', .*kinds=\["):
        operator.check_complete()


def test_a_kind_is_converted_at_one_path() -> None:
    """A CRD has room for one; by classes and raw, or raw twice."""
    operator = Operator("app")
    converting(operator)
    operator.webhooks.convert("/raw", raw, kinds=[Kind(f"{GROUP}/v2", "Thing", "things")])
    with pytest.raises(ConfigurationError, match=rf"things\.{GROUP} is .* /convert and at /raw"):
        operator.check_complete()


def test_manifests_hold_what_webhooks_need() -> None:
    """Configurations at the end, a port, the right to keep the certificate; no caBundle."""
    operator = Operator("app")
    validating(operator)
    operator.mutate(kinds.Pod)(lambda request: None)
    converting(operator)
    documents = operator.manifests(namespace="n")
    assert [each["kind"] for each in documents[-2:]] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]
    config = documents[-1]["webhooks"][0]["clientConfig"]
    assert config == {
        "service": {
            "name": "app",
            "namespace": "n",
            "path": f"/validate/things.{GROUP}/v1",
            "port": 443,
        }
    }
    (crd,) = of_kind(documents, "CustomResourceDefinition")
    assert [each["name"] for each in crd["spec"]["versions"]] == ["v1", "v1alpha1"]
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == "/convert"
    (role,) = of_kind(documents, "Role")
    assert role["rules"][-1]["resourceNames"] == ["app-webhook-certificate"]
    rules = str(of_kind(documents, "ClusterRole"))
    assert "validatingwebhookconfigurations" in rules
    assert "customresourcedefinitions" in rules
    assert "9443" in str(of_kind(documents, "Deployment"))


def test_manifests_by_url_call_no_service() -> None:
    """For an operator outside of the cluster; its paths are appended."""
    operator = Operator("app")
    validating(operator)
    converting(operator)
    documents = operator.manifests(webhook_url="https://host:1234")
    urls = [documents[-1]["webhooks"][0]["clientConfig"]["url"]]
    (crd,) = of_kind(documents, "CustomResourceDefinition")
    urls += [crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"]]
    assert urls == [f"https://host:1234/validate/things.{GROUP}/v1", "https://host:1234/convert"]
    assert operator.crds(webhook_url="https://host:1234") == [crd]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://127.0.0.1:9443", None),
        ("https://[0:0::1]:9443", None),
        ("https://Host.Example.com", None),
        ("https://any.example.org.", None),
        ("https://app.n.svc", None),
        ("https://127.0.0.2:9443", "127.0.0.2"),
        ("https://app.other.svc", "app.other.svc"),
        ("https://one.any.example.org", "one.any.example.org"),
        ("https://[::2]", "::2"),
    ],
)
def test_a_host_that_the_certificate_does_not_name_is_known(url: str, host: str | None) -> None:
    """Names are compared as TLS does, the Service's among them; without webhooks none matters."""
    operator = Operator("app")
    names = ["127.0.0.1", "::1", "host.example.com", "*.example.org"]
    operator.certificate(names=names)
    assert operator.unnamed_host(url, "n") is None
    validating(operator)
    assert operator.unnamed_host(url, "n") == host


@pytest.mark.parametrize(
    ("called", "is_ours"),
    [
        ({"service": {"name": "app", "namespace": "n", "path": "/raw"}}, True),
        ({"service": {"name": "app", "namespace": "other", "path": "/raw"}}, False),
        ({"service": {"name": "other", "namespace": "n", "path": "/raw"}}, False),
        ({"url": "https://127.0.0.1:9443/base/raw"}, True),
        ({"url": "https://127.0.0.1:9443/other"}, False),
        ({"url": "https://127.0.0.2:9443/raw"}, False),
        (None, False),
    ],
)
def test_whom_a_crd_calls_for_conversions_is_known(
    called: dict[str, Any] | None, is_ours: bool
) -> None:
    """By Service, or by a URL with our path at a host that our certificate names."""
    operator = Operator("app")
    operator.certificate(names=["127.0.0.1"])
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": called}} if called else {}
    document = {"metadata": {"name": f"things.{GROUP}"}, "spec": {"conversion": conversion}}
    assert not operator.converts(document, "n")
    kind = Kind(f"{GROUP}/v1", "Thing", "things")
    operator.webhooks.convert("/raw", lambda obj, _: obj, kinds=[kind])
    assert operator.converts(document, "n") is is_ours


def test_a_kind_given_as_a_value_has_no_crd() -> None:
    """Its CRD is somebody else's."""
    operator = Operator("app")
    validating(operator, Kind(f"{GROUP}/v1", "Thing", "things"))
    assert operator.crds() == []
    validating(operator, name=f"second.things.{GROUP}", path="/second")
    assert [each["metadata"]["name"] for each in operator.crds()] == [f"things.{GROUP}"]


def test_a_service_and_a_secret_of_ones_own() -> None:
    """What stands in for the defaults stands in the manifests."""
    operator = Operator("app")
    operator.certificate(secret="tls", service="hooks")
    validating(operator)
    documents = operator.manifests()
    assert documents[-1]["webhooks"][0]["clientConfig"]["service"]["name"] == "hooks"
    assert of_kind(documents, "Role")[0]["rules"][-1]["resourceNames"] == ["tls"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"secret": "A_b"}, "certificate: secret 'A_b' is not a DNS subdomain"),
        ({"service": "a.b"}, "certificate: service 'a.b' is not a DNS label"),
        ({"names": "host"}, r"certificate: names='host': pass a list"),
        ({"names": [5]}, "one of names=5: pass DNS names"),
        ({"names": ["exämple"]}, "certificate name 'exämple': give DNS names"),
        ({"names": ["https://host"]}, "without scheme, port and path"),
        ({"names": ["host:9443"]}, "without scheme, port and path"),
        ({"names": ["fe80::1%eth0"]}, "certificate name 'fe80::1%eth0'"),
        ({"names": [""]}, "certificate name ''"),
        ({"lifetime_seconds": 0}, "lifetime_seconds=0: use a finite number"),
        ({"lifetime_seconds": 1e12}, "lifetime_seconds=1e.12: use at most a hundred years"),
        ({"stage_seconds": float("inf")}, "stage_seconds=inf: use a finite number"),
        ({"lifetime_seconds": 60}, r"=60 with stage_seconds=60: let .* at least 12 stages"),
    ],
)
def test_a_certificate_that_can_not_be_kept_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    """The error names operator and argument."""
    with pytest.raises(ConfigurationError, match=message):
        Operator("app").certificate(**arguments)


def test_a_certificates_names_are_kept_in_their_normal_form() -> None:
    """As a certificate says them: what it has is not missed, and renewed for ever."""
    operator = Operator("app")
    operator.certificate(names=["0:0:0:0:0:0:0:1", "Hooks.Example.com"])
    assert operator._declaration.certificate.names == ("::1", "hooks.example.com")


@pytest.mark.parametrize(
    ("durations", "timeout", "seconds"),
    [
        ({}, 10, 45),
        ({}, 1, 45),
        ({}, 30, 65),
        ({"drain_seconds": 2, "lag_seconds": 10}, 10, 25),
    ],
)
def test_the_pods_grace_period_follows_lag_and_calls_too(
    durations: dict[str, Any], timeout: int, seconds: int
) -> None:
    """The lag beside the drain, then the longest call."""
    operator = Operator("app", **durations)
    validating(operator, timeout_seconds=timeout)
    assert grace_seconds(operator) == seconds
    plain = Operator("app", lag_seconds=100)
    plain.controller(Thing)
    assert grace_seconds(plain) == 45


@pytest.mark.parametrize("seconds", [-1, float("inf"), "5"])
def test_a_lag_that_is_no_time_is_refused(seconds: Any) -> None:
    """The error names operator and argument."""
    with pytest.raises(ConfigurationError, match="operator app: lag_seconds"):
        Operator("app", lag_seconds=seconds)


def test_finalizers_are_known_by_kind() -> None:
    """For who takes them off when the operator is gone."""
    operator = Operator("app")
    things = operator.controller(Thing)
    operator.controller(kinds.ConfigMap)

    @things.finalizer("example.com/data")
    async def cleanup(thing: Thing, ctx: Context) -> None:
        """Clean up nothing."""

    assert operator.finalizers() == {things.kind: ["example.com/data"]}


def sharing(one: Any, two: Any) -> Operator:
    """An Operator whose two controllers have the same finalizer."""
    operator = Operator("app")
    for name, options in (("one", one), ("two", two)):
        given = dict(options)
        controller = operator.controller(given.pop("kind", Thing), name=name, **given)

        @controller.reconcile
        @controller.finalizer("example.com/data")
        async def handle(obj: Any, ctx: Context) -> None:
            """Do nothing."""

    return operator


SHARD = {"label_selector": "shard=1"}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({}, {}),
        ({}, {"kind": ThingV1Alpha1}),
        ({}, {"namespaces": ["a"]}),
        ({}, SHARD),
        (SHARD, SHARD),
        ({"namespaces": ["a"]}, {"namespaces": ["a", "b"]}),
        (SHARD, {"field_selector": "metadata.name=x"}),
    ],
)
def test_a_finalizer_of_two_that_are_no_shards_is_refused(one: Any, two: Any) -> None:
    """The cleanup that succeeds first would drop the other's, which nobody would try again."""
    said = r"one and two both clean up Thing objects under the finalizer example\.com/data"
    with pytest.raises(ConfigurationError, match=said) as refused:
        sharing(one, two).check_complete()
    assert "finalizer of its own" in str(refused.value.remedy)
    with pytest.raises(ConfigurationError, match=said):  # a test learns of it, too
        sharing(one, two).confined("test")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (SHARD, {"label_selector": "shard=2"}),
        ({"namespaces": ["a"]}, {"namespaces": ["b"]}),
        ({}, {"kind": kinds.ConfigMap}),
    ],
)
def test_shards_and_kinds_may_share_a_finalizer(one: Any, two: Any) -> None:
    """One may clean up for the other; a copy that is confined to a namespace may, too."""
    operator = sharing(one, two)
    for each in (operator, operator.confined("test")):
        each.check_complete()
        assert sum(map(len, each.finalizers().values())) == 2


def test_the_package_is_light_to_import() -> None:
    """What only some need is imported when they need it: it costs 40 MB and 0.7 s."""
    heavy = "{'kubernetes_asyncio', 'cryptography', 'click', 'rws_operator.testing'}"
    code = f"import sys, rws_operator; sys.exit(str({heavy} & sys.modules.keys() or ''))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert answer.stderr.strip() == ""
