"""Runs a program's Operator as a process: signals, exit code, and an end in bounded time.

Whatever hangs in it, a process that ought to end does (D: `Runner.stop_seconds`, the drain; the
seconds are those of `guard`, whose thread sees to it; what is on the event loop could not where
the loop itself is blocked):

    what happens                             the process has ended          exit code
    the program ends by itself               EXIT_SECONDS later             0, or 1 if it failed
    SIGTERM or SIGINT                        D + AFTER_DRAIN_SECONDS later  0, or 1 if it had to be
    another one                              CUT_SECONDS later              1
    a signal once the work is over           at once                        that of the work
    the Lease is lost: controllers, or       LOST_SECONDS later             1
                       handlers they left,
                       are at work then
                       else                  before it expires              1
    the loop is dead                         within 20 s                    1

A SystemExit that the program raises, wherever, ends no process (see `exits`): it fails the run or
the part that it was raised in.

Each of them holds whatever came before, so the earliest counts; each takes up to 0.6 s more where
the log is not read. C code that keeps the interpreter's lock stops every thread. Where one call
after another does, the guard gets to run in between, and each of its few waits takes a call or two
longer; while one keeps it for good nothing holds, and the liveness probe has to do.

After a second signal, a Lease that is not released in CUT_SECONDS expires. Before a lost Lease
expires nobody else leads, unless it was taken by force: until then webhooks are answered, as at a
clean stop, and what nobody can see from here, e.g. a thread that a handler started, may go on. A
process that was stopped until after that ends as soon as it goes on. A handler that hangs must not
go on beside those of the next leader; one that a debugger holds does not go on, so that it may lose
the Lease and stay. A dead loop answers neither webhooks nor probes, with or without an election,
and the kubelet would take half a minute to find out and as long again to end it.

The loop's default executor is `controller.executor`'s, so that a run lasts as long as what its
handler gave to threads.

`dev` uses that and the guard alone: there the fork server kills what does not stop, and no loop is
dead, since somebody may look into it with a debugger.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import traceback
from typing import TYPE_CHECKING, Protocol

from rws_operator import exits
from rws_operator.controller.executor import HandlerExecutor
from rws_operator.controller.outcome import leaves_of
from rws_operator.errors import OperatorError
from rws_operator.guard import Guard, Guarded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Runner(Guarded, Protocol):
    """What a process needs of an Operator."""

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
        return exits.run(_serve(program, start, debug=debug))
    except KeyboardInterrupt:
        return 1


def spare_the_collector() -> None:
    """Take what is there by now, which lasts as long as the process, from the garbage collector.

    Else each of its full rounds, in which all calls wait, looks at every module and class anew.
    """
    gc.collect()
    gc.freeze()


async def _serve(program: Runner, start: Callable[[], Awaitable[None]], *, debug: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().set_default_executor(HandlerExecutor())
    code, is_cut = 1, False

    def cut() -> None:
        nonlocal is_cut
        is_cut = True
        task.cancel()

    with Guard(program) as guard:
        guard.heed_signals(cut)
        try:
            await start()
            code = 0
        except* OperatorError as group:
            for error in leaves_of(group):
                tell_failure(error, debug=debug)
        except* asyncio.CancelledError:
            if not is_cut:
                tell_failure(_cancelled(), debug=debug)
        except* BaseException as group:  # SystemExit too
            traceback.print_exception(group)
        finally:
            guard.leave(code)
    return code


def _cancelled() -> OperatorError:
    return OperatorError(
        "the operator's own task was cancelled from within",
        remedy="a handler must not cancel what it did not start, e.g. all of asyncio.all_tasks()",
    )


def tell_failure(error: BaseException, *, debug: bool) -> int:
    """Tell about an error in one line, and return the exit code."""
    if debug:
        traceback.print_exception(error)
    say("error: " + " ".join(str(error).split()))
    return 1


def say(line: str) -> None:
    """Tell the user something that is no output of the program's."""
    print(line, file=sys.stderr, flush=True)
