"""A certificate in mounted files, as cert-manager and the kubelet keep them.

Their content is looked at, not their times: a kubelet swaps a symbolic link, other programs write
into the file. Whether the API server calls by Service or by URL is not known here, so names that
don't fit are told and keep nothing from being served. Invariant: what is served stays until both
files hold a pair that belongs together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError
from rws_operator.own_threads import in_own_thread
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.inspection import Inspected, covers, inspect
from rws_operator.webhook.troubles import Troubles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.webhook.serving_tls import ServingTls

log = logging.getLogger("rws_operator.webhook")

_POLL_SECONDS = 5.0  # a kubelet takes about a minute to change them
_FIRST_POLL_SECONDS = 0.5  # while there is no certificate yet


class MountedCertificate:
    """Serves a certificate from files and follows their changes; caBundles are not ours then.

    Args:
        cert_file: The certificate, with its chain, PEM.
        key_file: Its key, PEM, not encrypted.
        names: What the API server may call us by, the Service first; the certificate should be
            for one of them.
        serving: What is served; changed by `obtain` and `run`.
        wall_clock: Seconds since the epoch.
    """

    def __init__(
        self,
        cert_file: str | Path,
        key_file: str | Path,
        *,
        names: Sequence[str],
        serving: ServingTls,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._cert_file = Path(cert_file)
        self._key_file = Path(key_file)
        self._names = names
        self._unnamed = ""
        self._serving = serving
        self._wall_clock = wall_clock
        self._troubles = Troubles(told_after=1)

    async def obtain(self) -> None:
        """Return once the files' certificate is served; `check` says why not yet."""
        while True:
            await self._look()
            if self._serving.certificate is not None:
                return
            await asyncio.sleep(_FIRST_POLL_SECONDS)

    async def run(self, listening: asyncio.Event) -> None:
        """Follow the files until cancelled.

        Args:
            listening: Not needed: nobody is told to trust us.
        """
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await self._look()

    def check(self) -> str | None:
        """Why webhooks can't be served now; None while a valid certificate is served."""
        why = f": {self._troubles.problem}" if self._troubles.problem else ""
        fault = self._serving.fault(self._wall_clock())
        return f"{fault}{why}" if fault is not None else None

    def notes(self) -> list[str]:
        """Why the files can't be used now, what was served before still is; or what is odd."""
        return self._troubles.notes()

    async def _look(self) -> None:
        """Serve what the files hold, if it can be and is not served yet."""
        with self._troubles.noting(f"{self._cert_file}, {self._key_file}"):
            found = await in_own_thread(self._read)
            if found != self._serving.certificate:
                inspected = inspect(found.cert_pem, found.key_pem, None)
                self._check_time(inspected)
                self._serving.use(found)
                self._unnamed = self._why_unnamed(inspected)
                log.info("serving a new certificate", extra={"file": str(self._cert_file)})
        if self._unnamed:
            self._troubles.hint(self._unnamed)
        self._troubles.end_round()

    def _why_unnamed(self, inspected: Inspected) -> str:
        """Why calls by the names that are known here would fail; "" if they don't."""
        if any(covers(inspected.names, name) for name in self._names):
            return ""
        its = ", ".join(sorted(inspected.names)) or "no name at all"
        return (
            f"{self._cert_file}: the certificate is for {its}; if the API server calls"
            f" {self._names[0]}, add that to its DNS names"
        )

    def _check_time(self, inspected: Inspected) -> None:
        wall = self._wall_clock()
        if wall < inspected.not_before:
            raise ConfigurationError(
                "the certificate is not valid yet", remedy="check the clocks, here and there"
            )
        if wall >= inspected.not_after:
            raise ConfigurationError(
                "the certificate has expired", remedy="have it renewed by whoever issued it"
            )

    def _read(self) -> WebhookCertificate:
        try:
            return WebhookCertificate(
                ca_pem="",
                cert_pem=_text(self._cert_file),
                key_pem=_text(self._key_file),
            )
        except OSError as error:
            raise ConfigurationError(
                f"can't be read ({error.strerror})",
                remedy="check the mount, and that this user may read it",
            ) from None


def _text(path: Path) -> str:
    """A file's text; a comment in it may be in any language and encoding."""
    return path.read_text("utf-8", errors="replace")
