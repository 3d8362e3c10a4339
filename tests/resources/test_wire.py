"""Kinds and wire data of every form that an object may have."""

import datetime
import subprocess
import sys
from typing import Any

import pytest
from kubernetes_asyncio import client as kubernetes

from rws_operator.client import Client
from rws_operator.errors import ConfigurationError, NotFound
from rws_operator.resources import (
    CustomResource,
    Kind,
    Model,
    ObjectMeta,
    group_and_plural,
    kind_of,
    kinds,
    to_wire,
)
from rws_operator.testing.cluster import TestCluster, TestNamespace

SERVED_SINCE = {
    "ClusterTrustBundle": 37,
    "DeviceTaintRule": 37,
    "MutatingAdmissionPolicy": 36,
    "MutatingAdmissionPolicyBinding": 36,
    "PodCertificateRequest": 37,
    "StorageVersionMigration": 37,
}
"""The minor releases that first have a kind in its version; all others are older than 1.34."""


class Widget(CustomResource, group="a.com", version="v1"):
    """A custom resource."""


class Status(Model):
    """A status."""

    ready: bool = False
    note: str | None = None


def cron_job(**more: Any) -> Any:
    """A CronJob as a kubernetes_asyncio model."""
    container = kubernetes.V1Container(name="c", image="i", args=["a"], env=[])
    pod = kubernetes.V1PodTemplateSpec(
        spec=kubernetes.V1PodSpec(
            containers=[container],
            restart_policy="Never",
            host_network=False,
            node_selector={"some_label": "x"},
        )
    )
    job = kubernetes.V1JobTemplateSpec(spec=kubernetes.V1JobSpec(template=pod, backoff_limit=0))
    return kubernetes.V1CronJob(
        metadata=kubernetes.V1ObjectMeta(
            name="j",
            creation_timestamp=datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC),
        ),
        spec=kubernetes.V1CronJobSpec(schedule="* * * * *", job_template=job),
        **more,
    )


def scaler() -> Any:
    """An autoscaler as a kubernetes_asyncio model."""
    target = kubernetes.V2CrossVersionObjectReference(kind="Deployment", name="d")
    spec = kubernetes.V2HorizontalPodAutoscalerSpec(max_replicas=2, scale_target_ref=target)
    return kubernetes.V2HorizontalPodAutoscaler(spec=spec)


def test_a_kubernetes_model() -> None:
    """Nested models, lists and dates come out in camelCase; falsy values stay, None goes."""
    assert to_wire(cron_job()) == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "j", "creationTimestamp": "2024-01-01T01:00:00Z"},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 0,
                    "template": {
                        "spec": {
                            "containers": [{"name": "c", "image": "i", "args": ["a"], "env": []}],
                            "restartPolicy": "Never",
                            "hostNetwork": False,
                            "nodeSelector": {"some_label": "x"},
                        }
                    },
                }
            },
        },
    }


async def test_the_server_takes_a_kubernetes_model(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Our form of the model is one that the API server accepts."""
    wire = to_wire(cron_job())
    made = await cluster.client.create(wire, namespace=namespace.name)
    assert made["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0


def test_the_other_forms() -> None:
    """A mapping is copied, an instance gets its type, a status is written whole."""
    mapping = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    copy = to_wire(mapping)
    copy["kind"] = "x"
    assert mapping["kind"] == "Pod"
    assert to_wire(Widget(metadata=ObjectMeta(name="w"))) == {
        "apiVersion": "a.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
    }
    assert to_wire(Status()) == {"ready": False, "note": None}
    part = kubernetes.V1ObjectMeta(name="x")
    assert to_wire(part) == {"name": "x"}


@pytest.mark.parametrize(
    ("thing", "kind"),
    [
        (kinds.Pod, kinds.Pod),
        (Widget, Kind("a.com/v1", "Widget", "widgets")),
        (Widget(metadata=ObjectMeta(name="w")), Kind("a.com/v1", "Widget", "widgets")),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, kinds.Deployment),
        (cron_job(api_version="batch/v1", kind="CronJob"), kinds.CronJob),
        (cron_job(), kinds.CronJob),
        (scaler(), kinds.HorizontalPodAutoscaler),
    ],
)
def test_kind_of(thing: Any, kind: Kind) -> None:
    """Each form says its kind."""
    assert kind_of(thing) == kind


def test_group_and_plural() -> None:
    """What a rule or a webhook configuration calls a kind; core has no group."""
    assert group_and_plural(kinds.CronJob) == ("batch", "cronjobs")
    assert group_and_plural(kinds.ConfigMap) == ("", "configmaps")


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (
            {"apiVersion": "a.com/v1", "kind": "Widget"},
            "give it a built-in kind, or pass kind=Kind",
        ),
        ({"metadata": {}}, "give it apiVersion and kind"),
        (CustomResource, "CustomResource is not the class of a kind"),
        (int, "int is not the class of a kind"),
        (3, "an object of type int has no kind: pass a Kind"),
        (kubernetes.V1ObjectMeta(), "a V1ObjectMeta without api_version and kind"),
    ],
)
def test_kind_of_the_unknown(thing: Any, message: str) -> None:
    """The error says what to pass instead."""
    with pytest.raises(ConfigurationError, match=message):
        kind_of(thing)


def test_wire_of_the_unknown() -> None:
    """Anything else can't be sent."""
    nothing: Any = 3
    with pytest.raises(ConfigurationError, match="an object of type int can't be sent"):
        to_wire(nothing)


def test_the_library_is_not_imported() -> None:
    """Knowing models by their shape costs no import of 40 MB."""
    program = "import rws_operator.resources, sys; print('kubernetes_asyncio' in sys.modules)"
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "False"


async def test_built_in_kinds_are_what_the_server_serves(cluster: TestCluster) -> None:
    """Each generated kind stands in discovery with its plural and scope, from a release on."""
    built_in = [value for value in vars(kinds).values() if isinstance(value, Kind)]
    assert len(built_in) > 60
    version = (await cluster.client.request("GET", "/version")).json()
    minor = int(version["minor"].rstrip("+"))
    lacking = {name for name, since in SERVED_SINCE.items() if minor < since}
    served: dict[str, set[tuple[str, str, bool]]] = {}
    for kind in built_in:
        if kind.api_version not in served:
            served[kind.api_version] = await served_kinds(cluster.client, kind)
        is_served = (kind.kind, kind.plural, kind.namespaced) in served[kind.api_version]
        assert is_served == (kind.kind not in lacking), kind
        if not is_served:
            with pytest.raises(NotFound):
                await cluster.client.list(kind)


async def served_kinds(client: Client, kind: Kind) -> set[tuple[str, str, bool]]:
    """What the server has in the kind's group and version: kinds, plurals, whether namespaced."""
    try:
        answer = (await client.request("GET", kind.path().rpartition("/")[0])).json()
    except NotFound:
        return set()
    return {(each["kind"], each["name"], each["namespaced"]) for each in answer["resources"]}
