"""The verbs, on a real API server."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rws_operator import CustomResource, Field, Model, errors, kinds
from rws_operator.client import Client, Impersonation, load_config
from rws_operator.client.token_file import TokenFile
from rws_operator.resources import Kind
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane

GROUP = "client.test.example.com"


class WidgetSpec(Model):
    """What is wanted of a Widget."""

    size: int = Field(default=1, ge=1)
    colour: str | None = None


class WidgetStatus(Model):
    """What became of it."""

    ready: bool = False


class Widget(CustomResource, group=GROUP, version="v1"):
    """A kind of these tests."""

    spec: WidgetSpec
    status: WidgetStatus = WidgetStatus()


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap without a namespace."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, namespace: str, **spec: Any) -> Widget:
    """Return a Widget."""
    return Widget.from_wire({"metadata": {"name": name, "namespace": namespace}, "spec": spec})


@pytest.fixture
def client(cluster: TestCluster) -> Client:
    """An administrator's client."""
    return cluster.client


@pytest.fixture
async def widgets(cluster: TestCluster) -> AsyncIterator[None]:
    """The Widget's CRD."""
    await cluster.install_crd(Widget)
    yield
    await cluster.client.delete(
        kinds.CustomResourceDefinition, f"widgets.{GROUP}", propagation="Background"
    )


async def test_a_dicts_life(client: Client, namespace: TestNamespace) -> None:
    """Create, get, patch, replace, delete a built-in object as dicts."""
    made = await client.create(config_map("a", x="1"), namespace=namespace.name)
    assert made["metadata"]["uid"]
    patched = await client.patch(
        kinds.ConfigMap, "a", namespace.name, patch={"data": {"y": "2"}}, field_manager="tester"
    )
    assert patched["data"] == {"x": "1", "y": "2"}
    assert "tester" in {entry["manager"] for entry in patched["metadata"]["managedFields"]}
    with pytest.raises(errors.Conflict):
        await client.replace(made)
    patched["data"] = {"z": "3"}
    await client.replace(patched)
    assert (await client.get(kinds.ConfigMap, "a", namespace.name))["data"] == {"z": "3"}
    await client.delete(kinds.ConfigMap, "a", namespace.name)
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await client.get(kinds.ConfigMap, "a", namespace.name)


@pytest.mark.usefixtures("widgets")
async def test_an_instances_life(client: Client, namespace: TestNamespace) -> None:
    """A class gives instances; the status has its own endpoint."""
    made = await client.create(widget("a", namespace.name, size=2, colour="red"))
    assert isinstance(made, Widget)
    assert made.uid
    applied = await client.apply(widget("a", namespace.name, size=3), field_manager="tester")
    assert (applied.spec.size, applied.spec.colour) == (3, "red")
    patched = await client.patch(
        Widget, "a", namespace.name, patch={"status": {"ready": True}}, subresource="status"
    )
    assert patched.status.ready
    got = await client.get(Widget, "a", namespace.name)
    assert got == patched
    assert [one.name for one in await client.list(Widget, namespace.name)] == ["a"]
    got.spec.size = 5
    assert (await client.replace(got)).spec.size == 5
    with pytest.raises(errors.Invalid, match=r"spec\.size") as caught:
        await client.patch(Widget, "a", namespace.name, patch={"spec": {"size": 0}})
    assert caught.value.causes[0]["field"] == "spec.size"
    await client.delete(Widget, "a", namespace.name, uid=made.uid)


async def test_the_three_kinds_of_patch(client: Client, namespace: TestNamespace) -> None:
    """Merge, JSON and strategic patches differ in what becomes of a list."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["example.com/a"]},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": []},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await client.apply(account, namespace=namespace.name, field_manager="tester")
    await client.create(pod, namespace=namespace.name)

    async def finalizers(**patch: Any) -> list[str]:
        found = await client.patch(kinds.Pod, "p", namespace.name, **patch)
        return list(found["metadata"].get("finalizers", ()))

    b = {"metadata": {"finalizers": ["example.com/b"]}}
    assert set(await finalizers(patch=b, type="strategic")) == {"example.com/a", "example.com/b"}
    assert await finalizers(patch=b, type="merge") == ["example.com/b"]
    path = "/metadata/finalizers/0"
    test = {"op": "test", "path": path, "value": "example.com/x"}
    with pytest.raises(errors.Invalid):
        await finalizers(patch=[test, {"op": "remove", "path": path}], type="json")
    test["value"] = "example.com/b"
    assert await finalizers(patch=[test, {"op": "remove", "path": path}], type="json") == []


async def test_create_by_generate_name_and_dry_run(
    client: Client, namespace: TestNamespace
) -> None:
    """The server makes up the name; a dry run stores nothing; a second create is AlreadyExists."""
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}
    made = await client.create(generated, namespace=namespace.name)
    assert made["metadata"]["name"].startswith("g-")
    await client.create(config_map("dry"), namespace=namespace.name, dry_run=True)
    assert [one["metadata"]["name"] for one in await own(client, namespace)] == [
        made["metadata"]["name"]
    ]
    with pytest.raises(errors.AlreadyExists):
        await client.create(config_map(made["metadata"]["name"]), namespace=namespace.name)


async def test_apply_and_its_owners(client: Client, namespace: TestNamespace) -> None:
    """An apply creates; without force it leaves another manager's field alone."""
    await client.apply(config_map("a", x="1"), namespace=namespace.name, field_manager="one")
    two = config_map("a", x="2")
    with pytest.raises(errors.Conflict, match="one"):
        await client.apply(two, namespace=namespace.name, field_manager="two", force=False)
    taken = await client.apply(two, namespace=namespace.name, field_manager="two")
    assert taken["data"] == {"x": "2"}


async def test_delete_only_the_object_that_is_meant(
    client: Client, namespace: TestNamespace
) -> None:
    """Another uid or resource version of the same name is left alone."""
    made = await client.create(config_map("a"), namespace=namespace.name)
    another = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.ConfigMap, "a", namespace.name, uid=another)
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.ConfigMap, "a", namespace.name, resource_version="1")
    metadata = made["metadata"]
    await client.delete(
        kinds.ConfigMap,
        "a",
        namespace.name,
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        propagation="Foreground",
        grace_seconds=0,
    )


async def test_list_takes_all_pages(client: Client, namespace: TestNamespace) -> None:
    """Seven objects in pages of two are seven, and each names its kind."""
    for number in range(7):
        made = config_map(f"c-{number}")
        made["metadata"]["labels"] = {"parity": "odd" if number % 2 else "even"}
        await client.create(made, namespace=namespace.name)
    found = await client.list(kinds.ConfigMap, namespace.name, limit=2)
    names = [one["metadata"]["name"] for one in found if one["metadata"]["name"][:2] == "c-"]
    assert names == [f"c-{number}" for number in range(7)]
    assert {(one["apiVersion"], one["kind"]) for one in found} == {("v1", "ConfigMap")}
    odd = await client.list(kinds.ConfigMap, namespace.name, label_selector="parity=odd", limit=2)
    assert len(odd) == 3
    one = await client.list(kinds.ConfigMap, field_selector="metadata.name=c-3")
    assert namespace.name in {found["metadata"]["namespace"] for found in one}


async def test_a_cluster_scoped_kind(client: Client, namespace: TestNamespace) -> None:
    """No namespace is needed, nor minded."""
    assert (await client.get(kinds.Namespace, namespace.name))["kind"] == "Namespace"


async def test_what_is_refused_before_anything_is_sent(client: Client) -> None:
    """A missing namespace, a missing name and a name that can't be one are told apart."""
    with pytest.raises(errors.ConfigurationError, match="lives in a namespace, but none is given"):
        await client.get(kinds.ConfigMap, "a")
    with pytest.raises(errors.ConfigurationError, match=r"without metadata\.name"):
        await client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap"}, namespace="x", field_manager="t"
        )
    for name in ("../secrets/s", "a/b", "a%2fb", "..", ""):
        with pytest.raises(errors.ConfigurationError, match="can't be a name"):
            await client.delete(kinds.ConfigMap, name, "default")


async def test_names_that_need_quoting(client: Client) -> None:
    """RBAC's names may hold almost anything."""
    role = {"metadata": {"name": "rws test: a?b#c"}, "rules": []}
    await client.apply(role, kind=kinds.ClusterRole, field_manager="tester")
    found = await client.get(kinds.ClusterRole, "rws test: a?b#c")
    assert found["metadata"]["name"] == "rws test: a?b#c"
    await client.delete(kinds.ClusterRole, "rws test: a?b#c")


async def test_a_missing_kind(client: Client) -> None:
    """A CRD that isn't installed is named as such, in one line."""
    gone = Kind("gone.example.com/v1", "Gone", plural="gones")
    with pytest.raises(errors.NotFound, match="install its CustomResourceDefinition") as caught:
        await client.list(gone)
    assert "/apis/gone.example.com/v1/gones" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_forbidden_verb(
    control_plane: ControlPlane, client: Client, namespace: TestNamespace
) -> None:
    """The error names the verb, the resource and the account, and says what to do."""
    path = await account(control_plane, client, namespace, "weak")
    async with Client(load_config(path)) as weak:
        with pytest.raises(errors.Forbidden, match="allow it by an RBAC rule") as caught:
            await weak.create(config_map("a"), namespace=namespace.name)
    message = str(caught.value)
    assert f"system:serviceaccount:{namespace.name}:weak" in message
    assert 'cannot create resource "configmaps"' in message


async def test_impersonation(client: Client, cluster: TestCluster) -> None:
    """Requests are judged as the user that is named."""
    config = load_config(cluster.kubeconfig)
    as_jane = type(config)(
        config.server, tls=config.tls, impersonation=Impersonation("jane", groups=("devs",))
    )
    async with Client(as_jane) as jane:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        kind = Kind(review["apiVersion"], review["kind"], "selfsubjectreviews", namespaced=False)
        found = await jane.create(review, kind=kind)
    info = found["status"]["userInfo"]
    assert info["username"] == "jane"
    assert "devs" in info["groups"]


async def test_a_revoked_token_and_its_successor(
    control_plane: ControlPlane, client: Client, namespace: TestNamespace
) -> None:
    """A token whose account is gone is a 401 that says what to do; a new one heals the client."""
    old = await account(control_plane, client, namespace, "brief")
    token_file = old.parent / f"{namespace.name}-token"
    token = await load_config(old).credentials.authorization()
    token_file.write_text((token or "").removeprefix("Bearer "))
    await client.delete(kinds.ServiceAccount, "brief", namespace.name)
    config = load_config(old)
    credentials = TokenFile.credentials(token_file)
    moved = type(config)(config.server, tls=config.tls, credentials=credentials)
    async with Client(moved) as brief:
        with pytest.raises(errors.Unauthorized, match="renew the token"):
            await brief.request("GET", "/version")
        new = await account(control_plane, client, namespace, "brief")
        token = await load_config(new).credentials.authorization()
        token_file.write_text((token or "").removeprefix("Bearer "))
        credentials._hear_refusals_at = 0.0
        assert (await brief.request("GET", "/version")).status == 200
    token_file.unlink()


@pytest.mark.behaviour("S9")
async def test_many_watches_leave_the_requests_alone(
    client: Client, namespace: TestNamespace
) -> None:
    """With 120 watches open, requests flow, and each watch hears of what they did."""
    path = kinds.ConfigMap.path(namespace.name)
    opened, heard = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def watch() -> None:
        async with client.stream(path, params={"watch": "true"}, idle_deadline=60) as chunks:
            opened.release()
            async for chunk in chunks:
                if b'"name":"last"' in chunk:
                    break
        heard.release()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(120):
            tasks.create_task(watch())
        for _ in range(120):
            await opened.acquire()
        for number in range(20):
            await client.create(config_map(f"c-{number}"), namespace=namespace.name)
        await client.create(config_map("last"), namespace=namespace.name)
        for _ in range(120):
            await heard.acquire()


@pytest.mark.usefixtures("namespace")
def test_the_plain_path_imports_no_client_library(cluster: TestCluster) -> None:
    """A kubeconfig with certificates or a token is used without kubernetes_asyncio's 40 MB."""
    program = """
import asyncio, sys
from rws_operator.client import client
async def main():
    async with await client(sys.argv[1]) as made:
        await made.request("GET", "/version")
asyncio.run(main())
print(*sorted(name for name in sys.modules if name.startswith("kubernetes")))
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "\n", "")


async def account(
    control_plane: ControlPlane, client: Client, namespace: TestNamespace, name: str
) -> Any:
    """Create a ServiceAccount; return the path of a kubeconfig with its token."""
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await client.create(made, namespace=namespace.name)
    return await control_plane.service_account_kubeconfig(namespace.name, name)


async def own(client: Client, namespace: TestNamespace) -> list[dict[str, Any]]:
    """Return the namespace's ConfigMaps without the cluster's own."""
    found = await client.list(kinds.ConfigMap, namespace.name)
    return [one for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]
