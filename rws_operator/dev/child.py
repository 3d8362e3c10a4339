"""The process that runs the user's program: forked, with the runtime imported and nothing else.

    fork → the program is imported as `__main__` → it calls `Operator.main` → the command `dev`
    finds a Job here → `develop` installs what changed and runs the Operator as its ServiceAccount

Invariant: whatever the program does, its process ends with an exit code and a word of why.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import logging
import math
import os
import runpy
import signal
import sys
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import aiohttp
import msgspec

from rws_operator import exits
from rws_operator.client import client
from rws_operator.controller.executor import HandlerExecutor
from rws_operator.controller.outcome import leaves_of
from rws_operator.dev import install
from rws_operator.dev.account import Account
from rws_operator.dev.console import tell, tell_trouble
from rws_operator.dev.frames import begin_import, end_import, tell_error
from rws_operator.dev.job import Event, Job
from rws_operator.dev.refusal import Refused
from rws_operator.dev.sources import sources_of
from rws_operator.guard import Guard

if TYPE_CHECKING:
    from rws_operator.dev.program import DevelopedProgram

_READY_SECONDS = 5.0
_EVERY_SECONDS = 0.02

_run: tuple[Job, int] | None = None
"""What this process is for, and where it tells of it; None in any other process."""


def run_program(job: Job, events: int) -> NoReturn:
    """Run the program as `__main__`, and end the process with its exit code."""
    global _run
    _run = job, events
    begin_import()
    code = [1]
    atexit.register(_end_at_once, code)  # after all that the program registers
    code[0] = _run_as_main(job)
    sys.exit(code[0])


def _end_at_once(code: list[int]) -> None:
    """Leave out the end of the interpreter: to free what the fork shares takes 0.3 s."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed already
            stream.flush()
    os._exit(code[0])


def _run_as_main(job: Job) -> int:
    sys.argv = list(job.argv)
    # Two saves of one size within a second would find the first one's.
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        if job.module is not None:
            runpy.run_module(job.module, run_name="__main__", alter_sys=True)
        elif job.script is not None:
            runpy.run_path(job.script, run_name="__main__")
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as error:  # the session goes on
        tell_error(error, debug="--debug" in job.argv)
        tell_loaded()
        return 1
    tell_trouble("the program ended without calling Operator.main()")
    tell_loaded()
    return 1


def is_this_process() -> bool:
    """Whether a session started this process to run the program."""
    return _run is not None


def report(events: int, event: Event) -> None:
    """Tell the session what became of the run."""
    with contextlib.suppress(BrokenPipeError):  # it has died; then this process ends soon
        # The one before may have been killed in the middle of its line.
        os.write(events, b"\n" + msgspec.json.encode(event) + b"\n")


def tell_loaded() -> None:
    """Tell the session what to watch."""
    assert _run is not None
    end_import()
    found = sources_of(sys.modules)
    report(_run[1], Event("loaded", packages=sorted(found.packages), folders=sorted(found.folders)))


def develop(program: DevelopedProgram, *, debug: bool) -> int:
    """Install what changed, and run the program until it is stopped; return the exit code.

    Args:
        program: The Operator.
        debug: Whether every error shows its traceback.
    """
    assert _run is not None
    tell_loaded()
    try:
        exits.run(_Run(program, *_run).run())
    except (Exception, SystemExit) as error:  # which fails a run, as in `process`
        for each in leaves_of(error):
            tell_error(each, debug=debug)
            if isinstance(each, Refused):
                report(_run[1], Event("refused"))
        return 1
    return 0


class _Run:
    """One run of a program, with what comes before it."""

    def __init__(self, program: DevelopedProgram, job: Job, events: int) -> None:
        self._program = program
        self._job = job
        self._events = events
        self._errors = _Errors(logging.WARNING)

    async def run(self) -> None:
        """Install and run; return once SIGTERM asked for it."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.set_default_executor(HandlerExecutor())
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            account = await self._install()
            own = await client(self._job.account)
        except asyncio.CancelledError:
            return
        logging.getLogger().addHandler(self._errors)
        async with own:
            running = self._program.for_development(own, alone=self._job.alone)
            loop.add_signal_handler(signal.SIGTERM, running.stop)
            beside = [
                asyncio.create_task(self._tell_when_ready(running)),
                asyncio.create_task(account.keep(self._job.cluster.connect)),
            ]
            try:
                with Guard(running, dead_seconds=None):  # a debugger may hold it
                    await running.run(
                        http_port=self._job.http_port,
                        webhook_port=self._job.webhook_port,
                        tls_files=(self._job.cert_file, self._job.key_file),
                        kubeconfig=None,
                        context=None,
                    )
            finally:
                for each in beside:
                    each.cancel()

    async def _install(self) -> Account:
        """Install what changed, and write how to reach the cluster as its ServiceAccount."""
        job, program = self._job, self._program
        program.check_complete()
        manifests = program.manifests(
            namespace=None, image=None, replicas=1, webhook_url=job.webhook_url
        )
        documents = install.needed(manifests, job.ca_pem)
        account = Account(documents, Path(job.account))
        async with await job.cluster.connect() as admin:
            memory = Path(job.installed)
            done = await install.install(admin, documents, memory, alone=job.alone)
            for what, names in (("applied", done.applied), ("deleted", done.deleted)):
                if names:
                    tell(f"{what} {', '.join(names)}")
            await account.write(admin)
        return account

    async def _tell_when_ready(self, running: DevelopedProgram) -> None:
        """Tell the session; tell the user what is missing where it takes long."""
        loop = asyncio.get_running_loop()
        tell_at = loop.time() + _READY_SECONDS
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session:
            while (missing := await _missing(session, running)) is not None:
                if loop.time() >= tell_at:
                    tell(f"not ready so far:\n{missing.rstrip()}", "yellow")
                    tell_at = math.inf
                await asyncio.sleep(_EVERY_SECONDS)
        report(self._events, Event("running", has_failed=self._errors.are_there))


class _Errors(logging.Handler):
    """Notices whether anything was logged that ought not to be."""

    are_there = False

    def emit(self, record: logging.LogRecord) -> None:
        """Notice it."""
        self.are_there = True


async def _missing(session: aiohttp.ClientSession, running: DevelopedProgram) -> str | None:
    """What keeps it from its work; None if nothing does."""
    try:
        async with session.get(f"http://127.0.0.1:{running.http_port}/readyz?verbose") as answer:
            if answer.status != HTTPStatus.OK:
                return await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"/readyz does not answer: {error!r}"
    if not running.is_leading():
        return "another replica holds the Lease; this one reconciles once that is free"
    return None


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    tell_trouble(str(end.code))
    return 1
