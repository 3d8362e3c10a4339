"""Tests of turns: one test at a time, a wait that ends, and locks that nobody else can place."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.testing import turns
from rws_operator.testing.turns import Turn

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the locks' folder is made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folder_in(temporary: Path) -> Path:
    """The locks' folder."""
    return temporary / f"rws-test-turns-{os.getuid()}"


async def test_one_has_the_turn_until_its_end(temporary: Path):
    """The next has it then; another cluster's does not wait; a second take is none."""
    first, second = Turn("https://a", "first"), Turn("https://a", "second")
    await first.take()
    await first.take()
    await Turn("https://b", "far").take()
    waiting = asyncio.create_task(second.take())
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    first.end()
    await asyncio.wait_for(waiting, 5)
    second.end()
    second.end()
    assert not done


async def test_a_wait_ends_and_says_who_has_it(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    """By process and test; who gave up holds nothing."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.2)
    first, second = Turn("https://a", "a longer name"), Turn("https://a", "second")
    await first.take()
    with pytest.raises(OperatorError, match=rf"process {os.getpid()}, a longer name has it"):
        await second.take()
    first.end()
    await second.take()
    third = Turn("https://a", "third")
    with pytest.raises(OperatorError, match=rf"process {os.getpid()}, second has it"):
        await third.take()


async def test_a_wait_is_counted_anew_for_each_holder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    """Many short turns of others end no wait."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.4)
    holder = Turn("https://a", "0")
    await holder.take()
    waiting = asyncio.create_task(Turn("https://a", "last").take())
    for n in range(1, 6):
        await asyncio.sleep(0.15)
        following = Turn("https://a", str(n))
        holder.end()
        await following.take()  # at once: the other only looks now and then
        holder = following
    assert not waiting.done()
    holder.end()
    await asyncio.wait_for(waiting, 5)


async def test_a_forked_child_keeps_no_turn(temporary: Path):
    """It has the file of the lock, too, and may live on for long."""
    first, second = Turn("https://a", "first"), Turn("https://a", "second")
    await first.take()
    assert first._file is not None
    child = await asyncio.create_subprocess_exec("sleep", "60", pass_fds=[first._file])
    try:
        first.end()
        await asyncio.wait_for(second.take(), 5)
    finally:
        child.kill()
        await child.wait()
    second.end()


async def test_a_folder_that_others_may_write_is_refused(temporary: Path):
    """Its remedy is said."""
    folder_in(temporary).mkdir()
    folder_in(temporary).chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"not a folder of this user alone.*remove it"):
        await Turn("https://a", "test").take()


async def test_a_folder_that_is_a_link_is_refused(temporary: Path):
    """Whatever it leads to."""
    (temporary / "elsewhere").mkdir(mode=0o700)
    folder_in(temporary).symlink_to("elsewhere")
    with pytest.raises(ConfigurationError, match="not a folder of this user alone"):
        await Turn("https://a", "test").take()


async def test_a_lock_that_is_a_link_empties_nothing(temporary: Path):
    """The file it leads to stays as it is."""
    turn = Turn("https://a", "test")
    await turn.take()
    turn.end()
    (lock,) = folder_in(temporary).iterdir()
    lock.unlink()
    precious = temporary / "precious"
    precious.write_text("kept")
    lock.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        await turn.take()
    assert precious.read_text() == "kept"
