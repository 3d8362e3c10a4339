"""Keeps the webhooks' certificate: shares it by a Secret, renews it, has it trusted.

One loop of rounds: look at the Secret and at each object that holds a caBundle of ours, ask
`rotation` (the rules stand there), do what it says. The watches only say when to look again, so a
round never acts on a cache that is behind, and one that failed, or that another replica got ahead
of, is simply done again.

Invariants: what this replica makes is served only when it was read back from the Secret; a
failure never ends the loop, nor takes away what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from rws_operator.cache.informers import Informers
from rws_operator.controller.backoff import backoff
from rws_operator.errors import NotFound, OperatorError
from rws_operator.resources import kinds
from rws_operator.watch.selection import Selection
from rws_operator.webhook.ca_bundle import BundleObject, BundleTargets, our_entries, patch_of
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.certificate_secret import (
    new_pair,
    read_secret,
    secret_patch,
    secret_to_create,
)
from rws_operator.webhook.issue import issue
from rws_operator.webhook.rotation import Decision, Pair, Rotation, SecretSeen, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rws_operator.client import Client
    from rws_operator.resources.kind import Kind
    from rws_operator.webhook.ca_bundle import Authorities, BundleEntry
    from rws_operator.webhook.serving_tls import ServingTls

log = logging.getLogger("rws_operator.webhook")

_BETWEEN_SECONDS = 0.1  # two rounds; bounds what a fight about a caBundle costs
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
        self._wake = asyncio.Event()
        self._faults: list[str] = []  # of the round that goes on
        self._problem: str | None = None  # of the last round
        self._told: str | None = None
        self._failures = 0
        self._was_trusted = False

    @property
    def problem(self) -> str | None:
        """What does not work now, in one line; webhooks may be served all the same."""
        return self._problem

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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informers.run(), name="watch the webhooks' certificate")
            tasks.create_task(self._wake_once(listening))
            while True:
                await self._pause(await self._round(may_patch=listening.is_set()))

    def check(self) -> str | None:
        """Why webhooks can't be served now; None once a valid certificate is served and trusted.

        That it is trusted is asked only until it was once: who takes a CA out of a caBundle must
        not take the endpoints away too.
        """
        why = f": {self._problem}" if self._problem else ""
        if self._serving.certificate is None:
            return f"no certificate is served yet{why}"
        if self._wall_clock() >= self._serving.expires_at:
            return f"the certificate has expired{why}"
        if not self._was_trusted:
            return (
                f"the certificate is not trusted yet by the caBundle of {self._untrusting()}{why}"
            )
        return None

    # --- one round ----------------------------------------------------------------------------

    async def _round(self, *, may_patch: bool) -> float:
        """Look, decide, act; return the seconds until the next round."""
        self._faults = []
        secret, entries = await self._look()
        now = asyncio.get_running_loop().time()
        is_known = all(found is not None for found in entries.values())
        bundles = _bundles(entries) if is_known else None
        self._rotation.saw(secret, bundles, now)
        decision = self._rotation.decide(now, self._wall_clock())
        has_acted = await self._act(decision, now)
        if may_patch:
            for of, found in entries.items():
                has_acted |= await self._patch(of, found or [], decision)
        self._note_trust(bundles)
        self._note_faults(secret, decision)
        if self._faults:
            return min(backoff(_FIRST_RETRY_SECONDS, self._failures), _LONGEST_RETRY_SECONDS)
        return 0.0 if has_acted else min(decision.wake_at - now, _LOOK_SECONDS)

    async def _look(self) -> tuple[SecretSeen | None, dict[BundleObject, list[BundleEntry] | None]]:
        """The Secret, and our entries of each object; None for what could not be read."""
        objects = self._targets.objects()
        secret, *found = await asyncio.gather(
            self._read(kinds.Secret, self._secret, self._namespace),
            *(self._read(each.kind, each.name) for each in objects),
        )
        service = self._targets.service
        entries = {
            of: our_entries(of, wire, service) if wire is not None else None
            for of, wire in zip(objects, found, strict=True)
        }
        if secret is None:
            return None, entries
        dialled = (f"{service[0]}.{service[1]}.svc",) if service else ()
        return read_secret(secret or None, dialled), entries

    async def _read(
        self, kind: Kind, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """An object; {} where there is none, None where that can't be told."""
        with self._noting("get", kind, name):
            try:
                return await self._client.get(kind, name, namespace)
            except NotFound:
                return {}
        return None

    async def _act(self, decision: Decision, now: float) -> bool:
        """Serve and write what was decided."""
        has_acted = False
        if decision.serve is not None:
            with self._noting("serve", kinds.Secret, self._secret):
                self._serving.use(decision.serve.certificate)
                self._rotation.serves(decision.serve, now)
                log.info("serving a new certificate", extra={"secret": self._secret})
                has_acted = True
        if decision.write is not None:
            verb = "create" if decision.write.version is None else "patch"
            with self._noting(verb, kinds.Secret, self._secret):
                await self._write(decision.write)
                has_acted = True
        return has_acted

    async def _write(self, write: Write) -> None:
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
        extra = {"secret": self._secret, "stage": str(write.content.stage)}
        log.info("wrote the certificate's Secret", extra=extra)

    async def _patch(
        self, of: BundleObject, entries: list[BundleEntry], decision: Decision
    ) -> bool:
        """Have an object's caBundles hold what they are to hold."""

        def wanted(held: Authorities) -> Authorities:
            kept = [ca for ca in held if ca not in decision.distrust]
            return tuple(dict.fromkeys((*kept, *decision.trust)))

        patch = patch_of(entries, wanted)
        if not patch:
            return False
        with self._noting("patch", of.kind, of.name):
            manager = self._manager
            await self._client.patch(
                of.kind, of.name, patch=patch, type="json", field_manager=manager
            )
            log.info("wrote the caBundle", extra={"object": str(of)})
            return True
        return False

    def _issue(self) -> Pair:
        issued = issue(
            self._operator,
            self._names,
            lifetime_seconds=self._lifetime_seconds,
            now=self._wall_clock(),
        )
        return new_pair(WebhookCertificate(*issued))

    def _untrusting(self) -> str:
        serving = self._rotation.serving
        names = self._rotation.untrusting(serving.authority) if serving is not None else []
        return ", ".join(names) or "(unknown)"

    def _note_trust(self, bundles: dict[str, frozenset[str]] | None) -> None:
        serving = self._rotation.serving
        if serving is not None and bundles is not None and not self._was_trusted:
            self._was_trusted = all(serving.authority in held for held in bundles.values())

    # --- what goes wrong ----------------------------------------------------------------------

    @contextlib.contextmanager
    def _noting(self, verb: str, kind: Kind, name: str) -> Iterator[None]:
        """Note a failure of the block and go on after it."""
        try:
            yield
        except OperatorError as error:
            self._faults.append(f"{verb} {kind.resource}/{name}: {error}")

    def _note_faults(self, secret: SecretSeen | None, decision: Decision) -> None:
        """Log what fails, once; a first failure may be just another replica that was quicker."""
        if fault := self._fault_of(secret, decision):
            self._faults.append(f"Secret {self._namespace}/{self._secret}: {fault}")
        self._problem = "; ".join(self._faults) or None
        self._failures = self._failures + 1 if self._faults else 0
        if self._failures > 1 and self._problem != self._told:
            log.warning("the webhooks' certificate: keeps trying", extra={"error": self._problem})
            self._told = self._problem
        elif self._told and not self._problem:
            log.info("the webhooks' certificate is looked after again")
            self._told = None

    def _fault_of(self, secret: SecretSeen | None, decision: Decision) -> str:
        if secret is None or secret.version is not None:
            return secret.fault if secret is not None else ""
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


def _bundles(entries: dict[BundleObject, list[BundleEntry] | None]) -> dict[str, frozenset[str]]:
    """What each caBundle holds, by a name for people."""
    return {
        f"{of} {entry.name}".strip(): frozenset(entry.holds)
        for of, found in entries.items()
        for entry in found or ()
    }
