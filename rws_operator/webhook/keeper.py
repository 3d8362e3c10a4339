"""Keeps the webhooks' certificate: shares it by a Secret, renews it, has it trusted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from rws_operator.client import Client
    from rws_operator.webhook.ca_bundle import BundleTargets
    from rws_operator.webhook.serving_tls import ServingTls


class Keeper:
    """Looks after the certificate of one operator, beside the Keepers of its other replicas.

    Args:
        client: Not fenced: followers serve webhooks too.
        operator: The operator's name, for the certificate's subject.
        namespace: The Secret's namespace.
        secret: The Secret's name; made when it does not exist.
        names: DNS names and IP addresses that the API server calls us by.
        targets: Whose caBundle is ours to keep.
        serving: What is served; changed by `obtain` and `run`.
        lifetime_seconds: Of a new certificate; renewed when a third of it is left.
        stage_seconds: How long each stage of a renewal lasts at least.
        manager: Field manager of what is written.
        wall_clock: Seconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        *,
        operator: str,
        namespace: str,
        secret: str,
        names: Sequence[str],
        targets: BundleTargets,
        serving: ServingTls,
        lifetime_seconds: float,
        stage_seconds: float = 60.0,
        manager: str,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        raise NotImplementedError

    async def obtain(self) -> None:
        """Return once a certificate is served; tries for ever, `check` says why not yet."""
        raise NotImplementedError

    async def run(self, listening: asyncio.Event) -> None:
        """Keep it until cancelled; caBundles are written only once ``listening`` is set."""
        raise NotImplementedError

    def check(self) -> str | None:
        """Why webhooks can't be served now; None once a valid certificate is served and trusted."""
        raise NotImplementedError
