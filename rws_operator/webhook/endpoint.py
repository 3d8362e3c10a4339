"""An endpoint: one path that the API server calls, and what it gives back.

The seam between HTTP (`http`) and the reviews (`admission`, `conversion`): bytes in, bytes out. An
endpoint answers a review with a review; where it can't, it raises `ReviewError`, which becomes
plain HTTP, and the API server goes by the webhook's failure policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.webhook.handlers import Handlers


@dataclass(frozen=True, slots=True)
class Call:
    """What an endpoint has at hand while it answers one call.

    Args:
        deadline: When handlers have to be done, on the event loop's clock.
        handlers: Runs the author's functions.
        client: For handlers that ask; None where the webhooks were given none.
    """

    deadline: float
    handlers: Handlers
    client: Client | None


class Endpoint(Protocol):
    """One path that the API server calls."""

    @property
    def name(self) -> str:
        """The metrics' label ``webhook``: the path."""
        ...

    @property
    def path(self) -> str:
        """The path, e.g. ``/validate/backups.example.com/v1``."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """Seconds after which the API server gives up on a call."""
        ...

    async def answer(self, body: bytes, call: Call) -> bytes:
        """Answer a review.

        Raises:
            ReviewError: There is none to answer, or a handler failed.
        """
        ...
