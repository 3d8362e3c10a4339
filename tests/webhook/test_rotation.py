"""The rotation's rules one by one, without I/O; all at once in a model of several replicas."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.rotation import Rotation
from rws_operator.webhook.rotation_state import Content, Pair, SecretSeen, Stage, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

STAGE = 10.0
LIFETIME = 900.0
NAMES = frozenset({"hook.ns.svc"})
OTHER_NAMES = frozenset({"other"})

_numbers = itertools.count()


def a_pair(
    not_after: float = LIFETIME,
    *,
    ca: str | None = None,
    names: frozenset[str] = NAMES,
    not_before: float = 0.0,
) -> Pair:
    """A pair of its own, which no machine looks into."""
    number = next(_numbers)
    certificate = WebhookCertificate(ca or f"ca-{number}", f"cert-{number}", f"key-{number}")
    return Pair(certificate, not_before, not_after, names)


def a_rotation(*, made: list[Pair] | None = None) -> Rotation:
    """A replica that makes the given pairs, then further ones."""
    stock = iter(made or ())
    return Rotation(lambda names: next(stock, None) or a_pair(names=names), NAMES, LIFETIME, STAGE)


def holding(content: Content | None, version: str = "1", *, is_ours: bool = True) -> SecretSeen:
    """A Secret that holds something."""
    return SecretSeen(version, is_ours, content, "" if content else "broken")


def serving(pair: Pair) -> Content:
    """The content of a settled Secret."""
    return Content(Stage.SERVING, pair, (pair.authority,))


def settled(pair: Pair, bundle: Mapping[str, frozenset[str]] | None = None) -> Rotation:
    """A replica that serves what the Secret holds, trusted, since 0."""
    rotation = a_rotation()
    rotation.saw(holding(serving(pair)), bundle or {"x": frozenset({pair.authority})}, 0)
    rotation.serves(pair, 0)
    return rotation


MISSING = SecretSeen(None)


class TestFirst:
    """No Secret yet."""

    def test_makes_one_at_once_where_nobody_is_trusted(self):
        """A first installation waits for nobody."""
        pair = a_pair()
        rotation = a_rotation(made=[pair])
        rotation.saw(MISSING, {"x": frozenset()}, 5)
        decision = rotation.decide(5, 0)
        assert decision.write == Write(serving(pair), None)
        assert decision.serve is None  # only what was read back from the Secret

    @pytest.mark.parametrize("bundles", [{"x": frozenset({"ca of others"})}, None])
    def test_lets_holders_write_back_first(self, bundles):
        """Who holds nothing gives those a moment who may."""
        rotation = a_rotation()
        rotation.saw(MISSING, bundles, 5)
        assert rotation.decide(6.9, 0).write is None
        assert rotation.decide(6.9, 0).wake_at == 7
        write = rotation.decide(7, 0).write
        assert write is not None
        assert write.version is None

    def test_serves_at_once_what_the_secret_holds(self):
        """A replica that starts waits for no caBundle."""
        pair = a_pair()
        rotation = a_rotation()
        rotation.saw(holding(serving(pair)), {"x": frozenset()}, 0)
        decision = rotation.decide(0, 0)
        assert decision.serve == pair
        assert decision.trust == (pair.authority,)
        assert decision.write is None

    def test_never_serves_what_has_expired(self):
        """An expired certificate of another's is not even served where there is none."""
        rotation = a_rotation()
        rotation.saw(holding(serving(a_pair(5)), is_ours=False), {}, 0)
        decision = rotation.decide(0, 5)
        assert decision.serve is None
        assert decision.write is None


class TestRenewal:
    """The stages."""

    def test_begins_when_a_third_of_the_life_is_left(self):
        """Not before; and then with both CAs named, the old pair still to be served."""
        pair, following = a_pair(names=NAMES | OTHER_NAMES), a_pair()
        rotation = settled(pair)
        asked: list[frozenset[str]] = []

        def issue(names: frozenset[str]) -> Pair:
            asked.append(names)
            return following

        rotation.issue = issue
        early = rotation.decide(100, 2 / 3 * LIFETIME - 50)
        assert early.write is None
        assert early.wake_at == 150
        write = rotation.decide(150, 2 / 3 * LIFETIME).write
        assert asked == [NAMES]  # of what others once had, nothing
        authorities = (pair.authority, following.authority)
        assert write == Write(Content(Stage.TRUSTING, pair, authorities, following), "1")

    def test_a_stage_needs_its_time_since_it_was_seen(self):
        """The steady clock of this replica counts, from when it saw the stage."""
        old, new = a_pair(), a_pair()
        both = frozenset({old.authority, new.authority})
        rotation = settled(old)
        trusting = Content(Stage.TRUSTING, old, (old.authority, new.authority), new)
        rotation.saw(holding(trusting, "2"), {"x": both}, 1000)
        assert rotation.decide(1000 + STAGE - 0.1, 700).write is None
        write = rotation.decide(1000 + STAGE, 700).write
        authorities = (new.authority, old.authority)
        assert write == Write(Content(Stage.RETIRING, new, authorities), "2")

    def test_a_stage_needs_trust_in_each_ca_by_each_bundle(self):
        """One caBundle behind, or unreadable, holds the renewal up; none at all does not."""
        old, new = a_pair(), a_pair()
        both = frozenset({old.authority, new.authority})
        trusting = Content(Stage.TRUSTING, old, (old.authority, new.authority), new)
        for bundles, goes_on in (
            ({"x": both, "y": frozenset({old.authority})}, False),
            (None, False),
            ({"x": both, "y": both}, True),
            ({}, True),
        ):
            rotation = settled(old)
            rotation.saw(holding(trusting, "2"), bundles, 0)
            assert (rotation.decide(STAGE, 700).write is not None) is goes_on

    def test_the_old_ca_goes_only_when_the_new_certificate_is_served(self):
        """RETIRING ends with what this replica serves, too."""
        old, new = a_pair(), a_pair()
        both = {"x": frozenset({old.authority, new.authority})}
        retiring = Content(Stage.RETIRING, new, (new.authority, old.authority))
        rotation = settled(old, both)
        rotation.saw(holding(retiring, "3"), both, 0)
        assert rotation.decide(STAGE, 700).write is None
        assert rotation.decide(STAGE, 700).serve == new
        rotation.serves(new, STAGE)
        assert rotation.decide(STAGE, 700).write == Write(serving(new), "3")


class TestServing:
    """Which certificate is served when."""

    def test_another_ca_is_served_after_it_was_trusted_for_a_stage(self):
        """Also where the Secret is another's, and was swapped at once."""
        old, new = a_pair(), a_pair()
        rotation = settled(old)
        secret = holding(serving(new), "2", is_ours=False)
        rotation.saw(secret, {"x": frozenset({"o"})}, 0)
        rotation.saw(secret, {"x": frozenset({new.authority})}, 5)
        early = rotation.decide(5 + STAGE - 0.1, 0)
        assert early.serve is None
        assert early.trust == (new.authority, old.authority)  # the served one stays trusted
        assert early.wake_at == 5 + STAGE
        assert rotation.decide(5 + STAGE, 0).serve == new

    @pytest.mark.parametrize("disturbed", [{"x": frozenset[str]()}, None])
    def test_trust_that_was_broken_counts_anew(self, disturbed):
        """A blanked caBundle, or one that can't be read, starts the time again."""
        old, new = a_pair(), a_pair()
        rotation = settled(old)
        secret = holding(serving(new), "2")
        trusted = {"x": frozenset({new.authority, old.authority})}
        rotation.saw(secret, trusted, 0)
        rotation.saw(secret, disturbed, 5)
        rotation.saw(secret, trusted, 8)
        assert rotation.decide(STAGE + 7, 0).serve is None
        assert rotation.decide(STAGE + 8, 0).serve == new

    def test_the_same_ca_is_served_at_once(self):
        """Whoever trusted the old certificate trusts the new one."""
        old = a_pair()
        new = a_pair(ca=old.authority)
        rotation = settled(old)
        rotation.saw(holding(serving(new), "2", is_ours=False), {"x": frozenset()}, 0)
        assert rotation.decide(0, 0).serve == new

    def test_an_expired_one_is_replaced_at_once(self):
        """What nobody accepts any more is no reason to wait."""
        old, new = a_pair(50), a_pair()
        rotation = settled(old)
        rotation.saw(holding(serving(new), "2"), {"x": frozenset()}, 0)
        assert rotation.decide(0, 49).serve is None
        assert rotation.decide(0, 49).wake_at == 1
        assert rotation.decide(0, 50).serve == new


class TestUnfit:
    """A certificate that is whole and would be refused by the API server."""

    @pytest.mark.parametrize(
        ("unfit", "why"),
        [
            (a_pair(names=OTHER_NAMES), "not for hook.ns.svc"),
            (a_pair(not_before=1.0), "not valid yet"),
        ],
        ids=["names", "date"],
    )
    def test_is_replaced_at_once_where_nothing_is_served(self, unfit, why):
        """Neither served nor left to a renewal in stages."""
        made = a_pair()
        rotation = a_rotation(made=[made])
        rotation.saw(holding(serving(unfit), "4"), {"x": frozenset({unfit.authority})}, 0)
        decision = rotation.decide(0, 0)
        assert decision.serve is None
        assert decision.write == Write(serving(made), "4")
        assert why in decision.fault

    def test_is_replaced_after_a_stage_where_a_valid_one_is_served(self):
        """An older program's replica must not undo at once what a newer one needs."""
        rotation = settled(a_pair())
        theirs = a_pair(names=OTHER_NAMES)
        rotation.saw(holding(serving(theirs), "4"), {"x": frozenset({theirs.authority})}, 1)
        early = rotation.decide(STAGE, 0)
        assert (early.serve, early.write, early.wake_at) == (None, None, STAGE + 1)
        late = rotation.decide(STAGE + 1, 0)
        assert late.serve is None
        assert late.write is not None
        assert late.write.content.pair.names == NAMES | OTHER_NAMES  # no replica undoes it

    def test_another_s_is_not_written_and_served_once_it_is_valid(self):
        """Its names were looked at as it was read."""
        theirs = a_pair(names=OTHER_NAMES, not_before=50.0)
        rotation = a_rotation()
        rotation.saw(holding(serving(theirs), is_ours=False), {}, 0)
        early = rotation.decide(0, 40)
        assert (early.serve, early.write, early.wake_at) == (None, None, 10)
        assert rotation.decide(10, 50).serve == theirs

    def test_one_that_a_clock_set_back_made_unfit_is_replaced_at_once(self):
        """What is served is as bad, so there is nothing to wait for."""
        pair = a_pair(not_before=50.0)
        rotation = settled(pair)
        assert rotation.decide(1, 40).write is not None


class TestRestoring:
    """A Secret that is gone, or unusable."""

    @pytest.mark.parametrize("secret", [MISSING, holding(None, "7")])
    def test_a_holder_writes_the_same_content_back(self, secret):
        """In whatever stage it was."""
        old, new = a_pair(), a_pair()
        trusting = Content(Stage.TRUSTING, old, (old.authority, new.authority), new)
        rotation = settled(old)
        rotation.saw(holding(trusting, "2"), {"x": frozenset({old.authority})}, 0)
        rotation.saw(secret, {"x": frozenset({old.authority})}, 1)
        assert rotation.decide(1, 0).write == Write(trusting, secret.version)

    def test_an_expired_one_is_made_anew(self):
        """Nothing valid is left to be written back."""
        rotation = settled(a_pair(50))
        rotation.issue = lambda _: fresh
        fresh = a_pair()
        assert rotation.decide(1, 49).write is None
        assert rotation.decide(1, 50).write == Write(serving(fresh), "1")

    def test_one_of_anothers_is_never_written(self):
        """Neither unusable nor expired; what is served stays."""
        pair = a_pair()
        for content in (None, serving(a_pair(5))):
            rotation = settled(pair)
            rotation.saw(holding(content, "2", is_ours=False), {"x": frozenset()}, 1)
            decision = rotation.decide(1, 6)
            assert decision.write is None
            assert decision.serve is None
            assert pair.authority in decision.trust

    def test_the_maker_of_a_lost_one_is_waited_for(self):
        """Another's Secret that was deleted is its maker's to bring back, until ours must do."""
        theirs = a_pair(100)
        rotation = a_rotation()
        rotation.saw(holding(serving(theirs), is_ours=False), {}, 0)
        rotation.serves(theirs, 0)
        rotation.saw(MISSING, {}, 1)
        assert rotation.decide(1, 99).write is None
        assert rotation.decide(1, 100).write is not None

    def test_nothing_is_decided_on_what_is_not_known(self):
        """A Secret that can't be read is no missing one."""
        rotation = settled(a_pair())
        rotation.saw(None, {"x": frozenset()}, 1)
        decision = rotation.decide(1, 2 * LIFETIME)
        assert decision.write is None
        assert decision.serve is None
        assert decision.trust  # what is served must be trusted all the same


class TestTrust:
    """What the caBundles are to hold."""

    def test_a_foreign_ca_goes_after_three_stages(self):
        """It may be another replica's, so it gets the time in which that must have moved on."""
        pair = a_pair()
        rotation = settled(pair, {"x": frozenset({pair.authority, "foreign"})})
        assert rotation.decide(3 * STAGE - 0.1, 0).distrust == frozenset()
        assert rotation.decide(3 * STAGE - 0.1, 0).wake_at == 3 * STAGE
        assert rotation.decide(3 * STAGE, 0).distrust == {"foreign"}

    def test_nothing_goes_while_something_is_missing(self):
        """Time counts from when everything needed is trusted, and known."""
        pair = a_pair()
        content = holding(serving(pair))
        for bundles in ({"x": frozenset({"foreign"})}, None):
            rotation = settled(pair)
            rotation.saw(content, bundles, 0)
            assert rotation.decide(10 * STAGE, 0).distrust == frozenset()
        rotation = settled(pair)
        rotation.saw(holding(None), {"x": frozenset({pair.authority, "foreign"})}, 0)
        assert rotation.decide(10 * STAGE, 0).distrust == frozenset()

    @pytest.mark.parametrize("disturbed", [{"x": frozenset({"foreign"})}, None])
    def test_what_disturbs_it_starts_the_time_anew(self, disturbed):
        """Who saw the disturbance still serves what the foreign CA signed, and for as long."""
        pair = a_pair()
        bundles = {"x": frozenset({pair.authority, "foreign"})}
        rotation = settled(pair, bundles)
        for seen, when in ((disturbed, STAGE), (bundles, STAGE + 1)):
            rotation.saw(holding(serving(pair)), seen, when)
        assert rotation.decide(4 * STAGE, 0).distrust == frozenset()
        assert rotation.decide(4 * STAGE + 1, 0).distrust == {"foreign"}
