"""Several replicas, one Secret, some caBundles, and everything that may happen to them.

The model is small: a round looks at a snapshot that may be a little old and writes with the API
server's checks. The invariant holds in any order of events and with any clocks: a served
certificate's CA stands in each caBundle that the API server may go by, but for the moment after
somebody else took it out, or after a replica started to serve without having served anything
valid.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.rotation import Rotation
from rws_operator.webhook.rotation_state import Content, Pair, SecretSeen, Stage

STAGE = 30
LIFETIME = 12 * STAGE
BEFORE = 25  # seconds that a certificate is valid before it was made: less than clocks are apart
NAMES = frozenset({"hook.ns.svc"})
VERSIONS = st.sampled_from(["old.example.com", "new.example.com"])  # a name that one has more
BETWEEN = 4  # most seconds between two rounds of a replica
BEHIND = 3  # most seconds that what it sees is old
SLOW = 10  # most seconds that the API server goes on with an old caBundle
EXCUSED = 4 * (BETWEEN + BEHIND)  # to mend what others broke, conflicts included

_numbers = itertools.count()


@dataclass
class World:
    """What the API server holds."""

    secret: SecretSeen = field(default_factory=lambda: SecretSeen(None))
    bundles: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass
class Replica:
    """A replica with clocks of its own."""

    rotation: Rotation
    steady_offset: float
    wall_offset: float
    last_round: int = 0
    excused_until: int = 0


class Replicas(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.world = World()
        self.history = [self.copy()]
        self.replicas: list[Replica] = []
        self.bundle_excused_until: dict[str, int] = {}
        self.random = random.Random(0)

    # --- the model ----------------------------------------------------------------------------

    def copy(self) -> World:
        """The world as it is."""
        return World(self.world.secret, dict(self.world.bundles))

    def a_pair(self, wall: float, ca: str | None = None, names: frozenset[str] = NAMES) -> Pair:
        """A new pair."""
        number = next(_numbers)
        certificate = WebhookCertificate(ca or f"ca-{number}", f"cert-{number}", f"key-{number}")
        return Pair(certificate, wall - BEFORE, wall + LIFETIME, names)

    def store(self, content: Content | None, *, is_ours: bool = True, exists: bool = True) -> None:
        """Change the Secret."""
        version = str(next(_numbers)) if exists else None
        self.world.secret = SecretSeen(version, is_ours, content, "" if content else "broken")

    def new_replica(self, steady_offset: float, wall_offset: float, name: str) -> Replica:
        """A replica that has just started, and asks for a name of its version."""

        def issue(names: frozenset[str]) -> Pair:
            return self.a_pair(self.now + replica.wall_offset, names=names)

        rotation = Rotation(issue, NAMES | {name}, LIFETIME, STAGE)
        replica = Replica(rotation, steady_offset, wall_offset, self.now, self.now)
        return replica

    def round(self, replica: Replica) -> None:
        """Look at a snapshot, decide, and write as the API server lets one."""
        replica.last_round = self.now
        seen = self.history[-1 - self.random.randint(0, min(BEHIND, len(self.history) - 1))]
        now, wall = self.now + replica.steady_offset, self.now + replica.wall_offset
        rotation = replica.rotation
        rotation.saw(seen.secret, seen.bundles, now)
        decision = rotation.decide(now, wall)
        if decision.serve is not None:
            if rotation.serving is None or not rotation.serving.is_valid(wall):
                replica.excused_until = self.now + EXCUSED
            rotation.serves(decision.serve, now)
        if decision.write is not None and decision.write.version == self.world.secret.version:
            self.store(decision.write.content)
        for name, held in seen.bundles.items():
            wanted = (held - decision.distrust) | set(decision.trust)
            if self.world.bundles.get(name) == held:
                self.world.bundles[name] = wanted

    def disturb(self, name: str, held: frozenset[str] | None) -> None:
        """Somebody else writes a caBundle, or removes the object (None)."""
        self.bundle_excused_until[name] = self.now + EXCUSED
        if held is None:
            self.world.bundles.pop(name, None)
        else:
            self.world.bundles[name] = held

    # --- what may happen ----------------------------------------------------------------------

    @initialize(
        offsets=st.lists(
            st.tuples(st.integers(-(10**6), 10**6), st.integers(-20, 20), VERSIONS),
            min_size=1,
            max_size=3,
        ),
        bundles=st.integers(0, 2),
    )
    def start(self, offsets, bundles):
        """Some replicas and caBundles."""
        self.replicas = [self.new_replica(*each) for each in offsets]
        for number in range(bundles):
            self.disturb(f"bundle-{number}", frozenset())

    @rule(seconds=st.integers(1, 4 * STAGE), seed=st.integers(0, 2**16))
    def time_passes(self, seconds, seed):
        """Each replica makes rounds, in any order."""
        self.random = random.Random(seed)
        for _ in range(seconds):
            self.now += 1
            for replica in self.random.sample(self.replicas, len(self.replicas)):
                is_late = self.now - replica.last_round >= BETWEEN
                if is_late or self.random.random() < 0.3:
                    self.round(replica)
            self.history = [*self.history[-SLOW:], self.copy()]
            self.check()

    @rule(
        number=st.integers(0, 2),
        steady=st.integers(-(10**6), 10**6),
        wall=st.integers(-20, 20),
        name=VERSIONS,
    )
    def restart(self, number, steady, wall, name):
        """A replica dies, in whatever stage, and another comes."""
        self.replicas[number % len(self.replicas)] = self.new_replica(steady, wall, name)

    @rule()
    def delete_secret(self):
        """Somebody deletes the Secret."""
        self.world.secret = SecretSeen(None)

    @rule()
    def damage_secret(self):
        """Somebody makes the Secret unusable."""
        if self.world.secret.version is not None:
            self.store(None, is_ours=self.world.secret.is_ours)

    @rule()
    def other_names(self):
        """A replica of another program's version has its own names in it, and is gone again."""
        pair = self.a_pair(self.now, names=frozenset({"other"}))
        if self.world.secret.is_ours and self.world.secret.version is not None:
            self.store(Content(Stage.SERVING, pair, (pair.authority,)))

    @rule(same_ca=st.booleans())
    def foreign_secret(self, same_ca):
        """Another's Secret takes its place, or is renewed."""
        before = self.world.secret.content
        ca = before.pair.authority if before is not None and same_ca else None
        pair = self.a_pair(self.now, ca)
        self.store(Content(Stage.SERVING, pair, (pair.authority,)), is_ours=False)

    @rule(number=st.integers(0, 1), with_foreign=st.booleans())
    def overwrite_bundle(self, number, with_foreign):
        """A caBundle is blanked, or replaced by a foreign CA; the object is made if need be."""
        self.disturb(f"bundle-{number}", frozenset({"foreign"} if with_foreign else ()))

    @rule(number=st.integers(0, 1))
    def delete_bundle(self, number):
        """An object that holds a caBundle is deleted."""
        self.disturb(f"bundle-{number}", None)

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def check(self) -> None:
        """Each served certificate is trusted."""
        for replica in self.replicas:
            pair = replica.rotation.serving
            if pair is None or not pair.is_valid(self.now + replica.wall_offset):
                continue
            for age, world in enumerate(reversed(self.history)):
                moment = self.now - age
                for name, held in world.bundles.items():
                    excuses = replica.excused_until, self.bundle_excused_until[name]
                    is_trusted = pair.authority in held or moment <= max(excuses)
                    assert is_trusted, f"{name} did not trust {pair.authority} {age} s ago"

    def teardown(self) -> None:
        """Left alone, all come to serve what a usable Secret says, and to trust little else."""
        if not self.replicas:
            return
        if not self.world.secret.is_ours:
            self.foreign_secret(False)  # whoever made it keeps it valid
        for _ in range(40):
            self.time_passes(STAGE, 1)
            content = self.world.secret.content
            if content is not None and content.stage is Stage.SERVING and self.is_settled(content):
                return
        raise AssertionError(f"never settles: {self.world}")

    def is_settled(self, content: Content) -> bool:
        """All serve the Secret's certificate, and nothing else is trusted."""
        served = all(replica.rotation.serving == content.pair for replica in self.replicas)
        trusted = all(set(held) == {content.pair.authority} for held in self.world.bundles.values())
        return served and trusted


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)


def test_replicas_of_different_names_come_to_terms():
    """Two versions of a program, for 25 lifetimes: few CAs at a time, and all settles."""
    model = Replicas()
    model.start([(0, 0, "old.example.com"), (7, 3, "new.example.com")], 1)
    most = settled = 0
    for _ in range(300):
        model.time_passes(STAGE, 1)
        most = max(most, *(len(held) for held in model.world.bundles.values()))
        content = model.world.secret.content
        settled += content is not None and model.is_settled(content)
    assert most <= 4, most
    assert settled > 30, settled


def test_no_ca_goes_while_replicas_of_different_names_replace_each_other_s_certificate():
    """Each waits a stage before it replaces one, and serves its old one for another stage."""
    model, old = Replicas(), "old.example.com"
    model.start([(0, 0, old)] * 3, 0)
    model.restart(0, 0, 0, "new.example.com")
    model.overwrite_bundle(0, True)
    model.time_passes(34, 43)
    before = [replica.rotation.serving for replica in model.replicas]
    assert len(set(before)) > 1  # each version its own, while they come to terms
    model.other_names()
    model.teardown()  # checks each second
    assert not {replica.rotation.serving for replica in model.replicas} & set(before)
