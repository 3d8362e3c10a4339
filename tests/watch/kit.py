"""What the tests of watch and cache share: an informer behind a gate, and what it told."""

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rws_operator.cache import Delta, Informer, Informers
from rws_operator.client import Client, client
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.record import ObjectRecord
from rws_operator.testing.cluster import TestNamespace
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from rws_operator.watch import Selection, WatchTimes

# Nothing makes Secrets in a namespace by itself, unlike ConfigMaps.
SECRET = Kind("v1", "Secret", "secrets")
QUICK = WatchTimes(idle=4.0, stream_silence=1.0, stream_total=5.0)


@dataclass
class Watched:
    """An informer behind a gate, and an administrator beside it."""

    gate: Gate
    client: Client
    admin: Client
    namespace: str
    informers: Informers
    informer: Informer
    deltas: list[Delta] = field(default_factory=list)

    def key(self, name: str) -> ObjectKey:
        """The key of an object of the namespace."""
        return ObjectKey(self.namespace, name)

    def cached(self, name: str) -> ObjectRecord | None:
        """The record of an object of the namespace."""
        return self.informer.get(self.key(name))

    def told(self, name: str) -> list[str]:
        """What subscribers heard of an object: "+" came, "~" changed, "-" went."""
        return [_mark(d) for d in self.deltas if (d.new or d.old).key.name == name]  # type: ignore[union-attr]

    async def make(self, name: str, **labels: str) -> dict[str, Any]:
        """Create a Secret as administrator."""
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        return await self.admin.create(body, kind=SECRET, namespace=self.namespace)

    async def change(self, name: str, **data: str) -> dict[str, Any]:
        """Change data of a Secret as administrator."""
        return await self.admin.patch(SECRET, name, self.namespace, patch={"stringData": data})

    async def remove(self, name: str) -> None:
        """Delete a Secret as administrator."""
        await self.admin.delete(SECRET, name, self.namespace)

    async def shows(self, name: str, within: float = 15.0, **data: str) -> ObjectRecord:
        """Wait until the cache shows a Secret with this data."""
        wanted = {key: base64.b64encode(value.encode()) for key, value in data.items()}

        def find() -> ObjectRecord | None:
            record = self.cached(name)
            has_it = record is not None and all(value in record.raw for value in wanted.values())
            return record if has_it else None

        return await eventually(within, find, every=0.02)

    async def lacks(self, name: str, within: float = 15.0) -> None:
        """Wait until the cache shows no such Secret."""
        await eventually(within, lambda: self.cached(name) is None, every=0.02)

    def lists(self) -> int:
        """How many lists the watched kind had so far, streamed or paged."""
        asked = self.gate.asked(resource=self.informer.kind.plural)
        return sum("sendInitialEvents" in r.query or is_first_page(r.query, r.verb) for r in asked)


def is_first_page(query: Mapping[str, str], verb: str) -> bool:
    """Whether a request is the first of a paged list."""
    return verb == "list" and "continue" not in query


def _mark(delta: Delta) -> str:
    return "+" if delta.old is None else "-" if delta.new is None else "~"


@contextlib.asynccontextmanager
async def watching(
    gate: Gate,
    admin: Client,
    namespace: str,
    *,
    kind: Kind = SECRET,
    selection: Selection | None = None,
    times: WatchTimes = QUICK,
    token: str | None = None,
    wait: bool = True,
) -> AsyncIterator[Watched]:
    """Run one informer behind the gate for the length of the block."""
    kubeconfig = gate.kubeconfig_for(token) if token else gate.kubeconfig
    async with await client(str(kubeconfig)) as through:
        informers = Informers(through, "test", times=times)
        informer = informers.informer(kind, selection or Selection(namespace=namespace))
        watched = Watched(gate, through, admin, namespace, informers, informer)
        informer.subscribe(watched.deltas.append)
        async with running(informers):
            if wait:
                async with asyncio.timeout(20):
                    await informers.wait_synced()
            yield watched


@contextlib.asynccontextmanager
async def running(informers: Informers) -> AsyncIterator[None]:
    """Run informers for the length of the block; fail if they end before it."""
    task = asyncio.create_task(informers.run())
    try:
        yield
        assert not task.done(), "the informers ended by themselves"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def custom_kind(
    admin: Client, *, version: str = "v1", group: str | None = None
) -> AsyncIterator[Kind]:
    """Serve a custom kind that preserves unknown fields; its CRD is deleted afterwards."""
    group = group or f"w{secrets.token_hex(3)}.watch.test.example.com"
    kind = Kind(f"{group}/{version}", "Widget", "widgets")
    await install(admin, kind)
    try:
        yield kind
    finally:
        await uninstall(admin, kind)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def install(admin: Client, kind: Kind) -> None:
    """Create the CRD of a kind and wait until it is served."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": "widget", "kind": kind.kind},
            "versions": [version],
        },
    }
    await admin.request("POST", CRDS, body=body)

    async def is_served() -> bool:
        return (await admin.request("GET", kind.path())).status == 200

    await eventually(20, is_served)


async def uninstall(admin: Client, kind: Kind) -> None:
    """Delete the CRD of a kind and wait until it is gone."""
    await admin.request("DELETE", f"{CRDS}/{kind.resource}")

    async def is_gone() -> bool:
        found = await admin.request(
            "GET", CRDS, params={"fieldSelector": f"metadata.name={kind.resource}"}
        )
        return kind.resource.encode() not in found.body

    await eventually(30, is_gone)


async def make_widget(admin: Client, kind: Kind, namespace: str, name: str, **spec: Any) -> None:
    """Create a custom object."""
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    await admin.request("POST", kind.path(namespace), body=body)


__all__ = ["Gate", "TestNamespace", "Watched", "watching"]
