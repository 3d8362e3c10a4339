"""The runtime's own threads: never waited for, whatever else is at work."""

import _thread
import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from rws_operator.errors import OperatorError
from rws_operator.own_threads import in_own_thread

ABOUT: ContextVar[str] = ContextVar("about")


@pytest.mark.usefixtures("filled_threads")
async def test_a_call_waits_for_no_other() -> None:
    """Neither for the author's nor for ours that hang; and it runs in a thread of its own."""
    end = threading.Event()
    hanging = [asyncio.create_task(in_own_thread(end.wait)) for _ in range(50)]
    async with asyncio.timeout(10):
        assert await in_own_thread(threading.get_ident) != threading.get_ident()
    end.set()
    assert await asyncio.gather(*hanging) == [True] * 50


async def test_a_call_has_arguments_context_result_and_error() -> None:
    """As with `asyncio.to_thread`."""
    ABOUT.set("a token")
    assert await in_own_thread(lambda word, of: f"{word} of {of}, {ABOUT.get()}", "x", of="y") == (
        "x of y, a token"
    )
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match=r"raised StopIteration\(\)"):
        async with asyncio.timeout(10):
            await in_own_thread(next, iter(()))


async def test_the_loop_waits_for_no_threads_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside many threads that compute, `Thread.start` would hold it up for a second."""
    by: list[int] = []
    wait = threading.Event.wait

    def waits(event: threading.Event, timeout: float | None = None) -> bool:
        by.append(threading.get_ident())
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", waits)
    await in_own_thread(int)
    assert threading.get_ident() not in by
    threading.Thread(target=int).start()
    assert threading.get_ident() in by  # such a wait would have been seen


@pytest.mark.parametrize(
    ("why", "says"),
    [
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (MemoryError(), "MemoryError"),
    ],
)
async def test_a_thread_that_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, why: Exception, says: str
) -> None:
    """It is an error of ours, which every caller expects; the function was not called."""

    def refuse(*_: Any) -> None:
        raise why

    called: list[int] = []
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(OperatorError, match=f"{says}: let the pod have more"):
        await in_own_thread(called.append, 1)
    assert called == []


def test_a_call_that_hangs_keeps_nobody() -> None:
    """Not who waits and is cancelled, not the loop, not the process."""
    program = """
import asyncio, time
from rws_operator.own_threads import in_own_thread
async def main():
    try:
        async with asyncio.timeout(0.1):
            await in_own_thread(time.sleep, 3600)
    except TimeoutError:
        print("cut")
asyncio.run(main())
print("the end")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert (ended.stdout, ended.stderr) == ("cut\nthe end\n", "")
