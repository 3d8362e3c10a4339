"""Runs a program's Operator as a process: signals, exit code, and an end in bounded time.

The first SIGTERM or SIGINT asks for a clean stop, a second one cuts it short. A process that
ought to end does so in bounded time, whatever hangs in it. Where the Lease is lost, the controllers
and the handlers they left must end within `LOST_SECONDS`, or the process does: a stuck handler must
not go on beside those of the next leader. What nobody can see from here, e.g. a thread that a
handler started, may go on until the Lease expires at most, before which nobody else leads unless
it took the Lease by force: then the process ends in any case. Until then webhooks are answered, as
at a clean stop. What is on the event loop can't see to that when the loop itself is blocked, so a
thread does.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Protocol

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

LOST_SECONDS = 0.7
"""How long controllers, and handlers they left, may take to end once the Lease is lost."""

EXIT_SECONDS = 2.0
"""How long a process whose work is over may take to end by itself."""

AFTER_DRAIN_SECONDS = 12.0
"""How long a clean stop may take after `Runner.stop_seconds`: less than a pod's grace period."""

_WATCH_SECONDS = 0.1
_TELL_SECONDS = 0.2


class Runner(Protocol):
    """What a process needs of an Operator."""

    @property
    def stop_seconds(self) -> float:
        """How long what is under way may go on once a stop was asked for."""
        ...

    @property
    def expiry_seconds(self) -> float:
        """How long after it may not write any more its Lease expires."""
        ...

    async def run(
        self,
        *,
        http_port: int | None,
        webhook_port: int | None,
        tls_files: tuple[str, str] | None,
        kubeconfig: str | None,
        context: str | None,
    ) -> None:
        """Run it."""

    def stop(self) -> None:
        """Ask `run` to end well."""

    def has_lost_lease(self) -> bool:
        """Whether it may not write any more."""
        ...

    def is_at_work(self) -> bool:
        """Whether a controller, or a handler it left behind, has not ended."""
        ...


def run(
    program: Runner,
    *,
    http_port: int,
    webhook_port: int,
    tls_files: tuple[str, str] | None,
    kubeconfig: str | None,
    context: str | None,
    debug: bool,
) -> int:
    """Run the program until it is stopped, and return the exit code."""

    def start() -> Awaitable[None]:
        return program.run(
            http_port=http_port,
            webhook_port=webhook_port,
            tls_files=tls_files,
            kubeconfig=kubeconfig,
            context=context,
        )

    spare_the_collector()
    try:
        with ended_with_lease(program):
            return asyncio.run(_serve(program, start, debug=debug))
    except KeyboardInterrupt:
        return 1


@contextlib.contextmanager
def ended_with_lease(program: Runner) -> Iterator[None]:
    """While it runs, see to it that the process ends in time if the program loses its Lease."""
    ended = threading.Event()
    threading.Thread(
        target=_end_with_lease, args=(program, ended), name="rws-lease-guard", daemon=True
    ).start()
    try:
        yield
    finally:
        ended.set()


def spare_the_collector() -> None:
    """Take what is there by now, which lasts as long as the process, from the garbage collector.

    Else each of its full rounds, in which all calls wait, looks at every module and class anew.
    """
    gc.collect()
    gc.freeze()


async def _serve(program: Runner, start: Callable[[], Awaitable[None]], *, debug: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        logging.getLogger("rws_operator").info("stopping", extra={"signal": number.name})
        if len(received) == 1:
            program.stop()
            _end_soon(1, program.stop_seconds + AFTER_DRAIN_SECONDS)
        else:
            task.cancel()
            _end_soon(1, EXIT_SECONDS)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    code = 1
    try:
        await start()
        code = 0
    except* OperatorError as group:
        for error in _flat(group):
            tell_failure(error, debug=debug)
    except* Exception as group:
        traceback.print_exception(group)
    except* asyncio.CancelledError:
        pass
    finally:
        # What still hangs in this process, e.g. a handler's thread, does not keep it alive.
        _end_soon(code, EXIT_SECONDS)
    return code


def _end_with_lease(program: Runner, ended: threading.Event) -> None:
    """End a process before its Lease expires, and earlier if controllers are still at work.

    Even while its event loop is blocked.
    """
    while not program.has_lost_lease():
        if ended.wait(_WATCH_SECONDS):
            return
    _end_soon(1, program.expiry_seconds - _WATCH_SECONDS - _TELL_SECONDS)
    time.sleep(LOST_SECONDS)
    if program.is_at_work():
        _end_soon(1, 0.0)


def _end_soon(code: int, seconds: float) -> None:
    """Let the process live so many seconds at most."""

    def tell() -> None:
        logging.getLogger("rws_operator").warning("ending the process: something hangs in it")
        logging.shutdown()

    def end() -> None:
        # Not on this thread: whoever reads the log may be what hangs.
        telling = threading.Thread(target=tell, daemon=True)
        telling.start()
        telling.join(_TELL_SECONDS)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def tell_failure(error: BaseException, *, debug: bool) -> int:
    """Tell about an error in one line, and return the exit code."""
    if debug:
        traceback.print_exception(error)
    say("error: " + " ".join(str(error).split()))
    return 1


def say(line: str) -> None:
    """Tell the user something that is no output of the program's."""
    print(line, file=sys.stderr, flush=True)


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    errors: list[BaseException] = []
    for error in group.exceptions:
        errors += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return errors
