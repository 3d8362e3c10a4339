"""What the tests of the certificate share: objects of their own on the API server, and keepers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import ssl
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rws_operator.errors import NotFound
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually
from rws_operator.webhook.ca_bundle import BundleTargets
from rws_operator.webhook.certificate_terms import service_names
from rws_operator.webhook.inspection import authorities
from rws_operator.webhook.keeper import Keeper
from rws_operator.webhook.serving_tls import ServingTls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rws_operator.client import Client
    from rws_operator.webhook.certificate import WebhookCertificate

SECRET = "hook-tls"
SERVICE = "hook"
VALIDATING = kinds.ValidatingWebhookConfiguration
MUTATING = kinds.MutatingWebhookConfiguration
CRD = kinds.CustomResourceDefinition


@dataclass
class Site:
    """A namespace with webhook configurations and a CRD of its own.

    Args:
        client: An administrator's.
        namespace: Its name, which the cluster-scoped objects bear too.
    """

    client: Client
    namespace: str
    name: str = field(default_factory=lambda: f"cert-{secrets.token_hex(4)}")

    @property
    def crd_name(self) -> str:
        """The CRD's."""
        return f"things.{self.name}.test.example.com"

    @property
    def targets(self) -> BundleTargets:
        """All that is ours."""
        return BundleTargets(
            service=(SERVICE, self.namespace),
            validating={self.name: frozenset({"validate.things.example.com"})},
            mutating={self.name: frozenset({"mutate.things.example.com"})},
            crds=(self.crd_name,),
        )

    def entry(self, name: str, service: str | None = SERVICE) -> dict[str, Any]:
        """An entry of a configuration, limited to this namespace."""
        config: dict[str, Any] = {"url": "https://127.0.0.1:1/x"}
        if service is not None:
            config = {"service": {"name": service, "namespace": self.namespace, "path": "/x"}}
        in_here = {"key": "kubernetes.io/metadata.name", "operator": "In"}
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": config,
            "namespaceSelector": {"matchExpressions": [{**in_here, "values": [self.namespace]}]},
            "rules": [
                {
                    "apiGroups": [f"{self.name}.test.example.com"],
                    "apiVersions": ["v1"],
                    "resources": ["things"],
                    "operations": ["CREATE"],
                }
            ],
        }

    def validating(self, *more: dict[str, Any]) -> dict[str, Any]:
        """A configuration without caBundle, as it is printed."""
        return self._configuration(VALIDATING, "validate.things.example.com", *more)

    def mutating(self) -> dict[str, Any]:
        """The same, mutating."""
        return self._configuration(MUTATING, "mutate.things.example.com")

    def crd(self, *, converted: bool = True) -> dict[str, Any]:
        """A CRD with two versions, converted by a webhook or not."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions = [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": schema},
            }
            for name in ("v1", "v2")
        ]
        spec: dict[str, Any] = {
            "group": f"{self.name}.test.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": versions,
        }
        if converted:
            service = {"name": SERVICE, "namespace": self.namespace, "path": "/convert"}
            webhook = {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": service},
            }
            spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return {
            "apiVersion": CRD.api_version,
            "kind": CRD.kind,
            "metadata": {"name": self.crd_name},
            "spec": spec,
        }

    def _configuration(self, kind: Any, name: str, *more: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": self.name},
            "webhooks": [*more, self.entry(name)],
        }

    async def install(self) -> None:
        """Create all of them."""
        for wire in (self.validating(), self.mutating(), self.crd()):
            await self.client.create(wire)

    async def remove(self) -> None:
        """Delete what there is."""
        for kind, name in ((VALIDATING, self.name), (MUTATING, self.name), (CRD, self.crd_name)):
            with contextlib.suppress(NotFound):
                await self.client.delete(kind, name)

    async def guard_crd(self) -> str:
        """Have changes of the CRD refused, by a webhook that nobody answers; return its name."""
        guard = f"guard-{self.name}"
        entry = self.entry("guard.things.example.com", None)
        del entry["namespaceSelector"]
        entry["matchConditions"] = [
            {"name": "ours", "expression": f"object.metadata.name == '{self.crd_name}'"}
        ]
        entry["rules"] = [
            {
                "apiGroups": ["apiextensions.k8s.io"],
                "apiVersions": ["v1"],
                "resources": ["customresourcedefinitions"],
                "operations": ["UPDATE"],
            }
        ]
        wire = {**self.validating(), "metadata": {"name": guard}, "webhooks": [entry]}
        await self.client.create(wire)
        return guard

    async def unguard_crd(self) -> None:
        """Let the CRD be changed again."""
        with contextlib.suppress(NotFound):
            await self.client.delete(VALIDATING, f"guard-{self.name}")

    async def secret(self) -> dict[str, Any]:
        """The Secret now."""
        return await self.client.get(kinds.Secret, SECRET, self.namespace)

    async def stage(self) -> str:
        """The stage that the Secret names."""
        secret = await self.secret()
        stage: str = secret["metadata"]["annotations"]["rws-operator/certificate-stage"]
        return stage

    async def write_secret(self, **data: str) -> None:
        """Change keys of the Secret, given as ``tls_crt="..."``."""
        encoded = {key.replace("_", "."): encode(text) for key, text in data.items()}
        await self.client.patch(kinds.Secret, SECRET, self.namespace, patch={"data": encoded})

    async def foreign_secret(self, certificate: WebhookCertificate) -> None:
        """Make or replace the Secret as cert-manager does: without anything of ours."""
        wire = certificate.to_secret(SECRET, self.namespace)
        wire["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "hook"}
        try:
            await self.client.replace(wire)
        except NotFound:
            await self.client.create(wire)

    async def bundles(self) -> dict[str, tuple[str, ...]]:
        """What each of our entries trusts."""
        found: dict[str, tuple[str, ...]] = {}
        for kind in (VALIDATING, MUTATING):
            for entry in (await self._get(kind, self.name)).get("webhooks", []):
                if entry["name"].endswith(".things.example.com"):
                    found[entry["name"]] = held_by(entry["clientConfig"])
        conversion = (await self._get(CRD, self.crd_name)).get("spec", {}).get("conversion", {})
        if conversion.get("strategy") == "Webhook":
            found["crd"] = held_by(conversion["webhook"]["clientConfig"])
        return found

    async def _get(self, kind: Any, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = await self.client.get(kind, name)
        except NotFound:
            return {}
        return found

    async def set_bundle(self, kind: Any, text: str | None) -> None:
        """Overwrite, or blank, the caBundle of the last entry."""
        name = self.crd_name if kind is CRD else self.name
        wire = await self.client.get(kind, name)
        if kind is CRD:
            config = wire["spec"]["conversion"]["webhook"]["clientConfig"]
        else:
            config = wire["webhooks"][-1]["clientConfig"]
        config.pop("caBundle", None)
        if text is not None:
            config["caBundle"] = encode(text)
        await self.client.replace(wire)


@dataclass
class Replica:
    """A Keeper that runs, and what it serves."""

    keeper: Keeper
    serving: ServingTls
    listening: asyncio.Event
    task: asyncio.Task[None]

    @property
    def ca(self) -> str:
        """The CA of what is served."""
        assert self.serving.certificate is not None
        return self.serving.certificate.ca_pem

    async def stop(self) -> None:
        """Kill it."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


def a_keeper(
    site: Site,
    *,
    client: Client | None = None,
    lifetime: float = 3600.0,
    stage: float = 1.0,
    wall_clock: Callable[[], float] = time.time,
    service: tuple[str, str] | None = None,
) -> Keeper:
    """A Keeper of the site, or of another Service."""
    name, namespace = service or (SERVICE, site.namespace)
    return Keeper(
        client or site.client,
        operator="cert-test",
        namespace=site.namespace,
        secret=SECRET,
        names=service_names(name, namespace),
        targets=replace(site.targets, service=(name, namespace)),
        serving=ServingTls(),
        lifetime_seconds=lifetime,
        stage_seconds=stage,
        manager="cert-test",
        wall_clock=wall_clock,
    )


async def start(keeper: Keeper, *, listening: bool = True, obtain: bool = True) -> Replica:
    """Let a Keeper run."""
    event = asyncio.Event()
    if listening:
        event.set()

    async def life() -> None:
        if obtain:
            await keeper.obtain()
        await keeper.run(event)

    task = asyncio.create_task(life())
    return Replica(keeper, keeper._serving, event, task)


@contextlib.asynccontextmanager
async def running(*keepers: Keeper) -> AsyncIterator[list[Replica]]:
    """Keepers that run and listen, until the block ends; none may have ended by itself."""
    replicas = [await start(keeper) for keeper in keepers]
    try:
        await eventually(
            20, lambda: all(each.serving.certificate or each.task.done() for each in replicas), 0.05
        )
        yield replicas
        for each in replicas:
            assert not each.task.done() or each.task.cancelled(), each.task
    finally:
        for each in replicas:
            await each.stop()


def encode(text: str) -> str:
    """Base64."""
    return base64.b64encode(text.encode()).decode()


def held_by(config: dict[str, Any]) -> tuple[str, ...]:
    """The CAs in a clientConfig's caBundle."""
    text = base64.b64decode(config.get("caBundle") or "").decode()
    return authorities(text) if text else ()


async def handshake(port: int, ca_pem: str, name: str) -> ssl.SSLObject:
    """Connect as the API server does; return the connection's TLS."""
    context = ssl.create_default_context(cadata=ca_pem)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return tls


def shows_key(text: str, *certificates: WebhookCertificate) -> bool:
    """Whether any line of a key, plain or in base64, stands in a text."""
    needles = ["PRIVATE KEY"]
    for each in certificates:
        lines = each.key_pem.splitlines()[1:-1]
        needles += [*lines, base64.b64encode(each.key_pem.encode()).decode()[40:80]]
    return any(needle in text for needle in needles)
