"""A running Operator's webhooks on a real API server: how they start, what they need, how they go.

The operators run in the test's process behind the forwarder that stands for their Service: the
API server reaches them only while they are ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import (
    AdmissionRequest,
    Context,
    CustomResource,
    Denied,
    Model,
    Operator,
    PolicyRule,
    WebhookCertificate,
    kinds,
)
from rws_operator.errors import ApiError, ConfigurationError, Forbidden, LeadershipLost, ServerError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.forwarder import Forwarder
from rws_operator.webhook.serving import WebhookServer
from tests.operator_kit import CRDS, LEASES, fetch, is_ready, running
from tests.webhook.kit import Installation, installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

PROGRAM = Path(__file__).parent / "flow" / "webhook_replica.py"
LAG_SECONDS = 1.0


class BoxSpec(Model):
    """What a Box asks for."""

    size: int = 1
    owner: str | None = None


class BoxStatus(Model):
    """What was seen to."""

    size: int | None = None


class OldBoxSpec(Model):
    """What a Box asked for at first."""

    extent: str = "1"
    owner: str | None = None


class Boxes:
    """A kind of one test's own, in two versions, and an operator named after it."""

    def __init__(
        self, cluster: TestCluster, namespace: TestNamespace, forwarder: Forwarder
    ) -> None:
        suffix = secrets.token_hex(3)
        group = f"x{suffix}.test.example.com"

        class Box(CustomResource, group=group, version="v1"):
            """A box."""

            spec: BoxSpec = BoxSpec()
            status: BoxStatus = BoxStatus()

        class OldBox(CustomResource, group=group, version="v1alpha1", kind="Box", storage=False):
            """A box, as it was first."""

            spec: OldBoxSpec = OldBoxSpec()
            status: BoxStatus = BoxStatus()

        self.now: Any = Box
        self.old: Any = OldBox
        self.crd = f"boxes.{group}"
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace.name
        self.forwarder = forwarder
        self.operator = Operator(
            f"boxes-{suffix}", client=cluster.client, drain_seconds=5, lag_seconds=LAG_SECONDS
        )
        self.selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}
        self.calls: list[str] = []
        self.release = asyncio.Event()
        self.release.set()

    def validate(self) -> None:
        """Deny boxes of size 13; wait with those of size 7 until the test says so."""

        @self.operator.validate(self.now, namespace_selector=self.selector)
        async def check(request: AdmissionRequest[Any]) -> None:
            self.calls.append(request.name)
            if request.object.spec.size == 13:
                raise Denied("thirteen is no size for a box")
            if request.object.spec.size == 7:
                await self.release.wait()

    def mutate(self) -> None:
        """Say whose a box is."""

        @self.operator.mutate(self.now, namespace_selector=self.selector)
        def default(request: AdmissionRequest[Any]) -> Any:
            request.object.spec.owner = request.object.spec.owner or request.user.username

    def convert(self) -> None:
        """Both ways between the versions."""

        @self.operator.convert(self.old, self.now)
        def upgrade(old: Any) -> Any:
            spec = BoxSpec(size=int(old.spec.extent), owner=old.spec.owner)
            return self.now(metadata=old.metadata, spec=spec, status=old.status)

        @self.operator.convert(self.now, self.old)
        def downgrade(box: Any) -> Any:
            spec = OldBoxSpec(extent=str(box.spec.size), owner=box.spec.owner)
            return self.old(metadata=box.metadata, spec=spec, status=box.status)

    def control(self) -> None:
        """Report each box's size."""

        @self.operator.controller(self.now, namespaces=[self.namespace]).reconcile
        async def reconcile(box: Any, ctx: Context) -> None:
            await ctx.patch_status(box, {"size": box.spec.size})

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create a box at v1."""
        of = self.now.resource_definition.kind
        wire = {
            "apiVersion": of.api_version,
            "kind": of.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        return await self.client.create(wire, kind=of)

    async def status(self, name: str) -> int | None:
        """The size that the controller reported."""
        box = await self.client.get(self.now, name, self.namespace)
        size: int | None = box.status.size
        return size

    async def refusal(self, **spec: Any) -> str:
        """Why a create is refused."""
        try:
            await self.create(f"refused-{secrets.token_hex(3)}", **spec)
        except ApiError as error:
            return str(error)
        return "created"

    async def bundles(self) -> list[str]:
        """The caBundles of all that calls the operator."""
        found = [
            each["clientConfig"]
            for kind in (kinds.ValidatingWebhookConfiguration, kinds.MutatingWebhookConfiguration)
            for configuration in await self.client.list(kind)
            if configuration["metadata"]["name"] == self.operator.name
            for each in configuration["webhooks"]
        ]
        crd = (await self.client.request("GET", f"{CRDS}/{self.crd}")).json()
        found += [crd["spec"]["conversion"].get("webhook", {}).get("clientConfig", {})]
        return [each.get("caBundle", "") for each in found]

    @contextlib.asynccontextmanager
    async def installed(self) -> AsyncIterator[None]:
        """Apply the operator's CRD, Service and webhook configurations, and remove them after."""
        printed = self.operator.manifests(namespace=self.namespace)
        needed = ("CustomResourceDefinition", "Service", "WebhookConfiguration")
        try:
            for document in self.forwarder.stand_in(printed):
                if document["kind"].endswith(needed):
                    await self.client.apply(document, field_manager="test")
            crd = next(each for each in printed if each["kind"] == needed[0])
            await self._established(crd["spec"]["group"])
            yield
        finally:
            await self.remove()

    async def _established(self, group: str) -> None:
        async def is_served() -> bool:
            path = f"/apis/{group}/v1/namespaces/{self.namespace}/boxes"
            with contextlib.suppress(ServerError):  # what is stored needs a conversion
                await self.client.request("GET", path, params={"limit": "1"})
            return True

        await eventually(15, is_served)

    async def remove(self) -> None:
        """Remove what is not in the namespace."""
        for kind in (kinds.ValidatingWebhookConfiguration, kinds.MutatingWebhookConfiguration):
            with contextlib.suppress(ApiError):
                await self.client.delete(kind, self.operator.name)
        patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        with contextlib.suppress(ApiError):
            await self.client.patch(kinds.CustomResourceDefinition, self.crd, patch=patch)
            await self.client.delete(kinds.CustomResourceDefinition, self.crd)

    @contextlib.asynccontextmanager
    async def served(self, **arguments: Any) -> AsyncIterator[asyncio.Task[None]]:
        """Run the operator behind the forwarder."""
        async with running(self.operator, http_port=0, webhook_port=0, **arguments) as task:
            http_port = await eventually(5, lambda: self.operator.http_port)
            webhook_port = await eventually(5, lambda: self.operator.webhook_port)
            assert http_port
            assert webhook_port
            self.forwarder.add("one", webhook_port=webhook_port, http_port=http_port)
            yield task

    async def answers(self) -> bool:
        """Whether calls reach the webhooks."""
        assert "thirteen" in await self.refusal(size=13)
        return True


@pytest.fixture
async def forwarder() -> AsyncIterator[Forwarder]:
    """What stands for the Service."""
    async with Forwarder(poll_seconds=0.1) as forwarder:
        yield forwarder


@pytest.fixture
def boxes(
    cluster: TestCluster,
    namespace: TestNamespace,
    forwarder: Forwarder,
    monkeypatch: pytest.MonkeyPatch,
) -> Boxes:
    """A kind and its operator, in the test's namespace."""
    monkeypatch.setenv("POD_NAMESPACE", namespace.name)
    return Boxes(cluster, namespace, forwarder)


async def test_an_operator_of_webhooks_alone_serves(boxes: Boxes) -> None:
    """No controller: it denies with its message, is ready, and ends when asked."""
    boxes.validate()
    async with boxes.installed(), boxes.served():
        await eventually(20, boxes.answers)
        await boxes.create("good", size=2)
        assert boxes.calls[-1] == "good"
        assert await is_ready(boxes.operator)


async def test_an_operator_of_controllers_alone_has_no_webhooks(boxes: Boxes) -> None:
    """No listener, no certificate, no permission for one."""
    boxes.control()
    documents = boxes.operator.manifests(namespace=boxes.namespace)
    assert "secrets" not in str(documents)
    assert "9443" not in str(documents)
    assert "Webhook" not in str(documents)
    async with boxes.installed(), running(boxes.operator, http_port=0, webhook_port=0):
        await boxes.create("one", size=3)
        await eventually(15, lambda: is_ready(boxes.operator))
        assert boxes.operator.webhook_port is None
        assert "webhook" not in (await fetch(boxes.operator, "/readyz?verbose"))[1]
        assert await boxes.client.list(kinds.Secret, boxes.namespace) == []


async def test_one_operator_validates_mutates_converts_and_controls(boxes: Boxes) -> None:
    """All of it at once, for one kind."""
    for part in (boxes.validate, boxes.mutate, boxes.convert, boxes.control):
        part()
    async with boxes.installed(), boxes.served():
        await eventually(20, boxes.answers)
        assert (await boxes.create("one", size=3))["spec"]["owner"]
        old = await boxes.client.get(boxes.old, "one", boxes.namespace)
        assert old.spec.extent == "3"

        async def is_reported() -> bool:
            return await boxes.status("one") == 3

        await eventually(15, is_reported)


async def test_a_raw_conversion_is_called(boxes: Boxes) -> None:
    """The CRD calls its path, and the caBundle is written there as for any other webhook."""
    boxes.validate()

    def convert(obj: dict[str, Any], desired_version: str) -> dict[str, Any]:
        spec = obj.pop("spec")
        if desired_version.endswith("/v1"):
            return obj | {"spec": {"size": int(spec["extent"])}}
        return obj | {"spec": {"extent": str(spec["size"])}}

    boxes.operator.webhooks.convert("/raw", convert, kinds=[boxes.now, boxes.old])
    async with boxes.installed(), boxes.served():
        await eventually(20, boxes.answers)
        await boxes.create("one", size=3)
        await eventually(10, lambda: _are_written(boxes))
        old = await boxes.client.get(boxes.old, "one", boxes.namespace)
        assert old.spec.extent == "3"


@pytest.mark.behaviour("S18")
async def test_a_follower_serves(boxes: Boxes) -> None:
    """Another replica leads; calls are answered here all the same, and nothing is reconciled."""
    boxes.validate()
    boxes.control()
    boxes.operator.leader_election()
    lease = LEASES.format(namespace=boxes.namespace, name="").rstrip("/")
    held = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": boxes.operator.name, "namespace": boxes.namespace},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 0},
    }
    await boxes.client.request("POST", lease, body=held)
    async with boxes.installed(), boxes.served():
        await eventually(20, boxes.answers)
        await boxes.create("one", size=2)
        await asyncio.sleep(0.5)
        assert await boxes.status("one") is None


@pytest.mark.behaviour("B21")
async def test_a_kind_that_needs_our_conversion_syncs(boxes: Boxes) -> None:
    """Stored at the other version, served only while ready: readiness does not wait for it."""
    boxes.convert()
    boxes.control()
    try:
        await _store_at_the_old_version(boxes)
        async with boxes.installed():
            with pytest.raises(ServerError):
                await boxes.client.list(boxes.now, boxes.namespace)
            async with boxes.served():

                async def is_reported() -> bool:
                    return await boxes.status("stored") == 5

                await eventually(30, is_reported)
                assert await is_ready(boxes.operator)
    finally:
        await boxes.remove()


async def _store_at_the_old_version(boxes: Boxes) -> None:
    """As an earlier release left it: one version, one object."""
    group = boxes.crd.partition(".")[2]

    class Stored(CustomResource, group=group, version="v1alpha1", kind="Box"):
        """The earlier release's class."""

        spec: OldBoxSpec = OldBoxSpec()
        status: BoxStatus = BoxStatus()

    await boxes.cluster.install_crd(Stored)
    of = Stored.resource_definition.kind
    await boxes.client.create(
        {
            "apiVersion": of.api_version,
            "kind": of.kind,
            "metadata": {"name": "stored", "namespace": boxes.namespace},
            "spec": {"extent": "5"},
        },
        kind=of,
    )


async def test_no_ca_bundle_is_written_before_the_listener_answers(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate exists; the API server is told of it only once somebody answers."""
    boxes.validate()
    boxes.convert()
    answering = asyncio.Event()
    really = WebhookServer.answers

    async def answers(self: WebhookServer) -> bool:
        return answering.is_set() and await really(self)

    monkeypatch.setattr(WebhookServer, "answers", answers)
    async with boxes.installed(), boxes.served():
        await eventually(10, lambda: _has_secret(boxes))
        await asyncio.sleep(1.5)
        assert set(await boxes.bundles()) == {""}
        assert not await is_ready(boxes.operator)
        _, text = await fetch(boxes.operator, "/readyz?verbose")
        crd = f"{kinds.CustomResourceDefinition.resource}/{boxes.crd}"
        assert f"[i]webhooks: not trusted by the caBundle of {crd}" in text
        answering.set()
        await eventually(10, lambda: _are_written(boxes))
        await eventually(10, lambda: is_ready(boxes.operator))
        await eventually(10, lambda: _has_no_note(boxes))


async def _has_no_note(boxes: Boxes) -> bool:
    return "[i]webhooks" not in (await fetch(boxes.operator, "/readyz?verbose"))[1]


async def _has_secret(boxes: Boxes) -> bool:
    return len(await boxes.client.list(kinds.Secret, boxes.namespace)) == 1


async def _are_written(boxes: Boxes) -> bool:
    return "" not in await boxes.bundles()


@pytest.mark.behaviour("B24")
async def test_a_stop_lets_no_call_fall(boxes: Boxes) -> None:
    """Readiness falls first, a call of the lag is answered, one under way at the end finishes."""
    boxes.validate()
    async with boxes.installed(), boxes.served() as task:
        await eventually(20, boxes.answers)
        boxes.release.clear()
        slow = asyncio.create_task(boxes.create("slow", size=7))
        await eventually(5, lambda: "slow" in boxes.calls)
        stopped = time.monotonic()
        boxes.operator.stop()
        await asyncio.sleep(0)
        assert not await is_ready(boxes.operator)
        await _call_at(boxes.operator.webhook_port)
        await asyncio.sleep(LAG_SECONDS - 0.4)
        await _call_at(boxes.operator.webhook_port)
        assert time.monotonic() - stopped < LAG_SECONDS
        await asyncio.sleep(2)
        with pytest.raises(OSError, match="onnect"):
            await _call_at(boxes.operator.webhook_port)
        assert not slow.done()
        assert not task.done()
        boxes.release.set()
        assert (await slow)["metadata"]["name"] == "slow"
        await task
        assert time.monotonic() - stopped < LAG_SECONDS + 3


async def test_a_lost_lease_lets_no_call_fall(boxes: Boxes) -> None:
    """What needs the Lease ends at once; webhooks need none, so they take leave as at a stop."""
    boxes.validate()
    boxes.control()
    boxes.operator.leader_election(namespace=boxes.namespace)
    lease = LEASES.format(namespace=boxes.namespace, name=boxes.operator.name)
    async with boxes.installed():
        with contextlib.suppress(LeadershipLost):  # the run, and so the fixture, ends by it
            async with boxes.served() as task:
                await eventually(20, boxes.answers)
                assert not boxes.operator.has_lost_lease()
                boxes.release.clear()
                slow = asyncio.create_task(boxes.create("slow", size=7))
                await eventually(5, lambda: "slow" in boxes.calls)
                await boxes.client.request(
                    "PATCH",
                    lease,
                    body={"spec": {"holderIdentity": "thief"}},
                    content_type="application/merge-patch+json",
                )
                await eventually(15, boxes.operator.has_lost_lease, 0.02)
                await eventually(0.5, lambda: not boxes.operator.is_at_work(), 0.02)
                assert not await is_ready(boxes.operator)
                await asyncio.sleep(LAG_SECONDS - 0.7)
                await _call_at(boxes.operator.webhook_port)
                await asyncio.sleep(2)
                assert not slow.done()
                assert not task.done()
                boxes.release.set()
                assert (await slow)["metadata"]["name"] == "slow"
                with pytest.raises(LeadershipLost, match="thief"):
                    await task


async def test_a_lost_lease_is_outlived_by_no_lag(boxes: Boxes) -> None:
    """What the controllers left in the process must not meet the next leader."""
    boxes.validate()
    boxes.control()
    boxes.operator.lag_seconds = 30.0
    boxes.operator.leader_election(
        namespace=boxes.namespace, lease_seconds=6, renew_seconds=3, retry_seconds=1
    )
    lease = LEASES.format(namespace=boxes.namespace, name=boxes.operator.name)
    async with boxes.installed():
        with contextlib.suppress(LeadershipLost):  # the run, and so the fixture, ends by it
            async with boxes.served() as task:
                await eventually(20, boxes.answers)
                await boxes.client.request(
                    "PATCH",
                    lease,
                    body={"spec": {"holderIdentity": "thief"}},
                    content_type="application/merge-patch+json",
                )
                await eventually(15, boxes.operator.has_lost_lease, 0.02)
                assert 2 < (boxes.operator.expires_in() or 0) <= 3
                await asyncio.sleep(0.8)
                await _call_at(boxes.operator.webhook_port)
                with pytest.raises(LeadershipLost, match="thief"):
                    await task
                assert 0 < (boxes.operator.expires_in() or 0) < 2.2


async def test_who_leaves_writes_no_secret(boxes: Boxes) -> None:
    """An uninstall deletes it while a stopped replica still answers; it must not come back."""
    boxes.validate()
    boxes.operator.lag_seconds = 3.0
    async with boxes.installed(), boxes.served() as task:
        await eventually(20, boxes.answers)
        boxes.operator.stop()
        await asyncio.sleep(0)
        [secret] = await boxes.client.list(kinds.Secret, boxes.namespace)
        await boxes.client.delete(kinds.Secret, secret["metadata"]["name"], boxes.namespace)
        await asyncio.sleep(2)
        assert await boxes.client.list(kinds.Secret, boxes.namespace) == []
        await _call_at(boxes.operator.webhook_port)
        assert not task.done()


async def test_who_leaves_before_it_serves_writes_no_secret(boxes: Boxes) -> None:
    """A drain may be long, and what could not be written before may be possible in it."""
    boxes.validate()
    may_end = asyncio.Event()

    class Busy:
        """A part that takes its time to end."""

        name = "busy"

        def rules(self) -> list[PolicyRule]:
            """No permissions."""
            return []

        def kinds(self) -> list[Any]:
            """No kinds."""
            return []

        def bind(self, environment: Any) -> None:
            """Keep what tells of the stop."""
            self.stopping = environment.stopping

        async def run(self) -> None:
            """End when the test says so."""
            await self.stopping.wait()
            await may_end.wait()

    boxes.operator.add(Busy())
    name = boxes.operator._declaration.certificate.secret
    metadata = {"name": name, "namespace": boxes.namespace}
    # It holds no certificate, and is not the operator's to write.
    await boxes.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    async with boxes.installed(), running(boxes.operator, http_port=0, webhook_port=0) as task:
        await asyncio.sleep(0.5)
        boxes.operator.stop()
        await asyncio.sleep(0)
        await boxes.client.delete(kinds.Secret, name, boxes.namespace)
        await asyncio.sleep(2)
        assert not task.done()
        assert await boxes.client.list(kinds.Secret, boxes.namespace) == []
        may_end.set()
        await task


async def _call_at(port: int | None) -> None:
    """A connection of one's own to the listener."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await writer.wait_closed()


async def test_webhooks_answer_what_a_draining_controller_writes(boxes: Boxes) -> None:
    """The lag is over, a reconcile still runs: its own write passes its own webhook."""
    boxes.validate()
    written = asyncio.Event()

    @boxes.operator.controller(boxes.now, namespaces=[boxes.namespace]).reconcile
    async def reconcile(box: Any, ctx: Context) -> None:
        boxes.operator.stop()
        await asyncio.sleep(2 * LAG_SECONDS)
        assert not await is_ready(boxes.operator)
        patch = {"spec": {"owner": "me"}}
        await boxes.client.patch(boxes.now, box.name, box.namespace, patch=patch)
        written.set()

    async with boxes.installed(), boxes.served() as task:
        await eventually(20, boxes.answers)
        # As a Service follows readiness, so does the forwarder: here we must stay within reach.
        boxes.forwarder.freeze()
        await boxes.create("one", size=2)
        await task
        assert written.is_set()


async def test_a_cancelled_run_waits_for_no_lag(boxes: Boxes) -> None:
    """A second signal cuts a drain short: reconciles, calls and the listener end at once."""
    boxes.validate()
    begun = asyncio.Event()

    @boxes.operator.controller(boxes.now, namespaces=[boxes.namespace]).reconcile
    async def reconcile(box: Any, ctx: Context) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with boxes.installed():
        with contextlib.suppress(asyncio.CancelledError):  # the run, and so the fixture, ends by it
            async with boxes.served() as task:
                await eventually(20, boxes.answers)
                await boxes.create("one", size=2)
                await begun.wait()
                boxes.operator.stop()
                await asyncio.sleep(0.1)
                await _call_at(boxes.operator.webhook_port)
                cut = time.monotonic()
                task.cancel()
                await asyncio.wait([task])
                assert time.monotonic() - cut < LAG_SECONDS / 2
                assert task.cancelled()
                with pytest.raises(OSError, match="onnect"):
                    await _call_at(boxes.operator.webhook_port)


async def test_a_missing_permission_is_named_while_controllers_work(
    boxes: Boxes, control_plane: ControlPlane
) -> None:
    """Without the Secret there is no certificate: not ready, and yet at work."""
    boxes.validate()
    boxes.control()
    boxes.operator._client = None
    documents = boxes.operator.manifests(namespace=boxes.namespace)
    needed = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    name = boxes.operator.name
    try:
        for document in documents:
            if document["kind"] in needed:
                await boxes.client.apply(document, field_manager="test")
        kubeconfig = await control_plane.service_account_kubeconfig(boxes.namespace, name)
        async with boxes.installed(), boxes.served(kubeconfig=str(kubeconfig)):
            await boxes.client.delete(kinds.ValidatingWebhookConfiguration, name)
            await eventually(10, lambda: _creates(boxes))

            async def is_reported() -> bool:
                return await boxes.status("one") == 3

            await eventually(15, is_reported)
            status, text = await fetch(boxes.operator, "/readyz")
            assert status == 503
            assert f"[-]webhooks of {name} failed" in text
            assert "secrets" in text
            assert "403" in text
            role = [each for each in documents if each["kind"] in ("Role", "RoleBinding")]
            for document in role:
                await boxes.client.apply(document, field_manager="test")
            await eventually(20, lambda: is_ready(boxes.operator))
    finally:
        for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding):
            await boxes.client.delete(kind, name)


async def _creates(boxes: Boxes) -> bool:
    await boxes.create("one", size=3)
    return True


async def test_mounted_files_are_served(boxes: Boxes, tmp_path: Path) -> None:
    """The certificate is cert-manager's: no Secret is made, no caBundle touched."""
    boxes.validate()
    name = boxes.operator.name
    certificate = WebhookCertificate.generate(name, boxes.namespace)
    for file, text in (("tls.crt", certificate.cert_pem), ("tls.key", certificate.key_pem)):
        (tmp_path / file).write_text(text)
    files = (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    async with boxes.installed(), boxes.served(tls_files=files):
        await eventually(5, lambda: is_ready(boxes.operator))
        assert set(await boxes.bundles()) == {""}
        assert "certificate" in await boxes.refusal(size=13)
        await certificate.patch_ca_bundle(boxes.client, validating=name)
        await eventually(10, boxes.answers)
        assert await boxes.client.list(kinds.Secret, boxes.namespace) == []
        assert await _has_no_note(boxes)  # it is for the Service's name


async def test_a_port_in_use_ends_it_at_once(boxes: Boxes) -> None:
    """One line that names the port and the remedy; no lag, nothing to wait for."""
    boxes.validate()
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(ConfigurationError) as raised:
            await boxes.operator.run(webhook_port=port)
    assert str(raised.value) == (
        f"webhook address *:{port} is in use: choose another port, or 0 for any free one"
    )
    assert time.monotonic() - started < LAG_SECONDS


async def test_without_a_port_the_webhooks_are_left_to_others(boxes: Boxes) -> None:
    """A controller of one's own process, say in a test, needs no listener."""
    boxes.validate()
    boxes.control()
    async with boxes.installed(), running(boxes.operator, http_port=0, webhook_port=None):
        await eventually(15, lambda: is_ready(boxes.operator))
        assert boxes.operator.webhook_port is None


async def test_a_handler_asks_by_its_own_client(boxes: Boxes) -> None:
    """What it reads is fresh, and on a follower it may write too."""

    @boxes.operator.validate(boxes.now, namespace_selector=boxes.selector)
    async def check(request: AdmissionRequest[Any]) -> None:
        found = await request.client.list(kinds.ConfigMap, request.namespace)
        names = [each["metadata"]["name"] for each in found]
        raise Denied(f"there are {names}")

    assert PolicyRule("", ("configmaps",), ("list",)) not in boxes.operator.rules()
    async with boxes.installed(), boxes.served():

        async def is_asked() -> bool:
            assert "there are [" in await boxes.refusal()
            return True

        await eventually(20, is_asked)


async def test_the_program_installs_serves_and_ends(
    boxes: Boxes, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """`--manifests` by kubectl, `serve` as its ServiceAccount; one SIGTERM 0, a second one 1."""
    suffix = secrets.token_hex(3)
    installation = Installation(
        control_plane,
        boxes.forwarder,
        boxes.namespace,
        f"vaults-{suffix}",
        (str(PROGRAM),),
        tmp_path,
        {
            "TEST_OPERATOR": f"vaults-{suffix}",
            "TEST_GROUP": f"v{suffix}.test.example.com",
            "TEST_NAMESPACE": boxes.namespace,
        },
    )
    async with installed(installation, "one", "two") as running_program:
        vault = {
            "apiVersion": f"v{suffix}.test.example.com/v1alpha1",
            "kind": "Vault",
            "metadata": {"name": "one", "namespace": boxes.namespace},
            "spec": {"capacity": "500Gi"},
        }

        async def is_denied() -> bool:
            try:
                await boxes.client.create(vault, kind=_vault(suffix))
            except Forbidden as error:
                return "a vault of 500 Gi is too large" in str(error)
            return False

        await eventually(10, is_denied)
        assert await running_program.stop("one") == 0
        hurried = running_program.replicas["two"].process
        hurried.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        again = time.monotonic()
        assert await running_program.stop("two") == 1
        assert time.monotonic() - again < 3  # within the lag


def _vault(suffix: str) -> Any:
    from rws_operator import Kind

    return Kind(f"v{suffix}.test.example.com/v1alpha1", "Vault", "vaults")
