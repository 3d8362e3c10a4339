"""What one run of an Operator does for its webhooks: listener, certificate, readiness, goodbye.

    start   port opened → certificate obtained → the listener answers TLS → caBundles written
    stop    each answer closes its connection, and the certificate is kept no longer, only served
            → listener closed, calls under way end

It runs on every replica, beside the controllers and in nobody's way: while there is no
certificate it says why in readiness, and goes on trying.

Invariants: no caBundle is written before the listener was seen to answer, so that the API server
is never told to call where nobody is; a replica that leaves writes neither Secret nor caBundle, or
it would put back what an uninstall has just deleted.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

from rws_operator.client.identity import own_namespace
from rws_operator.group import Group
from rws_operator.listener import Listener
from rws_operator.webhook.ca_bundle import BundleTargets
from rws_operator.webhook.certificate_terms import service_names
from rws_operator.webhook.keeper import Keeper
from rws_operator.webhook.mounted import MountedCertificate
from rws_operator.webhook.serving import WebhookServer
from rws_operator.webhook.serving_tls import ServingTls

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.resources import Kind
    from rws_operator.webhook.declaration import Declaration

TlsFiles = tuple[str, str]
"""Paths of a certificate and its key."""

_ANSWERS_SECONDS = 0.1


class _Certificate(Protocol):
    async def obtain(self) -> None:
        """Return once a certificate is served."""

    async def run(self, listening: asyncio.Event) -> None:
        """Keep it."""

    def check(self) -> str | None:
        """Why it can't be served now."""
        ...

    def notes(self) -> list[str]:
        """What else does not work."""
        ...


class WebhookService:
    """Serves an Operator's webhooks.

    Args:
        declaration: What is served.
        name: The operator's name: the field manager.
        object_name: Name of the objects that install it.
        port: Port of the webhooks; 0 for any free one.
        tls_files: Serve the certificate of these files; None to keep one in a Secret.

    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        name: str,
        object_name: str,
        port: int,
        tls_files: TlsFiles | None = None,
    ) -> None:
        self._declaration = declaration
        self._name = name
        self._object_name = object_name
        self._tls_files = tls_files
        self._tls = ServingTls()
        listener = Listener("", port, what="webhook", context=self._tls.context)
        self._server = WebhookServer(listener, declaration.webhooks.handle)
        self._certificate: _Certificate | None = None
        self._obtained = asyncio.Event()
        self._listening = asyncio.Event()
        self._tasks = Group()
        self._keeping: asyncio.Task[None] | None = None
        self._is_leaving = False

    @property
    def port(self) -> int:
        """The port asked for; once it listens, the one it listens on."""
        return self._server.port

    @property
    def is_serving(self) -> bool:
        """Whether the listener was seen to answer, and has not ended."""
        return self._listening.is_set()

    def bind(self, client: Client) -> None:
        """Take the client for handlers and the certificate; not fenced, as followers serve too."""
        self._declaration.webhooks.bind(client)
        self._certificate = self._make_certificate(client)

    def converts(self, kind: Kind) -> bool:
        """Whether the API server may have to call us before it can list a kind."""
        return self._declaration.needs_conversion(kind)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigurationError: The port can't be listened on.
        """
        await self._server.start()
        try:
            async with Group() as self._tasks:
                if not self._is_leaving:
                    self._keeping = self._tasks.start(self._keep, "the webhooks' certificate")
                await self._obtained.wait()
                while not await self._server.answers():  # noqa: ASYNC110 - asks a socket
                    await asyncio.sleep(_ANSWERS_SECONDS)
                self._listening.set()
                await asyncio.get_running_loop().create_future()  # what is served outlives _keep
        finally:
            self._listening.clear()
            await self._server.stop(0)
            self._declaration.webhooks.close()

    async def _keep(self) -> None:
        assert self._certificate is not None
        await self._certificate.obtain()
        self._obtained.set()
        await self._certificate.run(self._listening)

    async def check(self) -> str | None:
        """Why calls can't be answered here; a readiness check."""
        if self._certificate is None:
            return "not started"
        if (reason := self._certificate.check()) is not None:
            return reason
        if not await self._server.answers():
            return f"the listener on port {self.port} ends no TLS handshake"
        return None

    def stuck(self) -> str | None:
        """Why calls can't be answered here any more; a liveness check."""
        return self._declaration.webhooks.stuck()

    def notes(self) -> list[str]:
        """What does not work of the certificate and its trust although calls may be answered."""
        return self._certificate.notes() if self._certificate is not None else []

    def say_goodbye(self) -> None:
        """From now on each answer ends its connection, and nothing is written any more."""
        self._is_leaving = self._tasks.ends = True
        if self._keeping is not None:
            self._keeping.cancel()
        self._server.say_goodbye()

    async def close(self, seconds: float = math.inf) -> None:
        """Take no further call, and let those under way end, so many seconds at most."""
        await self._server.stop(min(seconds, self._declaration.call_seconds))

    def _make_certificate(self, client: Client) -> _Certificate:
        settings = self._declaration.certificate
        namespace = own_namespace(client)
        if self._tls_files is not None:
            dialled = f"{settings.service}.{namespace}.svc"
            return MountedCertificate(
                *self._tls_files, names=[dialled, *settings.names], serving=self._tls
            )
        return Keeper(
            client,
            operator=self._name,
            namespace=namespace,
            secret=settings.secret,
            names=[*service_names(settings.service, namespace), *settings.names],
            targets=self._targets(settings.service, namespace),
            serving=self._tls,
            lifetime_seconds=settings.lifetime_seconds,
            stage_seconds=settings.stage_seconds,
            manager=self._name,
        )

    def _targets(self, service: str, namespace: str) -> BundleTargets:
        registrations = self._declaration.webhooks.registrations
        entries = {
            mutating: frozenset(each.name for each in registrations if each.mutating is mutating)
            for mutating in (False, True)
        }
        return BundleTargets(
            service=(service, namespace),
            validating={self._object_name: entries[False]} if entries[False] else {},
            mutating={self._object_name: entries[True]} if entries[True] else {},
            crds=tuple(self._declaration.conversions()),
        )
