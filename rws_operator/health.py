"""Named checks behind /livez and /readyz, and what they mean.

Readiness: may traffic (webhooks) be sent here? It waits for the first sync, which latches: a
watch that fails afterwards is a note in `?verbose`, so that a permission hiccup never takes the
webhooks away. Liveness: is a restart needed? Only a dead task, or threads that all hang, say so; if
the loop hangs, the probe gets no answer at all, which kubelet counts the same.

Invariant: a check says why it fails, in words a person can act on, and is bounded in time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from rws_operator.errors import ConfigurationError

_T = TypeVar("_T")

Check = Callable[[], "Awaitable[str | None] | str | None"]
"""Returns (or resolves to) None if all is well, else why not. It must not block."""

Note = Callable[[], Iterable[str]]
"""Returns lines worth knowing that fail nothing."""

CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks of one endpoint said.

    Args:
        endpoint: ``livez`` or ``readyz``.
        results: Reason of failure by check, None where it passed.
        notes: Lines for `?verbose`.
    """

    endpoint: str
    results: dict[str, str | None]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(reason is None for reason in self.results.values())

    def text(self, *, verbose: bool = False) -> str:
        """The answer's body: ``ok``, or what fails; verbose: every check, and the notes."""
        if self.ok and not verbose:
            return "ok\n"
        lines = [
            f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}"
            for name, reason in self.results.items()
            if verbose or reason is not None
        ]
        if verbose:
            lines += [f"[i]{note}" for note in self.notes]
        lines.append(f"{self.endpoint} check {'passed' if self.ok else 'failed'}")
        return "\n".join(lines) + "\n"


class Health:
    """The checks of one process.

    Args:
        check_seconds: Seconds after which a check counts as failed.
    """

    def __init__(self, *, check_seconds: float = CHECK_SECONDS) -> None:
        self._check_seconds = check_seconds
        self._readiness: dict[str, Check] = {}
        self._liveness: dict[str, Check] = {}
        self._notes: dict[str, Note] = {}
        self._draining = False

    def add_readiness(self, name: str, check: Check) -> None:
        """Let /readyz fail while `check` does.

        Raises:
            ConfigurationError: A check of that name exists.
        """
        _add(self._readiness, name, check)

    def add_liveness(self, name: str, check: Check) -> None:
        """Let /livez fail while `check` does.

        Raises:
            ConfigurationError: A check of that name exists.
        """
        _add(self._liveness, name, check)

    def add_note(self, name: str, note: Note) -> None:
        """Show lines at ``?verbose`` that fail nothing, each after `name`.

        Raises:
            ConfigurationError: A note of that name exists.
        """
        _add(self._notes, name, note)

    def drain(self) -> None:
        """Fail readiness from now on: this process is on its way out."""
        self._draining = True

    async def livez(self, exclude: Collection[str] = ()) -> Report:
        """Whether the process is worth keeping."""
        return await self._report("livez", self._liveness, exclude)

    async def readyz(self, exclude: Collection[str] = ()) -> Report:
        """Whether traffic may be sent to the process."""
        checks = dict(self._readiness)
        if self._draining:
            checks["shutdown"] = lambda: "the process is stopping"
        return await self._report("readyz", checks, exclude)

    async def _report(
        self, endpoint: str, checks: dict[str, Check], exclude: Collection[str]
    ) -> Report:
        asked = {name: check for name, check in checks.items() if name not in exclude}
        reasons = await asyncio.gather(*(self._ask(check) for check in asked.values()))
        notes = [f"{name}: {line}" for name, note in self._notes.items() for line in _lines(note)]
        notes += [f"excluded: {name}" for name in exclude if name in checks]
        notes += [f"no such check to exclude: {name}" for name in exclude if name not in checks]
        return Report(endpoint, dict(zip(asked, reasons, strict=True)), tuple(notes))

    async def _ask(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(self._check_seconds):
                answer = check()
                return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            return f"gave no answer within {self._check_seconds:g} s"
        except Exception as error:  # a broken check is a failed one, not a broken page
            return f"raised {error!r}"


class FirstSync:
    """The readiness check that passes for good once everything was synced.

    Args:
        unsynced: Returns what is not synced, each with its reason; empty once all is.
    """

    def __init__(self, unsynced: Callable[[], Collection[str]]) -> None:
        self._unsynced = unsynced
        self._passed = False

    def __call__(self) -> str | None:
        """None once passed, else what is missing and why."""
        if not self._passed:
            missing = self._unsynced()
            if missing:
                return f"not synced: {'; '.join(missing)}"
            self._passed = True
        return None


def task_is_alive(task: asyncio.Task[object]) -> Check:
    """A liveness check that fails when a task which should run for ever has ended."""

    def check() -> str | None:
        if not task.done():
            return None
        if task.cancelled():
            return "its task was cancelled"
        error = task.exception()
        return f"its task ended: {error!r}" if error else "its task ended"

    return check


def _add(known: dict[str, _T], name: str, thing: _T) -> None:
    if name in known:
        raise ConfigurationError(f"health check {name!r} exists", remedy="give it another name")
    known[name] = thing


def _lines(note: Note) -> list[str]:
    try:
        return list(note())
    except Exception as error:  # as for a check
        return [f"raised {error!r}"]
