"""Webhooks on a real API server, under a steady load of creates, through all that may happen.

Each test installs an operator from its own manifests, runs replicas of it as processes behind the
forwarder that stands for their Service, and disturbs them while 50 creates a second go through the
mutating, the validating and the conversion webhook, all of which fail closed. Each disturbance is
repeated until the load has lasted for RWS_WEBHOOK_LOAD_SECONDS (10; `make soak-webhooks` asks for
more).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import functools
import itertools
import json
import os
import secrets
import signal
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography import x509

from rws_operator.errors import ApiError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.forwarder import Forwarder
from rws_operator.webhook.certificate import WebhookCertificate
from tests.webhook.admission_load import AdmissionLoad, Attempt, Tally, created, denied
from tests.webhook.kit import Installation, installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rws_operator.testing import ControlPlane, TestCluster, TestNamespace

PROGRAM = Path(__file__).with_name("webhook_replica.py")
LOAD_SECONDS = float(os.environ.get("RWS_WEBHOOK_LOAD_SECONDS", "10"))
POLL_SECONDS = 0.5
"""How late the forwarder follows readiness: a quarter of the replicas' lag."""
BACK_SECONDS = 2.0
"""How long a blanked caBundle may stay so."""
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = pytest.mark.timeout(120 + 3 * LOAD_SECONDS)


class Vaults:
    """The installed operator and its kind, as the tests look at them."""

    def __init__(self, cluster: TestCluster, installation: Installation) -> None:
        self.cluster = cluster
        self.installation = installation
        self.group = installation.environment["TEST_GROUP"]
        self.tally = Tally()

    def path(self, version: str = "v1", name: str = "") -> str:
        """Of the objects in the test's namespace."""
        collection = f"/apis/{self.group}/{version}/namespaces/{self.installation.namespace}/vaults"
        return f"{collection}/{name}" if name else collection

    def document(self, name: str, version: str = "v1", size: int = 3) -> dict[str, Any]:
        """A Vault."""
        spec: dict[str, Any] = {"sizeGi": size} if version == "v1" else {"capacity": f"{size}Gi"}
        return {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Vault",
            "metadata": {"name": name, "namespace": self.installation.namespace},
            "spec": spec,
        }

    def attempt(self, number: int) -> Attempt:
        """The n-th create: of ten one is stored, one to be denied, three are at v1alpha1."""
        prefix = f"load-{secrets.token_hex(2)}-{number}"
        version = "v1alpha1" if number % 3 == 1 else "v1"
        if number % 10 == 5:
            body = self.document(prefix, version, size=101)
            return Attempt(self.path(version), body, denied("101 Gi is too large"), "denied")
        judge = created(has_owner)
        is_stored = number % 10 == 0
        kind = "stored" if is_stored else f"dry run of {version}"
        body = self.document(prefix, version)
        return Attempt(self.path(version), body, judge, kind, dry_run=not is_stored)

    async def wait_until_called(self) -> None:
        """Wait until the API server calls the webhooks of which it was told."""
        load = AdmissionLoad(self.cluster.kubeconfig, self.attempt)

        async def is_denied() -> bool:
            wrong = await load.once(self.attempt(5))
            assert wrong is None, wrong
            return True

        await eventually(10, is_denied)

    async def under_load(self, disturb: Callable[[], Awaitable[None]]) -> Tally:
        """Disturb, again and again, while the creates go on; what became of them."""
        await self.wait_until_called()
        end = time.monotonic() + LOAD_SECONDS
        async with AdmissionLoad(self.cluster.kubeconfig, self.attempt) as load:
            await asyncio.sleep(1)
            await disturb()
            while time.monotonic() < end:
                await disturb()
            await asyncio.sleep(1)
        print(load.tally)  # noqa: T201 - shown if the test fails
        assert load.tally.total > 40 * LOAD_SECONDS
        assert {"stored", "denied", "dry run of v1alpha1"} <= load.tally.counts.keys()
        return load.tally

    async def read(self, path: str) -> dict[str, Any]:
        """GET."""
        answer: dict[str, Any] = (await self.cluster.client.request("GET", path)).json()
        return answer

    async def merge(self, path: str, patch: dict[str, Any]) -> None:
        """Patch as an administrator."""
        content_type = "application/merge-patch+json"
        await self.cluster.client.request("PATCH", path, body=patch, content_type=content_type)

    @property
    def secret_path(self) -> str:
        """Of the one Secret that holds a certificate."""
        namespace = self.installation.namespace
        return f"/api/v1/namespaces/{namespace}/secrets/{self.secret_name}"

    @property
    def secret_name(self) -> str:
        """As the Role that lets the operator write it says."""
        roles = [each for each in self.installation.documents if each["kind"] == "Role"]
        rules = [rule for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]
        names = {name for rule in rules for name in rule.get("resourceNames", ())}
        assert len(names) == 1
        return str(names.pop())

    async def ca_bundles(self) -> list[str]:
        """The bundles of all that the API server calls."""
        name = self.installation.name
        configs = []
        for kind in ("validating", "mutating"):
            found = await self.read(CONFIGURATIONS.format(kind=kind, name=name))
            configs += [webhook["clientConfig"] for webhook in found["webhooks"]]
        crd = await self.read(self.crd_path)
        configs.append(crd["spec"]["conversion"]["webhook"]["clientConfig"])
        return [base64.b64decode(config.get("caBundle", "")).decode() for config in configs]

    @property
    def crd_path(self) -> str:
        """Of the CustomResourceDefinition."""
        return f"{CRDS}/vaults.{self.group}"

    async def served(self) -> set[str]:
        """The certificates that the replicas serve, PEM."""
        ports = [each.webhook_port for each in self.installation.replicas.values()]
        found = await asyncio.gather(
            *(asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port)) for port in ports)
        )
        return set(found)


def has_owner(vault: dict[str, Any]) -> str | None:
    """Whether the mutating webhook was called."""
    return None if vault["spec"].get("owner") else f"not mutated: {vault['spec']}"


@contextlib.asynccontextmanager
async def vaults(
    cluster: TestCluster,
    control_plane: ControlPlane,
    namespace: TestNamespace,
    folder: Path,
    *replicas: str,
    before: Callable[[Vaults], Awaitable[None]] | None = None,
    by_url: bool = False,
    **environment: str,
) -> AsyncIterator[Vaults]:
    """Install the operator and start its replicas."""
    suffix = secrets.token_hex(3)
    async with Forwarder(poll_seconds=POLL_SECONDS) as forwarder:
        names = {
            "TEST_OPERATOR": f"vaults-{suffix}",
            "TEST_GROUP": f"v{suffix}.test.example.com",
            "TEST_NAMESPACE": namespace.name,
        }
        flags: tuple[str, ...] = ()
        if by_url:
            flags = ("--webhook-url", f"https://127.0.0.1:{forwarder.port}")
            names["TEST_NAMES"] = "127.0.0.1"
        installation = Installation(
            control_plane,
            forwarder,
            namespace.name,
            names["TEST_OPERATOR"],
            (str(PROGRAM),),
            folder,
            {**names, **environment},
            flags,
        )
        made = Vaults(cluster, installation)
        prepare = (lambda: before(made)) if before is not None else None
        async with installed(installation, *replicas, before=prepare):
            yield made


Install = Any


@pytest.fixture
def install(
    cluster: TestCluster, control_plane: ControlPlane, namespace: TestNamespace, tmp_path: Path
) -> Install:
    """`vaults` in the test's own namespace."""

    def make(*replicas: str, **settings: Any) -> contextlib.AbstractAsyncContextManager[Vaults]:
        return vaults(cluster, control_plane, namespace, tmp_path, *replicas, **settings)

    return make


@pytest.mark.behaviour("B22", "S18")
async def test_certificate_is_renewed(install: Install) -> None:
    """Both replicas serve a new certificate, the old CA is dropped, and no call fails."""
    lifetime = 60  # a third of it is left for the stages, also on a busy machine
    settings = {"TEST_LIFETIME": str(lifetime), "TEST_STAGE": "1.5", "TEST_CLOSE": "1"}
    async with install("a", "b", **settings) as made:

        async def renewal() -> None:
            before = await made.served()

            async def is_through() -> bool:
                bundles = await made.ca_bundles()
                assert len(set(bundles)) == 1
                assert bundles[0].count("BEGIN CERTIFICATE") == 1
                now = await made.served()
                assert len(now) == 1
                return not now & before

            await eventually(60, is_through, every=0.2)

        certificate = x509.load_pem_x509_certificate((await made.served()).pop().encode())
        left = certificate.not_valid_after_utc.timestamp() - time.time()
        await asyncio.sleep(left - lifetime / 3 - 3)
        tally = await made.under_load(renewal)
        assert tally.failures == []


@pytest.mark.behaviour("B22")
async def test_secret_is_deleted(install: Install) -> None:
    """It comes back as it was, and no call fails."""
    async with install("a", "b", TEST_CLOSE="1") as made:

        async def deletion() -> None:
            before = (await made.read(made.secret_path))["data"]
            await made.cluster.client.request("DELETE", made.secret_path)

            async def is_back() -> bool:
                return bool((await made.read(made.secret_path))["data"] == before)

            await eventually(20, is_back)
            await asyncio.sleep(1)

        tally = await made.under_load(deletion)
        assert tally.failures == []


@pytest.mark.behaviour("B22")
async def test_secret_is_damaged(install: Install) -> None:
    """Whatever of it is damaged comes back as it was, and no call fails."""
    async with install("a", "b", TEST_CLOSE="1") as made:
        strange = WebhookCertificate.generate("stranger", "elsewhere")
        damages = itertools.cycle(
            [
                {"tls.key": "-----BEGIN PRIVATE KEY-----\nhalf"},
                {"tls.key": strange.key_pem},
                {"tls.crt": "no PEM"},
                {"ca.crt": strange.ca_pem},
                {"ca.crt": ""},
            ]
        )

        async def damage() -> None:
            before = (await made.read(made.secret_path))["data"]
            data = {k: base64.b64encode(v.encode()).decode() for k, v in next(damages).items()}
            await made.merge(made.secret_path, {"data": data})

            async def is_mended() -> bool:
                return bool((await made.read(made.secret_path))["data"] == before)

            await eventually(20, is_mended)
            await asyncio.sleep(1)

        tally = await made.under_load(damage)
        assert tally.failures == []


async def test_ca_bundles_are_blanked(install: Install) -> None:
    """They are back within two seconds; calls fail while they are not, and none later."""
    async with install("a", "b") as made:
        gaps: list[tuple[float, float]] = []

        async def blanking() -> None:
            before = await made.ca_bundles()
            started = time.monotonic()
            await blank(made)

            async def are_back() -> bool:
                return bool(await made.ca_bundles() == before)

            await eventually(BACK_SECONDS, are_back, every=0.02)
            gaps.append((started, time.monotonic()))
            await asyncio.sleep(2)

        tally = await made.under_load(blanking)
        print([f"{end - start:.2f}" for start, end in gaps])  # noqa: T201
        # The API server hears of either change a little later.
        assert tally.failures_outside((start, end + 0.5) for start, end in gaps) == []


async def blank(made: Vaults) -> None:
    """Take the CA bundle out of everything."""
    name = made.installation.name
    for kind in ("validating", "mutating"):
        path = CONFIGURATIONS.format(kind=kind, name=name)
        count = len((await made.read(path))["webhooks"])
        patch = [
            {"op": "remove", "path": f"/webhooks/{n}/clientConfig/caBundle"} for n in range(count)
        ]
        await made.cluster.client.request(
            "PATCH", path, body=patch, content_type="application/json-patch+json"
        )
    config = {"webhook": {"clientConfig": {"caBundle": None}}}
    await made.merge(made.crd_path, {"spec": {"conversion": config}})


async def test_a_replica_restarts(install: Install) -> None:
    """It leaves, ends with code 0, and comes back; the other answers, and no call fails."""
    async with install("a", "b") as made:

        async def restart() -> None:
            assert await made.installation.stop("a") == 0
            await made.installation.start("a")

        tally = await made.under_load(restart)
        assert tally.failures == []
        assert made.installation.forwarder.connections.keys() == {"a", "b"}
        assert made.installation.forwarder.refused.total() == 0


@pytest.mark.behaviour("B24")
async def test_replicas_are_rolled(install: Install) -> None:
    """As a Deployment does it: one more is ready before one goes; no call fails."""
    async with install("a0", "b0") as made:
        rolls = iter(range(1, 1000))

        async def roll() -> None:
            number = next(rolls)
            for name in ("a", "b"):
                await made.installation.start(f"{name}{number}")
                assert await made.installation.stop(f"{name}{number - 1}") == 0

        tally = await made.under_load(roll)
        assert tally.failures == []
        assert {"a0", "b0", "a1", "b1"} <= made.installation.forwarder.connections.keys()


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
async def test_manifests_are_applied_again(install: Install, how: tuple[str, ...]) -> None:
    """The CA bundles stay where they are, and no call fails."""
    async with install("a", "b") as made:
        before = await made.ca_bundles()

        async def apply() -> None:
            await made.installation.apply(*how)
            assert await made.ca_bundles() == before

        tally = await made.under_load(apply)
        assert tally.failures == []
        assert all(bundle.count("BEGIN CERTIFICATE") == 1 for bundle in before)


async def test_a_replica_is_killed(
    install: Install, record_property: Callable[[str, object], None]
) -> None:
    """What it had under way fails, and what comes until the Service has noticed; nothing else."""
    async with install("a", "b") as made:
        gaps: list[tuple[float, float]] = []

        async def kill() -> None:
            started = time.monotonic()
            assert await made.installation.stop("a", signal.SIGKILL) == -signal.SIGKILL
            gaps.append((started, time.monotonic() + POLL_SECONDS + 0.5))
            await made.installation.start("a")

        tally = await made.under_load(kill)
        record_property("failed calls of a kill", len(tally.failures) / len(gaps))
        assert tally.failures_outside(gaps) == []


NAMES = ("one", "two", "three")


async def store_at_v1alpha1(made: Vaults) -> None:
    """What an earlier release left: a CRD of one version, and objects of it."""
    documents = made.installation.documents
    crd = copy.deepcopy(next(d for d in documents if d["kind"] == "CustomResourceDefinition"))
    old = next(each for each in crd["spec"]["versions"] if each["name"] == "v1alpha1")
    crd["spec"]["versions"] = [{**old, "storage": True}]
    crd["spec"]["conversion"] = {"strategy": "None"}
    kubectl = made.installation.kubectl
    await kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump(crd))
    await made.cluster.wait_until_served(crd)
    for size, name in enumerate(NAMES, 1):
        document = made.document(name, "v1alpha1", size)
        document["spec"]["owner"] = "jane"
        document["metadata"]["labels"] = {"size": str(size)}
        await made.cluster.client.request("POST", made.path("v1alpha1"), body=document)


@pytest.mark.behaviour("B21")
@pytest.mark.parametrize("by_url", [False, True], ids=["by service", "by url"])
async def test_objects_stored_at_another_version(install: Install, by_url: bool) -> None:
    """Read at v1 and back: by the operator itself, list, watch, apply, a storage migration."""
    async with install("a", before=store_at_v1alpha1, by_url=by_url) as made:
        await eventually(15, lambda: are_reported(made))
        await made.wait_until_called()
        new = {each["metadata"]["name"]: each for each in (await made.read(made.path()))["items"]}
        assert {n: new[n]["spec"] for n in NAMES} == {
            name: {"sizeGi": size, "owner": "jane"} for size, name in enumerate(NAMES, 1)
        }
        assert new["two"]["metadata"]["labels"] == {"size": "2"}
        old = await made.read(made.path("v1alpha1"))
        assert [each["spec"]["capacity"] for each in old["items"]] == ["1Gi", "3Gi", "2Gi"]
        await check_watch(made)
        await check_apply(made)
        await check_migration(made)


async def are_reported(made: Vaults) -> bool:
    """Whether the operator, which reads and writes v1, has seen to all objects."""
    items = (await made.read(made.path("v1alpha1")))["items"]
    sizes = {each["metadata"]["name"]: each.get("status", {}).get("sizeGi") for each in items}
    return sizes == {name: size for size, name in enumerate(NAMES, 1)}


async def check_watch(made: Vaults) -> None:
    """A watch of either version tells of what is stored in one and written in the other."""
    params = {"watch": "true", "timeoutSeconds": "2", "resourceVersion": "0"}
    client = made.cluster.client
    async with asyncio.TaskGroup() as tasks:
        of_new, of_old = (
            tasks.create_task(client.request("GET", made.path(version), params=params))
            for version in ("v1", "v1alpha1")
        )
        await asyncio.sleep(0.5)
        await made.merge(made.path("v1alpha1", "two"), {"spec": {"capacity": "20Gi"}})
        await made.merge(made.path("v1", "three"), {"spec": {"sizeGi": 30}})
    new = changes(of_new.result().body, "sizeGi")
    assert {("ADDED", name, size) for size, name in enumerate(NAMES, 1)} <= new
    assert {("MODIFIED", "two", 20), ("MODIFIED", "three", 30)} <= new
    old = changes(of_old.result().body, "capacity")
    assert {("MODIFIED", "two", "20Gi"), ("MODIFIED", "three", "30Gi")} <= old


def changes(stream: bytes, field: str) -> set[tuple[str, str, Any]]:
    """The events of a watch: type, name, and one field of the spec."""
    events = [json.loads(line) for line in stream.splitlines()]
    return {
        (each["type"], each["object"]["metadata"]["name"], each["object"]["spec"][field])
        for each in events
    }


async def check_apply(made: Vaults) -> None:
    """Server-side apply at both versions of one object; each manager keeps its own fields."""
    kubectl = made.installation.kubectl
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    for version, manager, size in (("v1", "new", 5), ("v1alpha1", "old", 6)):
        document = json.dumps(made.document("one", version, size))
        await kubectl.run(*apply, f"--field-manager={manager}", stdin=document)
        assert (await made.read(made.path("v1", "one")))["spec"]["sizeGi"] == size
    one = await made.read(made.path("v1alpha1", "one"))
    assert one["spec"] == {"capacity": "6Gi", "owner": "jane"}
    owned = {
        entry["manager"]: entry["fieldsV1"].get("f:spec", {}).keys()
        for entry in one["metadata"]["managedFields"]
        if entry["manager"] in ("new", "old")
    }
    assert owned["old"] == {"f:capacity"}


async def check_migration(made: Vaults) -> None:
    """What is written again is stored at the version that is stored now, and converted no more."""
    await store_again(made, "v1")
    await set_storage_version(made, "v1alpha1")
    await made.merge(made.path("v1", "two"), {"metadata": {"labels": {"stored": "at-v1alpha1"}}})
    await made.installation.stop("a")
    assert await readable(made, "one") == {"v1"}
    assert await readable(made, "two") == {"v1alpha1"}


async def store_again(made: Vaults, version: str) -> None:
    """Write every object as it is."""

    async def write(name: str) -> bool:
        current = await made.read(made.path(version, name))
        await made.cluster.client.request("PUT", made.path(version, name), body=current)
        return True

    for name in NAMES:  # a conflict: the operator has written its status meanwhile
        await eventually(20, functools.partial(write, name))


async def set_storage_version(made: Vaults, stored: str) -> None:
    """Change it in the CRD while the operator runs."""
    crd = await made.read(made.crd_path)
    versions = [{**each, "storage": each["name"] == stored} for each in crd["spec"]["versions"]]
    await made.merge(made.crd_path, {"spec": {"versions": versions}})
    await asyncio.sleep(1)  # until the API server writes so


async def readable(made: Vaults, name: str) -> set[str]:
    """In which versions an object can be read while nobody converts."""
    found = set()
    for version in ("v1", "v1alpha1"):
        try:
            await made.cluster.client.request("GET", made.path(version, name), deadline=5)
            found.add(version)
        except ApiError as error:
            if "conversion webhook" not in str(error):
                raise
    return found
