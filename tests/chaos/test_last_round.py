"""The last round of a chaos run proves something only while one process leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos.last_round import ROUNDS, LastRound


class Rounds(LastRound):
    """Makes no round, but tells what it is told to, as if the Lease were held by these in turn."""

    def __init__(self, *holders: str) -> None:
        unused = cast("Any", self)
        super().__init__(unused, "", Path(), unused, unused, unused)
        self._holders = iter(holders)
        self.made: list[str] = []

    async def lease(self) -> tuple[str, int]:
        """Who holds it."""
        return next(self._holders), 0

    async def _round(self, prefix: str) -> list[str]:
        self.made.append(prefix)
        return [f"found by {prefix}"]


@pytest.mark.parametrize(
    ("holders", "made", "complaint"),
    [
        ("pp", 1, "found by last1"),
        ("pqqq", 2, "found by last2"),
        ("pqqrrs", ROUNDS, "no leader lasted, this proves nothing"),
    ],
)
async def test_the_round_is_made_again_if_the_lease_changed_hands(
    holders: str, made: int, complaint: str
) -> None:
    """So often, and then the run proves nothing; what an earlier round found was mended."""
    rounds = Rounds(*holders)
    assert await rounds.carry_out() == [complaint]
    assert len(rounds.made) == made
