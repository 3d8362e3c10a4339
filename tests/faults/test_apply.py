"""Applied children beside other writers, the garbage collector and what RBAC allows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import metrics
from rws_operator.client import client as connect
from rws_operator.controller import Backoff, Context
from rws_operator.errors import OwnerReferenceError
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from tests.controller.children import NAMESPACED
from tests.controller.running import (
    ESTATE,
    Estate,
    Widget,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.controller.world import MANAGER, WRITER, world
from tests.faults.gated import CHILD, child, children, gated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rws_operator.resources import PolicyRule
    from rws_operator.testing import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

CONFIG = kinds.ConfigMap
OURS = "example.com/ours"
RBAC = "rbac.authorization.k8s.io"


def _entries(obj: dict[str, Any], manager: str) -> list[str]:
    """A manager's entries of managedFields: by what, and of which subresource."""
    entries = obj["metadata"]["managedFields"]
    return sorted(
        e["operation"] + e.get("subresource", "") for e in entries if e["manager"] == manager
    )


def _data(obj: dict[str, Any] | None) -> dict[str, str]:
    assert obj is not None
    return dict(obj.get("data", {}))


def in_two_releases(namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A child as an earlier release made it, and as this one wants it: without one field."""
    made, wanted = child("child", a="1", b="2"), child("child", a="1")
    for each in (made, wanted):
        each["metadata"] |= {"namespace": namespace}
    return made, wanted


@pytest.mark.behaviour("STA-02", "B19")
async def test_what_an_earlier_release_made_by_update_is_taken_over(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Fields of ours that the document does not name go; those of others, and finalizers, stay."""
    name = namespace.name
    made = child("child", a="1", b="2")
    made["metadata"] |= {"namespace": name, "finalizers": [OURS], "annotations": {"old": "yes"}}
    await cluster.client.create(made, field_manager=MANAGER)
    theirs = {"data": {"theirs": "3"}, "metadata": {"labels": {"theirs": "yes"}}}
    owner = await cluster.client.patch(CONFIG, "child", name, patch=theirs, field_manager="other")
    owner = await cluster.client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": name}}
    )
    async with world(cluster.client, owned=[CONFIG], namespace=name) as here:
        answer = await here.context().apply_owned(owner, child("child", a="1"))
        assert here.write_count == 2
        assert _data(answer) == {"a": "1", "theirs": "3"}
        assert _data(await here.context().get(CONFIG, "child", name)) == _data(answer)
        on_server = await cluster.client.get(CONFIG, "child", name)
        assert on_server["metadata"]["labels"] == {**CHILD, "theirs": "yes"}
        assert "annotations" not in on_server["metadata"]
        assert on_server["metadata"]["finalizers"] == [OURS]
        assert _entries(on_server, MANAGER) == ["Apply", "Update"]
        assert all(delta.writer == WRITER for delta in here.deltas), "an own write counts as one"

        for _ in range(2):
            await here.context().apply_owned(owner, child("child", a="1"))
            assert here.write_count == 0
            await here.restart()
    await cluster.client.patch(CONFIG, "child", name, patch={"metadata": {"finalizers": None}})


@pytest.mark.behaviour("STA-02")
async def test_only_the_first_apply_takes_over(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """What we patch beside our applies stays; what somebody else made costs one write."""
    name = namespace.name
    for each in ("ours", "others"):
        made = child(each, a="1", b="2")
        made["metadata"] |= {"namespace": name}
        manager = MANAGER if each == "ours" else "other"
        await cluster.client.create(made, field_manager=manager)
    async with world(cluster.client, owned=[CONFIG], namespace=name) as here:
        wanted = {each: child(each, a="1") for each in ("ours", "others")}
        for document in wanted.values():
            document["metadata"]["namespace"] = name
        await here.context().apply(wanted["others"])
        assert here.write_count == 1
        await here.context().apply(wanted["ours"])
        patched = await here.context().client.patch(
            CONFIG, "ours", name, patch={"data": {"c": "3"}}, field_manager=MANAGER
        )
        assert _data(patched) == {"a": "1", "c": "3"}
        await here.restart()
        wanted["ours"]["data"]["a"] = "2"
        answer = await here.context().apply(wanted["ours"])
        assert here.write_count == 1
        assert _data(answer) == {"a": "2", "c": "3"}
        on_server = await cluster.client.get(CONFIG, "others", name)
        assert _data(on_server) == {"a": "1", "b": "2"}


@pytest.mark.behaviour("STA-02")
async def test_a_kind_that_is_not_declared_is_applied_as_it_is(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Each apply is sent, and takes over nothing of what an earlier release made by update."""
    name = namespace.name
    made, wanted = in_two_releases(name)
    await cluster.client.create(made, field_manager=MANAGER)
    async with world(cluster.client, owned=[], namespace=name) as here:
        for _ in range(2):
            assert _data(await here.context().apply(wanted)) == {"a": "1", "b": "2"}
            assert here.write_count == 1
            assert here.client.reads == []


@pytest.mark.behaviour("STA-02")
async def test_a_change_while_it_is_taken_over_is_kept(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The object changes between the reading and the patch."""
    name = namespace.name
    made, wanted = in_two_releases(name)
    async with world(cluster.client, owned=[CONFIG], namespace=name) as here:

        async def change() -> None:
            patch = {"data": {"b": "theirs"}}
            await cluster.client.patch(CONFIG, "child", name, patch=patch, field_manager="other")

        await here.cached(CONFIG, await cluster.client.create(made, field_manager=MANAGER))
        here.client.before_write = change
        answer = await here.context().apply(wanted)
        assert _data(answer) == {"a": "1", "b": "theirs"}


@pytest.mark.behaviour("STA-02")
async def test_what_goes_while_it_is_taken_over_is_made_anew(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Between the reading and the patch; that it went is known before the watch tells of it."""
    name = namespace.name
    made, wanted = in_two_releases(name)

    async def delete() -> None:
        await cluster.client.delete(CONFIG, "child", name)

    async with (
        gated(cluster) as behind,
        world(behind.client, owned=[CONFIG], namespace=name) as here,
    ):
        await here.cached(CONFIG, await cluster.client.create(made, field_manager=MANAGER))
        here.client.before_write = delete
        with behind.lag("configmaps"):
            answer = await here.context().apply(wanted)
            assert _data(answer) == {"a": "1"}
            assert _data(await here.context().get(CONFIG, "child", name)) == {"a": "1"}
            assert here.deltas[-2].new is None
            assert here.deltas[-1].writer == WRITER


@pytest.mark.behaviour("B19")
@pytest.mark.timeout(240)
async def test_an_autoscaler_keeps_the_replicas_and_kubectl_its_label(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The controller manager's own autoscaler, while we go on changing the pods."""
    name = namespace.name
    document = NAMESPACED["Deployment"].named("web")
    document["metadata"]["namespace"] = name
    document["spec"].pop("replicas", None)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": name},
        "spec": {"minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": target},
    }
    async with world(cluster.client, owned=[kinds.Deployment], namespace=name) as here:
        await here.context().apply(document)
        await cluster.client.create(scaler)

        async def is_scaled() -> bool:
            held = await cluster.client.get(kinds.Deployment, "web", name)
            return bool(held["spec"]["replicas"] == 3)

        metadata = {"name": "web", "namespace": name, "labels": {"theirs": "yes"}}
        await cluster.client.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata},
            field_manager="kubectl",
        )
        await eventually(120, is_scaled, every=0.5)
        for image in ("web:2", "web:3"):
            document["spec"]["template"]["spec"]["containers"][0]["image"] = image
            await here.context().apply(document)
            held = await cluster.client.get(kinds.Deployment, "web", name)
            assert held["spec"]["replicas"] == 3
            assert held["spec"]["template"]["spec"]["containers"][0]["image"] == image
            assert held["metadata"]["labels"]["theirs"] == "yes"
            assert _entries(held, "kubectl") == ["Apply"]
            (ours,) = [e for e in held["metadata"]["managedFields"] if e["manager"] == MANAGER]
            assert "f:replicas" not in ours["fieldsV1"]["f:spec"]
    await cluster.client.delete(kinds.HorizontalPodAutoscaler, "web", name)


@pytest.mark.behaviour("B20")
@pytest.mark.timeout(240)
async def test_the_garbage_collector_keeps_what_may_be_owned(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Each pair of scopes: refused before a request, or kept while a dead owner's child goes."""
    name = namespace.name
    widgets = await widgets_in(cluster, name)
    await cluster.install_crd(Estate)
    widget = await widgets.create()
    named = {"name": f"estate-{name}"}
    estate = await cluster.client.create(
        {"apiVersion": ESTATE.api_version, "kind": "Estate", "metadata": named, "spec": {}},
        kind=ESTATE,
    )
    elsewhere = child("c")
    elsewhere["metadata"]["namespace"] = "default"
    cluster_scoped = {
        "apiVersion": ESTATE.api_version,
        "kind": "Estate",
        "metadata": {"name": "never"},
        "spec": {},
    }
    async with world(cluster.client, owned=[CONFIG], main=[Widget, Estate], namespace=name) as here:
        ctx = here.context()
        for owned in (elsewhere, cluster_scoped):
            with pytest.raises(OwnerReferenceError):
                await ctx.apply_owned(widget, owned)
        assert here.write_count == 0
        of_estate = child("of-estate")
        of_estate["metadata"]["namespace"] = name
        await ctx.apply_owned(estate, of_estate)
        await ctx.apply_owned(widget, child("of-widget"))
        for owner in (estate, widget):
            kind = owner["kind"]
            dead = {
                "apiVersion": ESTATE.api_version,
                "kind": kind,
                "name": owner["metadata"]["name"],
                "uid": "00000000-0000-0000-0000-000000000000",
            }
            orphan = child(f"of-dead-{kind.lower()}")
            orphan["metadata"] |= {"namespace": name, "ownerReferences": [dead]}
            await cluster.client.create(orphan)

        async def only_ours() -> bool:
            held = await children(cluster, name)
            return [each["metadata"]["name"] for each in held] == ["of-estate", "of-widget"]

        await eventually(90, only_ours, every=0.5)
    await cluster.client.delete(ESTATE, named["name"])


@pytest.mark.behaviour("B20")
@pytest.mark.timeout(240)
async def test_an_owner_made_again_adopts_nothing_by_its_name(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Orphaned children are not pruned; one that is applied again gets the new owner's uid."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG])
    applied = ["kept", "extra"]
    pruned: list[tuple[str, list[str]]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        for name in applied:
            await ctx.apply_owned(widget, child(name, size=str(widget.spec.size)))
        keys = await ctx.prune(widget, [CONFIG])
        pruned.append((str(widget.metadata.uid), [key.name for key in keys]))

    async def owners() -> dict[str, list[str]]:
        return {
            each["metadata"]["name"]: [
                owner["uid"] for owner in each["metadata"].get("ownerReferences", ())
            ]
            for each in await children(cluster, namespace.name)
        }

    old = (await widgets.create())["metadata"]["uid"]
    async with running(cluster.client, controller):

        async def are(wanted: dict[str, list[str]]) -> bool:
            return await owners() == wanted

        async def is_gone() -> bool:
            return not await cluster.client.list(Widget, namespace.name)

        await eventually(20, lambda: are({"kept": [old], "extra": [old]}))
        uids = {
            e["metadata"]["name"]: e["metadata"]["uid"]
            for e in await children(cluster, namespace.name)
        }
        await settled(lambda: len(pruned))
        await cluster.client.delete(Widget, "w", namespace.name, propagation="Orphan")
        await eventually(60, lambda: are({"kept": [], "extra": []}))
        await eventually(20, is_gone)  # the children are released first
        applied.remove("extra")
        new = (await widgets.create(size=2))["metadata"]["uid"]
        await eventually(20, lambda: are({"kept": [new], "extra": []}))
        await settled(lambda: len(pruned))
        assert {uid: names for uid, names in pruned if names} == {}
        assert pruned[-1] == (new, [])
        held = await children(cluster, namespace.name)
        assert {e["metadata"]["name"]: e["metadata"]["uid"] for e in held} == uids
        assert {e["metadata"]["name"]: e["data"]["size"] for e in held} == {
            "kept": "2",
            "extra": "1",
        }


@pytest.mark.behaviour("DEP-02")
async def test_two_children_of_one_kind_are_kept_apart(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """One can't be applied, is changed, or is pruned: the other is not written."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG], on_error=Backoff(first=0.05))
    wanted = ["b", "a"]
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        for name in wanted:
            await ctx.apply_owned(widget, child(name, of=name))
        await ctx.prune(widget, [CONFIG])

    async def held() -> dict[str, dict[str, Any]]:
        return {e["metadata"]["name"]: e for e in await children(cluster, namespace.name)}

    async with gated(cluster) as behind, running(behind.client, controller):
        refused = behind.gate.answer(500, times=3, verb="patch", resource="configmaps", name="a")
        await widgets.create()
        await refused.reached(3)
        await eventually(20, lambda: _has(held, "a", "b"))
        other = (await held())["b"]["metadata"]["resourceVersion"]
        assert behind.writes("configmaps", name="b") == 1

        spoilt = await cluster.client.patch(
            CONFIG, "a", namespace.name, patch={"data": {"of": "theirs"}}
        )

        async def is_repaired() -> bool:
            return bool((await held())["a"]["data"] == {"of": "a"})

        assert spoilt["data"] == {"of": "theirs"}
        await eventually(20, is_repaired)
        wanted.remove("a")
        await widgets.resize(2)
        await eventually(20, lambda: _has(held, "b"))
        await settled(lambda: len(runs))
        assert behind.writes("configmaps", name="b") == 1
        assert (await held())["b"]["metadata"]["resourceVersion"] == other


async def _has(held: Any, *names: str) -> bool:
    return sorted(await held()) == sorted(names)


@contextlib.asynccontextmanager
async def _account(
    cluster: TestCluster, plane: ControlPlane, namespace: str, rules: Sequence[PolicyRule]
) -> AsyncIterator[Any]:
    """The client of a ServiceAccount that has these rules in one namespace, and gives it more."""

    async def grant(name: str, rules: Sequence[PolicyRule]) -> None:
        metadata = {"name": name, "namespace": namespace}
        version = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        await cluster.client.create(
            {**version, "kind": "Role", "rules": [rule.to_wire() for rule in rules]}
        )
        subject = {"kind": "ServiceAccount", "name": "operator", "namespace": namespace}
        reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
        await cluster.client.create(
            {**version, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
        )

    account = {"metadata": {"name": "operator", "namespace": namespace}}
    await cluster.client.create({"apiVersion": "v1", "kind": "ServiceAccount", **account})
    await grant("operator", rules)
    kubeconfig = await plane.service_account_kubeconfig(namespace, "operator")
    async with await connect(str(kubeconfig)) as client:
        yield client, grant


def _is_about(rule: PolicyRule, resource: str) -> bool:
    return any(resource in each for each in rule.to_wire()["resources"])


@pytest.mark.behaviour("B20")
async def test_the_rules_of_a_controller_let_it_own(
    cluster: TestCluster, control_plane: ControlPlane, namespace: TestNamespace
) -> None:
    """Its ServiceAccount may block an owner's deletion by its rules, and not without that one."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG], on_error=Backoff(first=0.5))
    errors: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        try:
            await ctx.apply_owned(widget, child("child"))
        except Exception as error:
            errors.append(str(error))
            raise

    rules = controller.rules()
    without = [rule for rule in rules if not _is_about(rule, "widgets/finalizers")]
    assert len(without) == len(rules) - 1
    async with (
        _account(cluster, control_plane, namespace.name, without) as (client, grant),
        running(client, controller),
    ):
        await widgets.create()
        await eventually(30, lambda: errors)
        assert "blockOwnerDeletion" in errors[0] or "finalizers" in errors[0], errors[0]
        assert await children(cluster, namespace.name) == []
        await grant("owner", [rule for rule in rules if rule not in without])
        (made,) = await eventually(60, lambda: children(cluster, namespace.name))
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["name"], owner["blockOwnerDeletion"]) == ("w", True)


@pytest.mark.behaviour("B29")
async def test_events_that_are_forbidden_stop_no_run(
    cluster: TestCluster,
    control_plane: ControlPlane,
    namespace: TestNamespace,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By real RBAC: each is counted, one warning names the permission, and they come once given."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    sizes: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        sizes.append(widget.spec.size)
        await ctx.event(widget, "Sized", f"it is {widget.spec.size}")

    def failed() -> float:
        return float(metrics.events.labels("failed")._value.get())

    async def told() -> list[str]:
        found = await cluster.client.list(kinds.Event, namespace.name)
        return [each["message"] for each in found if each["reason"] == "Sized"]

    async def may_tell() -> bool:
        resource = {"group": "events.k8s.io", "resource": "events"}
        asked = {"namespace": namespace.name, "verb": "create", **resource}
        spec = {"resourceAttributes": asked}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = await client.create(review | {"spec": spec}, kind=kinds.SelfSubjectAccessReview)
        return bool(answer["status"]["allowed"])

    rules = controller.rules()
    without = [rule for rule in rules if not _is_about(rule, "events")]
    before = failed()
    async with (
        _account(cluster, control_plane, namespace.name, without) as (client, grant),
        running(client, controller),
    ):
        await widgets.create(size=1)
        await eventually(30, lambda: sizes == [1])
        for size in (2, 3, 4):
            await widgets.resize(size)
            await eventually(15, lambda: sizes[-1:] == [size])  # noqa: B023
        await eventually(15, lambda: failed() - before == 4)
        assert await told() == []
        await grant("events", [rule for rule in rules if rule not in without])
        await eventually(60, may_tell)
        await widgets.resize(5)
        assert await eventually(30, told) == ["it is 5"]
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 0
    warnings = [
        each.message for each in caplog.records if "events can't be written" in each.message
    ]
    assert len(warnings) == 1
    assert "create and patch on events.events.k8s.io" in warnings[0]


@pytest.mark.behaviour("B29")
async def test_events_of_a_namespace_that_ends_are_dropped_in_silence(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The cleanup of its objects tells of what it does; nothing is logged, nothing held up."""
    made = await cluster.namespace("ending")
    widgets = await widgets_in(cluster, made.name)
    controller = widgets_controller(made.name)
    cleaned: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        cleaned.append(str(widget.metadata.name))
        await ctx.event(widget, "Cleaned", "it is gone")

    failed = float(metrics.events.labels("failed")._value.get())
    async with running(cluster.client, controller):
        await widgets.create()

        async def has_finalizer() -> bool:
            return OURS in (await widgets.get())["metadata"].get("finalizers", ())

        await eventually(20, has_finalizer)
        caplog.clear()
        await made.delete()
        await eventually(60, lambda: cleaned == ["w"])
        await eventually(15, lambda: metrics.events.labels("failed")._value.get() == failed + 1)

        async def gone() -> bool:
            return not await cluster.client.list(Widget, made.name)

        await eventually(30, gone)
    assert [each.message for each in caplog.records if each.levelname != "INFO"] == []
