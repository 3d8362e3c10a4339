"""What blocks the event loop is named in time, whatever the log's handlers wait for."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from prometheus_client import REGISTRY

from rws_operator.heartbeat import BLOCKED_SECONDS, TICK_SECONDS, Heartbeat, _Block
from rws_operator.testing.eventually import eventually
from rws_operator.testing.supervise import die_with_parent
from rws_operator.whereabouts import handling

BLOCKED = "the event loop is blocked"
HERE = f"{__name__}."


def block_the_loop(seconds: float) -> None:
    """Stand still, under a name that a stack shows."""
    time.sleep(seconds)


def quick() -> Heartbeat:
    """One that a test needs not wait for."""
    return Heartbeat(tick_seconds=0.02, blocked_seconds=0.2)


def contexts(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    """What was said beside a message, each time."""
    return [
        record.context  # type: ignore[attr-defined]
        for record in caplog.records
        if record.getMessage().startswith(message)
    ]


async def test_what_blocks_the_loop_is_named_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The function, and where it stands; once more each time it has lasted twice as long."""

    async def handler() -> None:
        block_the_loop(1.2)

    with quick():
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().create_task(handler())
        await eventually(2, lambda: "runs again" in caplog.text)
    told = contexts(caplog, BLOCKED)
    after = [each["blocked_seconds"] for each in told]
    assert len(after) >= 2
    assert all(2 * one - 0.1 <= later for one, later in itertools.pairwise([0.1, *after]))
    function = f"{HERE}{handler.__qualname__}"
    assert {each["function"] for each in told} == {function}
    line = handler.__code__.co_firstlineno + 1
    assert told[0]["at"] == f"{__file__}:{line}"
    report = next(record for record in caplog.records if record.getMessage().startswith(BLOCKED))
    assert report.levelno == logging.WARNING
    assert "time.sleep(seconds)" in report.getMessage()
    (over,) = contexts(caplog, "the event loop runs again")
    assert over["function"] == function
    assert 1 <= over["blocked_seconds"] < 3
    labels = {"function": function}
    assert REGISTRY.get_sample_value("rws_loop_blocked_seconds_count", labels) == 1
    assert 1 <= (REGISTRY.get_sample_value("rws_loop_blocked_seconds_sum", labels) or 0) < 3


async def test_what_a_task_works_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also of tasks that the author's code started, which inherit it."""

    async def part() -> None:
        block_the_loop(0.4)

    async def reconcile() -> None:
        handling.set({"controller": "Backup", "namespace": "team", "name": "one"})
        async with asyncio.TaskGroup() as parts:
            parts.create_task(part())

    with quick():
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().create_task(reconcile())
        await eventually(2, lambda: "runs again" in caplog.text)
    told = contexts(caplog, BLOCKED)[0]
    assert told["function"] == f"{HERE}{part.__qualname__}"
    assert (told["controller"], told["namespace"], told["name"]) == ("Backup", "team", "one")


async def test_a_callback_is_named_without_a_task(caplog: pytest.LogCaptureFixture) -> None:
    """Timers run on the loop as well."""
    with quick():
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_soon(block_the_loop, 0.4)
        await eventually(2, lambda: "runs again" in caplog.text)
    assert contexts(caplog, BLOCKED)[0]["function"] == f"{HERE}block_the_loop"


async def test_a_block_straight_at_the_start_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Before the loop has answered once."""
    with quick():
        block_the_loop(0.5)
        await eventually(2, lambda: "runs again" in caplog.text)
    function = f"{HERE}{test_a_block_straight_at_the_start_is_named.__name__}"
    assert contexts(caplog, BLOCKED)[0]["function"] == function


async def test_a_look_that_fails_does_not_end_the_watching(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, as seldom as a block is; time is counted on, and the next block is named."""

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    with quick() as heartbeat:
        await asyncio.sleep(0.1)
        with monkeypatch.context() as broken:
            broken.setattr("rws_operator.heartbeat.whereabouts.find", fail)
            block_the_loop(2)
            assert heartbeat.blocked_seconds > 1
        assert heartbeat.check() is None
        told = contexts(caplog, "can't tell where the event loop stands")
        assert 1 <= len(told) <= 5
        assert repr(told[0]["error"]) == "KeyError('a bug')"
        await asyncio.sleep(0.1)
        block_the_loop(0.5)
        await eventually(2, lambda: "runs again" in caplog.text)
    assert contexts(caplog, BLOCKED)


async def test_a_module_whose_source_cannot_be_read_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its loader may raise anything; function, file and line are known all the same."""

    class Loader:
        """Stands for one that lost its archive."""

        def get_source(self, name: str) -> str:
            """Raise something."""
            raise ZeroDivisionError(name)

    namespace: dict[str, Any] = {"__name__": "packed", "__loader__": Loader(), "time": time}
    exec(compile("def rest(): time.sleep(0.5)", "packed.py", "exec"), namespace)
    with quick():
        await asyncio.sleep(0.1)
        namespace["rest"]()
        await eventually(2, lambda: "runs again" in caplog.text)
    assert 'File "packed.py", line 1, in rest' in caplog.text


async def test_a_busy_loop_shows_in_the_lag_and_is_not_called_blocked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The metric says how late the last answer was."""
    with Heartbeat(tick_seconds=0.02, blocked_seconds=2.0) as heartbeat:

        async def lags() -> bool:
            block_the_loop(0.3)
            await asyncio.sleep(0)
            return (REGISTRY.get_sample_value("rws_loop_lag_seconds") or 0) > 0.1

        await asyncio.sleep(0.1)
        await eventually(5, lags)
        await eventually(5, lambda: heartbeat.blocked_seconds == 0, every=0.01)
        assert heartbeat.check() is None
    assert BLOCKED not in caplog.text


async def test_other_threads_see_how_long_it_is_blocked() -> None:
    """Who ends the process reads it while nothing on the loop can run."""
    seen: list[float] = []
    with quick() as heartbeat:
        await asyncio.sleep(0.1)
        timer = threading.Timer(0.6, lambda: seen.append(heartbeat.blocked_seconds))
        timer.start()
        block_the_loop(0.8)
        await asyncio.sleep(0.1)
    assert 0.3 < seen[0] < 1.5
    assert heartbeat.blocked_seconds == 0


async def test_the_thread_ends_with_the_watching() -> None:
    """Nothing is left behind, and who asks afterwards learns that nobody watches."""

    def watchers() -> int:
        return [thread.name for thread in threading.enumerate()].count("rws-heartbeat")

    assert watchers() == 0
    with Heartbeat() as heartbeat:
        assert watchers() == 1
        assert heartbeat.check() is None
    assert watchers() == 0
    assert heartbeat.check() is not None


def test_a_block_is_told_within_two_seconds() -> None:
    """At worst it begins right after an answer; then comes the tick that is late enough."""
    assert 1 <= BLOCKED_SECONDS <= 2 - 2 * TICK_SECONDS


class WaitsForTheLoop(logging.Handler):
    """A log handler that hands each line to the loop, and waits or not."""

    def __init__(self, *, waits: bool) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._waits = waits

    def emit(self, record: logging.LogRecord) -> None:
        """Hand it over."""
        if threading.current_thread() is not threading.main_thread():
            done = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
            if self._waits:
                done.result()


@pytest.mark.parametrize("waits", [True, False])
async def test_it_is_told_even_if_the_log_needs_the_loop(
    waits: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Straight to standard error then, while the loop is still blocked."""
    log = logging.getLogger("rws_operator.heartbeat")
    handler = WaitsForTheLoop(waits=waits)
    log.addHandler(handler)
    log.propagate = False
    try:
        with quick():
            await asyncio.sleep(0.1)
            block_the_loop(0.9)
            told = capfd.readouterr().err
            await asyncio.sleep(0.1)
    finally:
        log.removeHandler(handler)
        log.propagate = True
    assert BLOCKED in told
    assert "block_the_loop(0.9)" in told


async def test_it_is_told_even_if_no_thread_can_be_had(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers may have used them up."""

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with quick() as heartbeat:
        await asyncio.sleep(0.1)
        monkeypatch.setattr("_thread.start_new_thread", fail)
        block_the_loop(0.9)
        told = capfd.readouterr().err
        assert heartbeat.check() is None
    assert BLOCKED in told


async def test_a_debugger_is_no_block(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody stands there on purpose, for as long as they like."""
    namespace: dict[str, Any] = {"__name__": "bdb", "time": time}
    exec("def prompt(): time.sleep(2)", namespace)
    with quick() as heartbeat:
        await asyncio.sleep(0.1)
        namespace["prompt"]()
        assert heartbeat.blocked_seconds < 1
        await asyncio.sleep(0.05)
    assert BLOCKED not in caplog.text


async def test_a_debuggers_prompt_ends_the_block_before_it() -> None:
    """At once, and not when that would be told: too late for who ends a process that is dead."""
    with Heartbeat(tick_seconds=0.02, blocked_seconds=60) as heartbeat:

        def prompt() -> bool:
            until = time.monotonic() + 5
            while heartbeat.blocked_seconds and time.monotonic() < until:
                time.sleep(0.01)
            return heartbeat.blocked_seconds == 0

        namespace: dict[str, Any] = {"__name__": "bdb", "prompt": prompt}
        exec("def interaction(): return prompt()", namespace)
        await asyncio.sleep(0.1)
        block_the_loop(0.5)
        assert heartbeat.blocked_seconds > 0
        assert namespace["interaction"]()


STOPPED = """
import asyncio, time
from rws_operator.heartbeat import Heartbeat

async def main():
    with Heartbeat(tick_seconds=0.05, blocked_seconds=4) as heartbeat:
        await asyncio.sleep(0.3)
        print("blocked", flush=True)
        for _ in range(40):  # it goes on where it was stopped
            time.sleep(0.02)
        await asyncio.sleep(0.2)

asyncio.run(main())
"""


STOPPED_IN_A_CALL = """
import asyncio, ctypes, time
from rws_operator.heartbeat import Heartbeat

sleep = ctypes.PyDLL(None).usleep  # it keeps the interpreter's lock

async def main():
    with Heartbeat() as heartbeat:
        await asyncio.sleep(0.3)
        print("blocked", flush=True)
        for _ in range(2):  # after the first one the question is asked that nobody answers
            sleep(1_500_000)
        time.sleep(0.4)
        print(heartbeat.blocked_seconds, flush=True)

asyncio.run(main())
"""


def stopped(program: str, after_seconds: float, seconds: float) -> str:
    """What a program says that is stopped for a time, so long after it says that it is blocked."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "blocked\n"
    time.sleep(after_seconds)
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    return output


def test_a_stopped_process_is_no_blocked_loop() -> None:
    """For as long as it is stopped the loop has no chance to answer, so it does not count."""
    assert stopped(STOPPED, 0.2, 4.5) == ""  # the question that nobody answers has been asked


def test_a_process_that_is_stopped_in_a_call_is_blocked_no_longer_than_the_call() -> None:
    """The thread that counts has waited for the interpreter's lock before it was stopped."""
    blocked_seconds = stopped(STOPPED_IN_A_CALL, 2.7, 6.0).split()[-1]
    assert float(blocked_seconds) < 5


def test_a_late_tick_counts_as_far_as_its_thread_was_run() -> None:
    """Whatever stopped the thread that asks stopped the loop, too; else the loop was blocked."""
    block = _Block(3.0)
    assert not block.go_on(0.75, 1)
    assert not block.go_on(3600, 3)
    assert 0.75 < block.seconds < 1.1
    assert not block.go_on(1.5, 250)  # a quarter of a second it waits for the tick
    assert block.seconds > 2.25
    assert block.go_on(0.75, 1)


def test_a_late_tick_counts_for_no_longer_than_its_thread_was_run() -> None:
    """It waited for the interpreter's lock for two seconds; then the process was stopped."""
    block = _Block(60.0)
    block.go_on(22, 470)
    assert 2 < block.seconds < 3


def ran(program: str) -> subprocess.CompletedProcess[str]:
    """What a program said that has ended well."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
        preexec_fn=die_with_parent,
    )


NO_TURNS = """
import asyncio, resource, time
del resource.RUSAGE_THREAD
from rws_operator.heartbeat import Heartbeat

async def main():
    with Heartbeat(tick_seconds=0.02, blocked_seconds=60) as heartbeat:
        await asyncio.sleep(0.1)
        time.sleep(0.5)
        print(heartbeat.blocked_seconds, heartbeat.check(), flush=True)

asyncio.run(main())
"""


def test_a_system_that_counts_no_turns_watches_all_the_same() -> None:
    """There all time counts; Linux alone tells how often a thread was run."""
    process = ran(NO_TURNS)
    blocked_seconds, failure = process.stdout.split(maxsplit=1)
    assert failure == "None\n"
    assert float(blocked_seconds) > 0


KEPT_LOCK = """
import asyncio, ctypes, time
from rws_operator.heartbeat import Heartbeat

sleep = ctypes.PyDLL(None).usleep  # it keeps the interpreter's lock, and uses no processor

async def main():
    with Heartbeat() as heartbeat:
        await asyncio.sleep(0.3)
        since = time.monotonic()
        while heartbeat.blocked_seconds < 5 and time.monotonic() < since + 60:
            sleep(1_200_000)
        print(time.monotonic() - since, flush=True)

asyncio.run(main())
"""


def test_calls_that_keep_the_interpreters_lock_count_as_long_as_they_take() -> None:
    """The threads that watch get to run in between, late: it is told, and time is not lost."""
    process = ran(KEPT_LOCK)
    assert 5 <= float(process.stdout) < 45
    assert BLOCKED in process.stderr
    assert "sleep(1_200_000)" not in process.stderr  # there is no source, and none is needed
    assert ", in main" in process.stderr
