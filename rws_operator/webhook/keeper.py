"""Keeps the webhooks' certificate: shares it by a Secret, renews it, has it trusted.

One loop of rounds: look at the Secret and at the caBundles (`bundles`), ask `rotation` (the rules
stand there), do what it says; `troubles` tells what fails. The watches only say when to look
again, so a round never acts on a cache that is behind, and one that failed, or that another
replica got ahead of, is simply done again.

Invariants: what this replica makes is served only when it was read back from the Secret; a
failure never ends the loop, nor takes away what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from rws_operator.cache.informers import Informers
from rws_operator.controller.backoff import backoff
from rws_operator.errors import ConfigurationError
from rws_operator.group import Group
from rws_operator.resources import kinds
from rws_operator.watch.selection import Selection
from rws_operator.webhook.bundles import Bundles, read
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.certificate_secret import (
    aging,
    new_pair,
    read_secret,
    secret_patch,
    secret_to_create,
)
from rws_operator.webhook.certificate_terms import normal_name
from rws_operator.webhook.issue import issue
from rws_operator.webhook.rotation import Rotation
from rws_operator.webhook.troubles import Troubles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.client import Client
    from rws_operator.webhook.ca_bundle import BundleTargets
    from rws_operator.webhook.rotation_state import Decision, Pair, SecretSeen, Write
    from rws_operator.webhook.serving_tls import ServingTls

log = logging.getLogger("rws_operator.webhook")

_BETWEEN_SECONDS = 0.1  # between two rounds
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 5.0
_LOOK_SECONDS = 300.0  # at least so often, because nothing tells when the wall clock was set


class Keeper:
    """Looks after the certificate of one operator, beside the Keepers of its other replicas.

    A Secret that is there and not ours (cert-manager's) is served and trusted, never written.

    Args:
        client: Not fenced: followers serve webhooks too.
        operator: The operator's name, for the certificate's subject.
        namespace: The Secret's namespace.
        secret: The Secret's name; made when it does not exist.
        names: DNS names and IP addresses that the API server calls us by, in normal form.
        targets: Whose caBundle is ours to keep.
        serving: What is served; changed by `obtain` and `run`.
        lifetime_seconds: Of a new certificate; renewed when a third of it is left.
        stage_seconds: How long each stage of a renewal lasts at least; longer than any replica
            may take to hear of a change.
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
        self._client = client
        self._operator = operator
        self._namespace = namespace
        self._secret = secret
        self._names = tuple(names)
        self._targets = targets
        self._serving = serving
        self._lifetime_seconds = lifetime_seconds
        self._manager = manager
        self._wall_clock = wall_clock
        self._rotation = Rotation(self._issue, frozenset(names), lifetime_seconds, stage_seconds)
        # A first failure may be just another replica that was quicker.
        self._troubles = Troubles(told_after=2)
        self._bundles = Bundles(
            client, targets, self._troubles, stage_seconds=stage_seconds, manager=manager
        )
        self._wake = asyncio.Event()
        self._was_trusted = False

    async def obtain(self) -> None:
        """Return once a certificate is served; tries for ever, `check` says why not yet."""
        while self._serving.certificate is None:
            await self._pause(await self._round(may_patch=False))

    async def run(self, listening: asyncio.Event) -> None:
        """Keep it until cancelled.

        Args:
            listening: Set once the webhooks answer. caBundles are written only from then on: a
                CA in them says that somebody can be called.
        """
        informers = Informers(self._client, self._manager)
        watched = [(each.kind, each.name, None) for each in self._targets.objects()]
        for kind, name, namespace in [*watched, (kinds.Secret, self._secret, self._namespace)]:
            selection = Selection(namespace, field_selector=f"metadata.name={name}")
            informers.informer(kind, selection).subscribe(lambda _: self._wake.set())
        async with Group() as tasks:
            tasks.start(informers.run, "the watch of the webhooks' certificate")
            tasks.start(lambda: self._wake_once(listening), "the keeper of the certificate")
            while True:
                await self._pause(await self._round(may_patch=listening.is_set()))

    def check(self) -> str | None:
        """Why webhooks can't be served now; None once a valid certificate is served and trusted.

        One caBundle that trusts it is enough: what keeps us from writing another may be our own
        webhook, which is called only while this replica is ready. And trust is asked only until
        it was seen: who takes a CA out of a caBundle must not take the endpoints away too.
        """
        why = f": {self._troubles.problem}" if self._troubles.problem else ""
        if (fault := self._serving.fault(self._wall_clock())) is not None:
            return f"{fault}{why}"
        if not self._was_trusted:
            names = ", ".join(self._untrusting()) or "(unknown)"
            return f"the certificate is not trusted yet by any caBundle of {names}{why}"
        return None

    def notes(self) -> list[str]:
        """What does not work, although webhooks may be served all the same."""
        untrusting = [f"not trusted by the caBundle of {each}" for each in self._untrusting()]
        return [*self._troubles.notes(), *untrusting]

    # --- one round ----------------------------------------------------------------------------

    async def _round(self, *, may_patch: bool) -> float:
        """Look, decide, act; return the seconds until the next round, whatever fails in this."""
        seconds = _LOOK_SECONDS
        with self._troubles.noting(f"keep Secret {self._namespace}/{self._secret}"):
            seconds = await self._work(may_patch=may_patch)
        if failures := self._troubles.end_round():
            return min(backoff(_FIRST_RETRY_SECONDS, failures), _LONGEST_RETRY_SECONDS)
        return seconds

    async def _work(self, *, may_patch: bool) -> float:
        secret, _ = await asyncio.gather(self._look(), self._bundles.look())
        now = asyncio.get_running_loop().time()
        self._rotation.saw(secret, self._bundles.held if self._bundles.is_known else None, now)
        decision = self._rotation.decide(now, self._wall_clock())
        fault = self._fault_of(secret, decision)
        has_acted = await self._act(decision, now, fault)
        wait = await self._bundles.write(decision, now) if may_patch else _LOOK_SECONDS
        self._note_trust()
        if fault and decision.write is None:
            self._troubles.add(f"Secret {self._namespace}/{self._secret}: {fault}")
        if secret is not None and (hint := aging(secret, self._wall_clock())):
            self._troubles.hint(f"Secret {self._namespace}/{self._secret}: {hint}")
        return 0.0 if has_acted else min(decision.wake_at - now, wait, _LOOK_SECONDS)

    async def _look(self) -> SecretSeen | None:
        """The Secret; None if it could not be read."""
        kind, name, namespace = kinds.Secret, self._secret, self._namespace
        wire = await read(self._client, self._troubles, kind, name, namespace)
        if wire is None:
            return None
        service = self._targets.service
        dialled = (f"{service[0]}.{service[1]}.svc",) if service else ()
        return read_secret(wire or None, dialled)

    async def _act(self, decision: Decision, now: float, fault: str) -> bool:
        """Serve and write what was decided; the fault of what is there is why."""
        has_acted = False
        if decision.serve is not None:
            with self._troubles.noting(f"serve secrets/{self._secret}"):
                self._serving.use(decision.serve.certificate)
                self._rotation.serves(decision.serve, now)
                log.info("serving a new certificate", extra={"secret": self._secret})
                has_acted = True
        if decision.write is not None:
            verb = "create" if decision.write.version is None else "patch"
            with self._troubles.noting(f"{verb} secrets/{self._secret}"):
                await self._write(decision.write, fault)
                has_acted = True
        return has_acted

    async def _write(self, write: Write, fault: str) -> None:
        if write.version is None:
            body = secret_to_create(write.content, self._namespace, self._secret)
            await self._client.create(body, field_manager=self._manager)
        else:
            await self._client.patch(
                kinds.Secret,
                self._secret,
                self._namespace,
                patch=secret_patch(write.content, write.version),
                field_manager=self._manager,
            )
        why = {"because": fault} if fault else {}
        extra = {"secret": self._secret, "stage": str(write.content.stage), **why}
        log.info("wrote the certificate's Secret", extra=extra)

    def _issue(self, names: frozenset[str]) -> Pair:
        others = filter(_can_be_certified, sorted(names.difference(self._names)))
        issued = issue(
            self._operator,
            [*self._names, *others],
            lifetime_seconds=self._lifetime_seconds,
            now=self._wall_clock(),
        )
        return new_pair(WebhookCertificate(*issued))

    def _untrusting(self) -> list[str]:
        serving = self._rotation.serving
        held = self._bundles.held.items() if serving is not None else ()
        return [name for name, cas in held if serving and serving.authority not in cas]

    def _note_trust(self) -> None:
        serving = self._rotation.serving
        if serving is None or self._was_trusted:
            return
        held = self._bundles.held
        is_needed = bool(held) or not self._bundles.is_known
        self._was_trusted = not is_needed or any(serving.authority in cas for cas in held.values())

    def _fault_of(self, secret: SecretSeen | None, decision: Decision) -> str:
        if secret is None or secret.version is not None:
            return (secret.fault if secret is not None else "") or decision.fault
        is_waited_for = decision.write is None and self._serving.certificate is not None
        return "gone; whoever made it is waited for, or restart to have one made" * is_waited_for

    async def _wake_once(self, event: asyncio.Event) -> None:
        await event.wait()
        self._wake.set()

    async def _pause(self, seconds: float) -> None:
        """Wait for the next round: so long, or until a watch tells something."""
        await asyncio.sleep(_BETWEEN_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()


def _can_be_certified(name: str) -> bool:
    """Whether a name that some certificate has can stand in one of ours."""
    try:
        return normal_name(name) == name
    except ConfigurationError:
        return False
