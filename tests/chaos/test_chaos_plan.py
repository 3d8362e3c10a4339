"""The plan of a chaos run: drawn from its seed, whole, and within its time."""

from __future__ import annotations

from tests.chaos.deck import DECK
from tests.chaos.faults import Faults
from tests.chaos.plan import CALM_SECONDS, draw
from tests.chaos.workload import Workload


def test_a_seed_draws_the_same_plan_again() -> None:
    """Nothing but the arguments counts; another seed is another plan."""
    assert draw(7, 300, 30) == draw(7, 300, 30)
    assert draw(7, 300, 30).digest == draw(7, 300, 30).digest
    assert draw(7, 300, 30).digest != draw(8, 300, 30).digest


def test_five_minutes_deal_every_kind_of_fault() -> None:
    """Each is one that can be carried out, and over before the time is."""
    plan = draw(1, 300, 10)
    assert len(plan.faults) > len(DECK)
    for fault in plan.faults:
        assert callable(getattr(Faults, fault.does))
        assert 0 <= fault.at <= fault.at + fault.seconds <= 300


def test_the_edits_of_an_object_follow_its_life() -> None:
    """It is created first and after each deletion, and nothing else is done to what is gone."""
    plan = draw(3, 600, 50)
    done = set()
    for edits in plan.edits.values():
        there = False
        for before, edit in zip([edits[0], *edits], edits, strict=False):
            assert before.at <= edit.at < 600 + CALM_SECONDS
            assert callable(getattr(Workload, f"_{edit.does}"))
            assert there != (edit.does == "create")
            assert (edit.spec is not None) == (edit.does in ("create", "edit", "recreate"))
            there = edit.does != "delete"
            done.add(edit.does)
    assert done >= {"create", "edit", "delete", "recreate", "spoil_child", "delete_child"}
