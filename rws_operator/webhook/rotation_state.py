"""What `rotation` sees, and what it decides: the Secret as it was read, and what is to be done.

Plain values without I/O, which `certificate_secret` reads and `keeper` acts upon. Invariant: a
`Pair` was checked as it was made, so whoever holds one can serve it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rws_operator.webhook.certificate import WebhookCertificate


class Stage(StrEnum):
    """Where a renewal stands."""

    SERVING = "serving"
    TRUSTING = "trusting"
    RETIRING = "retiring"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key, whole and checked.

    Args:
        certificate: Its `ca_pem` is the one CA that signed it.
        not_before: When it begins to be valid, seconds since the epoch.
        not_after: When it expires.
        names: What it is valid for.
    """

    certificate: WebhookCertificate
    not_before: float
    not_after: float
    names: frozenset[str]

    @property
    def authority(self) -> str:
        """The CA that signed it, PEM."""
        return self.certificate.ca_pem

    def is_valid(self, wall: float) -> bool:
        """Whether a time, in seconds since the epoch, lies in its life."""
        return self.not_before <= wall < self.not_after


@dataclass(frozen=True, slots=True)
class Content:
    """What a usable Secret holds.

    Args:
        stage: SERVING for a Secret that is not ours.
        pair: To be served.
        authorities: To be trusted, PEM.
        following: In TRUSTING, what is to be served next.
    """

    stage: Stage
    pair: Pair
    authorities: tuple[str, ...]
    following: Pair | None = None


@dataclass(frozen=True, slots=True)
class SecretSeen:
    """The Secret as it was read.

    Args:
        version: Its resource version; None: there is no such Secret.
        is_ours: We made it, so we may write it.
        content: None where it is missing or unusable.
        fault: Why it is unusable.
    """

    version: str | None
    is_ours: bool = True
    content: Content | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """Make the Secret hold `content`; refused unless it still has `version` (None: create it)."""

    content: Content
    version: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now.

    Args:
        serve: Serve this from now on.
        write: Write this to the Secret, then look again.
        trust: CAs that each caBundle must hold, PEM.
        distrust: CAs that each caBundle must not hold any more.
        fault: Why what the Secret holds, although whole, is of no use here; "" if it is.
        wake_at: When to decide again, if nothing happens before; in the steady clock's seconds.
    """

    serve: Pair | None
    write: Write | None
    trust: tuple[str, ...]
    distrust: frozenset[str]
    fault: str
    wake_at: float
