"""What a program is run anew for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rws_operator.dev.changes import Changes

if TYPE_CHECKING:
    from pathlib import Path


class Runs:
    """A session's part: runs begin one after the other, each for what `save` tells."""

    def __init__(self, folder: Path) -> None:
        self.changes = Changes()
        self._folder = folder
        self._number = 0

    async def begins_for(self, name: str) -> bool:
        """Save a file; return whether a run begins for it, which is starting then."""
        self._number += 1
        path = self._folder / name
        path.write_text("x" * self._number)
        self.changes.see({str(path)})
        try:
            async with asyncio.timeout(0.01):
                paths = await self.changes.wait()
        except TimeoutError:
            return False
        assert paths == {str(path)}
        self.changes.begin(paths)
        return True


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Runs of a program in a folder."""
    return Runs(tmp_path)


@pytest.mark.virtual_time
async def test_what_a_program_writes_itself(runs: Runs, capsys: pytest.CaptureFixture[str]):
    """A log that grows at each start starts the program twice, then never; it is told once."""
    assert await runs.begins_for("one.py")
    begun = [await runs.begins_for("operator.log") for _ in range(6)]
    assert begun == [True, True, False, False, False, False]
    runs.changes.settle()
    await asyncio.sleep(10)
    assert not await runs.begins_for("operator.log")
    assert await runs.begins_for("template.yaml")
    told = capsys.readouterr().err
    assert told.count("operator.log changed at each start: the program itself seems to") == 1


@pytest.mark.virtual_time
async def test_what_a_user_saves(runs: Runs):
    """Python always counts, and data too where there is time between a start and a save."""
    for _ in range(6):
        assert await runs.begins_for("one.py")
    for _ in range(6):
        runs.changes.settle()
        await asyncio.sleep(1.5)
        assert await runs.begins_for("template.yaml")


@pytest.mark.virtual_time
async def test_two_saves_at_once_are_forgotten(runs: Runs):
    """A few quick saves, each followed by others, don't add up."""
    for _ in range(4):
        assert await runs.begins_for("template.yaml")
        assert await runs.begins_for("template.yaml")
        assert await runs.begins_for("one.py")


@pytest.mark.virtual_time
async def test_what_a_run_has_seen_is_no_news(runs: Runs, tmp_path: Path):
    """A change that is told while the old run stops is part of the new one."""
    assert await runs.begins_for("one.py")
    other = tmp_path / "two.py"
    other.touch()
    runs.changes.see({str(other)})
    runs.changes.begin(set())
    runs.changes.see({str(other)})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await runs.changes.wait()
