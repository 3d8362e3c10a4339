"""Where a thread stands, told by another one: which function holds it up, and for what.

The runtime says in `handling` what it calls the author's code for; tasks that the author starts
inherit it. Read from outside, since the thread itself can't tell while it is held up; and, by
`raised_in`, from an error that an event loop let out, since its callback is over then.

Invariant: a look changes nothing, and fails in nothing: what can't be found is left out.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import TypeAlias

    _Places: TypeAlias = list[tuple[FrameType, int]]

handling: ContextVar[Mapping[str, object]] = ContextVar("rws_handling")
"""What the code that runs is about, as key and value for the log, e.g. controller and object."""

# What stands between the event loop and an author's function.
_BETWEEN = frozenset({"rws_operator", "asyncio", "aiohttp", "pydantic", "prometheus_client"})
_DEBUGGERS = frozenset({"bdb", "pdb", "pydevd", "debugpy"})


class Stack:
    """Calls of a thread, as they stood; without their source until it is read.

    To read it takes long where the interpreter's lock is kept: that gives it up, file for file.

    Args:
        frames: The calls, the outermost first; held until the source is read.
    """

    def __init__(self, frames: Sequence[FrameType]) -> None:
        self._places = [(frame, frame.f_lineno) for frame in frames]
        self._text = _bare_text(self._places) or "(the thread has ended)"

    def read(self) -> None:
        """Read the source; what can't be read is left out."""
        if self._places:
            self._text = _text(self._places)
            self._places = []

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a thread stands.

    Args:
        function: The author's function that was called, with its module; where there is none,
            the innermost one.
        place: File and line that it stands at.
        about: What it is called for, see `handling`.
        stack: From the callback of the event loop to the innermost call.
        is_debugged: Whether a debugger holds the thread.
    """

    function: str
    place: str
    about: Mapping[str, object]
    stack: Stack
    is_debugged: bool


def depth() -> int:
    """How many calls deep the caller is; any callback of one event loop is as deep."""
    return len(_frames(sys._getframe(1))) - 1


def find(thread: int, depth: int | None) -> Whereabouts | None:
    """Where a thread with an event loop stands; None if nothing on the loop runs just now.

    Args:
        thread: Its identifier.
        depth: How deep a callback of its loop is; None if that is not known, but one runs.
    """
    frames = _frames(sys._current_frames().get(thread))
    if depth is None:
        depth = _depth_of_callback(frames)
    called = frames[depth:]
    if not called:
        return None
    theirs = [frame for frame in called if _package(frame) not in _BETWEEN]
    frame = theirs[0] if theirs else called[-1]
    return Whereabouts(
        function=f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}",
        place=f"{frame.f_code.co_filename}:{frame.f_lineno}",
        about=_about(frames[depth - 1]) if depth else {},
        stack=Stack(called),
        is_debugged=_has_debugger(called),
    )


def is_debugged(thread: int) -> bool:
    """Whether a debugger holds what a thread's event loop runs."""
    frames = _frames(sys._current_frames().get(thread))
    return _has_debugger(frames[_depth_of_callback(frames) :])


def stack_of(thread: int) -> Stack:
    """The whole stack of a thread, by its identifier."""
    return Stack(_frames(sys._current_frames().get(thread)))


def raised_in(error: BaseException) -> Mapping[str, object]:
    """What the callback was about that let an error out of its event loop, and its task's name."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        handle = frame.f_locals.get("self")
        if isinstance(handle, asyncio.Handle):
            task = getattr(getattr(handle, "_callback", None), "__self__", None)
            named = {"task": task.get_name()} if isinstance(task, asyncio.Task) else {}
            return {**_about(frame), **named}
    return {}


def _frames(innermost: FrameType | None) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_stack(innermost)][::-1] if innermost else []


def _depth_of_callback(frames: list[FrameType]) -> int:
    """Behind asyncio's innermost call; 0 without any."""
    return max((n for n, frame in enumerate(frames, 1) if _package(frame) == "asyncio"), default=0)


def _has_debugger(called: list[FrameType]) -> bool:
    return any(_package(frame) in _DEBUGGERS for frame in called)


def _text(places: _Places) -> str:
    try:
        return "".join(traceback.StackSummary.extract(places).format()).rstrip()
    except Exception:  # a module's loader, which is asked for its source, may raise anything
        return _bare_text(places)


def _bare_text(places: _Places) -> str:
    return "\n".join(
        f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
        for frame, line in places
    )


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _about(caller: FrameType) -> Mapping[str, object]:
    """What the running callback is about: `asyncio.Handle`, which calls it, has its context."""
    context = getattr(caller.f_locals.get("self"), "_context", None)
    return context.get(handling, {}) if isinstance(context, Context) else {}
