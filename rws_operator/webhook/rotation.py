"""The life of a shared certificate, as a state machine without I/O.

What was seen (the Secret, the caBundles) and when decides what to serve, to write and to trust.

    SERVING ──a third of its life is left──▶ TRUSTING ──▶ RETIRING ──▶ SERVING
    tls = old                                tls = old    tls = new    tls = new
    CAs = old                                CAs = old,   CAs = new,   CAs = new
                                             new          old

The Secret records the stage. Replicas don't know of one another: any of them may write the next
stage, and the API server settles races by the resource version. The rules, in seconds of a
steady clock of this replica's own; the wall clock only tells when certificates expire:

1. Write the next stage when the Secret was seen unchanged for `stage_seconds`, every caBundle
   trusts every CA that the Secret names, and (to retire the old one) this replica serves what
   the Secret says.
2. Serve what the Secret says, if it is valid by now and, being ours, for all our names: at once
   where nothing valid is served, or where the same CA signed both; otherwise when every caBundle
   has been seen to trust its CA for `stage_seconds`.
3. Have each caBundle trust the Secret's CAs and that of the served certificate, at once. Any
   other CA goes after three stages in which it was superfluous, all that is needed in place and
   what the Secret says served here: by then each replica serves it, even one that saw a
   disturbance the others missed.
4. A Secret that is missing, or ours and unusable or expired: write back what it last held. A
   replica that never saw it makes a new one, after a moment for the others if some caBundle
   trusts somebody already. What is made is served only once it is seen in the Secret. The same
   goes for one of ours that rule 2 refuses: at once where nothing valid is served; after a stage
   where something is, for then this replica may be the one that is behind, e.g. in its names.
   What takes its place is for its names too, or replicas whose names differ would undo each
   other's for ever; the next renewal leaves out those that nobody asks for any more.
5. A Secret that is not ours is never written; rules 2 and 3 hold for it as well. Once it is
   gone, its maker is waited for as long as what is served is valid.

Safety: a replica's served CA leaves no caBundle by a replica's doing while the time from a change
until each replica has seen it is below `stage_seconds`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError
from rws_operator.webhook.rotation_state import Content, Decision, Pair, SecretSeen, Stage, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HOLDERS_SECONDS = 2.0  # for those that can write back what a missing Secret held
_PRUNE_STAGES = 3
_LEAST_STAGES = 12  # in a lifetime: a third of it must hold a renewal with room to spare


def check_stages(lifetime_seconds: float, stage_seconds: float, what: str) -> None:
    """Refuse a lifetime that is too short for the stages of a renewal.

    Raises:
        ConfigurationError: It is; names ``what``.
    """
    if lifetime_seconds < _LEAST_STAGES * stage_seconds:
        raise ConfigurationError(
            f"{what}: lifetime_seconds={lifetime_seconds:g} with stage_seconds={stage_seconds:g}",
            remedy=f"let a lifetime be at least {_LEAST_STAGES} stages",
        )


@dataclass
class Rotation:
    """One replica's view of the certificate.

    Args:
        issue: Makes a new certificate for some names; may leave out those that are not ours.
        names: What a certificate of ours must be valid for.
        lifetime_seconds: Of a new certificate.
        stage_seconds: How long each stage lasts at least.
    """

    issue: Callable[[frozenset[str]], Pair]
    names: frozenset[str]
    lifetime_seconds: float
    stage_seconds: float
    serving: Pair | None = field(default=None, init=False)
    _secret: SecretSeen | None = field(default=None, init=False)
    _bundles: Mapping[str, frozenset[str]] | None = field(default=None, init=False)
    _last: SecretSeen | None = field(default=None, init=False)  # that was usable
    _unchanged_since: float = field(default=0.0, init=False)
    _trusted_since: dict[str, float] = field(default_factory=dict, init=False)
    _superfluous_since: dict[str, float] = field(default_factory=dict, init=False)
    _wake_at: float = field(default=0.0, init=False)

    # --- what happens -------------------------------------------------------------------------

    def saw(
        self,
        secret: SecretSeen | None,
        bundles: Mapping[str, frozenset[str]] | None,
        now: float,
    ) -> None:
        """The Secret and the caBundles are so; None for what could not be read.

        Args:
            secret: The Secret.
            bundles: What each caBundle of ours holds, by a name for people.
            now: The steady clock.
        """
        before = self._secret.content if self._secret is not None else None
        content = secret.content if secret is not None else None
        if self._secret is None or content != before:
            self._unchanged_since = now
        self._secret, self._bundles = secret, bundles
        if content is not None:
            self._last = secret
        self._measure(now)

    def serves(self, pair: Pair, now: float) -> None:
        """This replica serves a certificate from `now` on."""
        self.serving = pair
        self._measure(now)

    def untrusting(self, authority: str) -> list[str]:
        """Which caBundles do not hold a CA, as last seen."""
        return [name for name, held in (self._bundles or {}).items() if authority not in held]

    def _measure(self, now: float) -> None:
        """Note since when each CA is trusted everywhere, or needed nowhere."""
        if self._bundles is None:
            self._trusted_since.clear()
            self._superfluous_since.clear()
            return
        needed = set(self._needed())
        trusted = {ca for ca in needed if not self.untrusting(ca)}
        self._trusted_since = {ca: self._trusted_since.get(ca, now) for ca in trusted}
        held: frozenset[str] = frozenset().union(*self._bundles.values())
        is_served = self._content is not None and self._content.pair == self.serving
        superfluous = held - needed if is_served and trusted == needed else ()
        self._superfluous_since = {ca: self._superfluous_since.get(ca, now) for ca in superfluous}

    # --- what to do ---------------------------------------------------------------------------

    def decide(self, now: float, wall: float) -> Decision:
        """What to do now.

        Args:
            now: The steady clock.
            wall: Seconds since the epoch, which certificates expire by.
        """
        self._wake_at = float("inf")
        return Decision(
            serve=self._to_serve(now, wall),
            write=self._to_write(now, wall),
            trust=tuple(self._needed()),
            distrust=self._to_distrust(now),
            fault=self._fault(wall),
            wake_at=self._wake_at,
        )

    def _to_serve(self, now: float, wall: float) -> Pair | None:
        if self._content is None or self._content.pair == self.serving:
            return None
        pair = self._content.pair
        is_begun = self._is_past(pair.not_before - wall + now, now)
        if not is_begun or self._fault(wall):
            return None
        if self.serving is None or pair.authority == self.serving.authority:
            return pair
        if (
            self._is_past(self.serving.not_after - wall + now, now)
            or wall < self.serving.not_before
        ):
            return pair
        since = self._trusted_since.get(pair.authority)
        if since is not None and self._is_past(since + self.stage_seconds, now):
            return pair
        return None

    def _to_write(self, now: float, wall: float) -> Write | None:
        secret = self._secret
        if secret is None or not secret.is_ours:
            return None
        content = self._content
        if content is None or self._is_past(content.pair.not_after - wall + now, now):
            restored = self._to_restore(now, wall)
            return Write(restored, secret.version) if restored is not None else None
        if self._fault(wall):
            is_served = self.serving is not None and self.serving.is_valid(wall)
            patience = self.stage_seconds if is_served else 0.0
            if not self._is_past(self._unchanged_since + patience, now):
                return None
            return Write(self._new_content(content.pair.names), secret.version)
        following = self._following(content, now, wall)
        return Write(following, secret.version) if following is not None else None

    def _to_restore(self, now: float, wall: float) -> Content | None:
        """What to write where nothing usable is."""
        last = self._last
        if last is not None and last.content is not None and wall < last.content.pair.not_after:
            return last.content if last.is_ours else None
        others_may_hold_it = self._bundles is None or any(self._bundles.values())
        for_holders = _HOLDERS_SECONDS if last is None and others_may_hold_it else 0.0
        if not self._is_past(self._unchanged_since + for_holders, now):
            return None
        return self._new_content()

    def _new_content(self, others: frozenset[str] = frozenset()) -> Content:
        pair = self.issue(self.names | others)
        return Content(Stage.SERVING, pair, (pair.authority,))

    def _fault(self, wall: float) -> str:
        """Why what the Secret holds is of no use here although it is whole."""
        if self._secret is None or self._content is None:
            return ""
        pair = self._content.pair
        if self._secret.is_ours and (missing := self.names - pair.names):
            return f"the certificate is not for {', '.join(sorted(missing))}"
        if wall < pair.not_before:
            return "the certificate is not valid yet, by this machine's clock"
        return "the certificate has expired" if wall >= pair.not_after else ""

    def _following(self, content: Content, now: float, wall: float) -> Content | None:
        """The next stage, once it is time for it."""
        if not self._is_past(self._unchanged_since + self.stage_seconds, now):
            return None
        if self._bundles is None or any(map(self.untrusting, content.authorities)):
            return None
        pair = content.pair
        if content.stage is Stage.TRUSTING and content.following is not None:
            following = content.following
            return Content(Stage.RETIRING, following, (following.authority, pair.authority))
        if content.stage is Stage.RETIRING:
            is_served = self.serving == pair
            return Content(Stage.SERVING, pair, (pair.authority,)) if is_served else None
        renew_at = pair.not_after - self.lifetime_seconds / 3
        if not self._is_past(renew_at - wall + now, now):
            return None
        new = self.issue(self.names)
        return Content(Stage.TRUSTING, pair, (pair.authority, new.authority), new)

    def _to_distrust(self, now: float) -> frozenset[str]:
        return frozenset(
            ca
            for ca, since in self._superfluous_since.items()
            if self._is_past(since + _PRUNE_STAGES * self.stage_seconds, now)
        )

    def _needed(self) -> dict[str, None]:
        """The CAs that must be trusted, in order: those of the Secret, then the served one's."""
        named = self._content.authorities if self._content is not None else ()
        served = (self.serving.authority,) if self.serving is not None else ()
        return dict.fromkeys((*named, *served))

    @property
    def _content(self) -> Content | None:
        return self._secret.content if self._secret is not None else None

    def _is_past(self, when: float, now: float) -> bool:
        """Whether it is time; if not, ask again then."""
        if now >= when:
            return True
        self._wake_at = min(self._wake_at, when)
        return False
