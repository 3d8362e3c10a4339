"""Credential plugins: a program that a kubeconfig names, run to log in.

The protocol is client.authentication.k8s.io/v1 (and v1beta1): the program is told of the cluster
in KUBERNETES_EXEC_INFO and prints an ExecCredential. kubernetes_asyncio could run it, but not end
it: its program outlives a deadline, and importing the library costs 40 MB. Here the program and
whatever it started are killed when it takes too long, prints too much or the client is closed, and
so is what it left behind with its output still open.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rws_operator.client.credentials import Credential, bearer
from rws_operator.client.decode import UNDECODABLE
from rws_operator.client.program import Program
from rws_operator.client.tls import Tls, make_context
from rws_operator.errors import KubeconfigError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEADLINE_SECONDS = 20.0
"""Less than a request's own deadline, so that the error names the plugin."""

_EARLY_SECONDS = 10.0
"""How long before it expires a credential is renewed."""

_LEFT_OPEN_SECONDS = 1.0
"""How long an ended program's output is read on that a child holds open."""

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""The protocol's versions, the one to use first."""


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    """What the program prints."""

    api_version: str
    kind: str = "ExecCredential"
    status: _ExecStatus | None = None


_decode = msgspec.json.Decoder(_ExecCredential).decode


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that gives credentials.

    Args:
        command: The program; found on PATH if it has no slash.
        arguments: Its arguments.
        environment: Variables set for it beside our own.
        api_version: The protocol's version, e.g. ``client.authentication.k8s.io/v1``.
        cluster: What it is told of the cluster, or None.
        install_hint: What to tell the user where the program is missing.
        source: Where all this was read, for error messages.
    """

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = EXEC_VERSIONS[0]
    cluster: Mapping[str, Any] | None = None
    install_hint: str | None = None
    source: str = "the program"

    def __post_init__(self) -> None:
        if self.api_version not in EXEC_VERSIONS:
            raise KubeconfigError(
                f"{self.source}.apiVersion is {self.api_version!r}",
                remedy=f"use a plugin that speaks {EXEC_VERSIONS[0]}",
            )

    def __str__(self) -> str:
        return f"{self.source}: plugin {self.command}"

    async def renew(self, *, refused: bool) -> Credential:
        """Run the program.

        Raises:
            KubeconfigError: It is missing, fails, takes too long, prints something else or more.
        """
        del refused  # A program is told nothing of it; running it again is all that can be done.
        code, output = await self._run()
        if code != 0:
            # Not what it says on standard error: that may hold a token.
            raise self._error(f"ended with code {code}", "log in again, or run it by hand to see")
        credential = self._read(output)
        if credential.certificate is not None:
            await in_own_thread(self._try, *credential.certificate)
        return credential

    async def _run(self) -> tuple[int | None, bytes]:
        program = await self._start()
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS) as limit:
                await program.ended.wait()
                if program.has_answered:
                    limit.reschedule(asyncio.get_running_loop().time() + _LEFT_OPEN_SECONDS)
                await program.printed.wait()
        except TimeoutError:
            if not program.has_answered:
                raise self._error(
                    f"was not done after {_DEADLINE_SECONDS:g} s",
                    "run it by hand to see what it waits for",
                ) from None
        finally:
            await program.end()
        if program.has_printed_too_much:
            raise self._error("printed more than an ExecCredential", "run it by hand to see")
        return program.code, bytes(program.output)

    async def _start(self) -> Program:
        spec = {"interactive": False} | ({"cluster": self.cluster} if self.cluster else {})
        told = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        info = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(told).decode()}
        try:
            return await Program.start(
                self.command,
                *self.arguments,
                environment={**os.environ, **self.environment, **info},
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL, or a variable A=B
            raise self._error(
                f"can't be run ({getattr(error, 'strerror', None) or 'unusable characters'})",
                self.install_hint or "install it, or correct the command",
            ) from None

    def _read(self, output: bytes) -> Credential:
        try:
            answer = _decode(output)
        except UNDECODABLE:
            # Not the decoder's own words: they may quote what may be a token.
            raise self._error("printed no ExecCredential", "run it by hand to see") from None
        status = answer.status
        if answer.kind != "ExecCredential" or status is None:
            raise self._error("printed no ExecCredential with a status", "run it by hand to see")
        if answer.api_version != self.api_version:
            raise self._error(
                f"answered in {answer.api_version}, not in {self.api_version}",
                "correct exec.apiVersion",
            )
        certificate = None
        if status.client_certificate_data and status.client_key_data:
            certificate = (
                status.client_certificate_data.encode(),
                status.client_key_data.encode(),
            )
        elif status.client_certificate_data or status.client_key_data or not status.token:
            raise self._error("gave neither a token nor a certificate with its key", "log in again")
        authorization = bearer(status.token, self.source) if status.token else None
        if status.expiration_timestamp is None:
            return Credential(authorization, certificate)
        life = (status.expiration_timestamp - datetime.now(UTC)).total_seconds()
        # One that is always about to expire must not be fetched for each request.
        return Credential(authorization, certificate, max(life - _EARLY_SECONDS, _EARLY_SECONDS))

    def _try(self, certificate: bytes, key: bytes) -> None:
        """Refuse a bad certificate here, where it can be said whose it is."""
        try:
            make_context(Tls(certificate=certificate, key=key, insecure=True))
        except KubeconfigError as error:
            raise self._error(f"gave what can't be used: {error.what}", "log in again") from None

    def _error(self, what: str, remedy: str) -> KubeconfigError:
        return KubeconfigError(f"{self} {what}", remedy=remedy)
