"""A certificate in mounted files, as cert-manager and the kubelet keep them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from rws_operator.webhook.serving_tls import ServingTls


class MountedCertificate:
    """Serves a certificate from files and follows their changes; caBundles are not ours then.

    Args:
        cert_file: The certificate, with its chain, PEM.
        key_file: Its key, PEM.
        serving: What is served; changed by `obtain` and `run`.
        wall_clock: Seconds since the epoch.
    """

    def __init__(
        self,
        cert_file: str | Path,
        key_file: str | Path,
        *,
        serving: ServingTls,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        raise NotImplementedError

    async def obtain(self) -> None:
        """Return once the files' certificate is served; `check` says why not yet."""
        raise NotImplementedError

    async def run(self, listening: asyncio.Event) -> None:
        """Follow the files until cancelled."""
        raise NotImplementedError

    def check(self) -> str | None:
        """Why webhooks can't be served now; None while a valid certificate is served."""
        raise NotImplementedError
