"""A line that must come out now does, whatever holds up the log or the threads."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from rws_operator.log import configure
from rws_operator.log_in_time import in_time, log_in_time
from rws_operator.whereabouts import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("rws_operator.in_time")


class Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Hands each line to a function; the only handler of a log of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.function: Callable[[], object] = lambda: None
        self.log = logging.Logger("rws_operator.in_time")
        self.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write nothing."""
        self.function()


@pytest.fixture
def handler() -> Handler:
    """One for a test."""
    return Handler()


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a thread's error is printed."""
    printed = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: printed.set())
    return printed


def fail() -> None:
    """Raise something."""
    raise ZeroDivisionError("a bug")


def test_the_runtimes_own_log_is_told_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that writes itself needs nothing beside it."""
    monkeypatch.setattr("rws_operator.log_in_time._LOG_SECONDS", 30)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = []
    configure("info", "text", stream=os.fdopen(os.dup(2), "w"))
    try:
        log_in_time(log, logging.WARNING, "a line")
    finally:
        root.handlers[0].stream.close()  # type: ignore[attr-defined]
        root.handlers[:] = before
        root.setLevel(level)
    assert capfd.readouterr().err.count("a line") == 1


def test_a_thread_that_does_not_get_to_run_is_not_waited_for(
    handler: Handler, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C code that keeps the interpreter's lock may hold it up for as long as it likes."""
    monkeypatch.setattr("_thread.start_new_thread", lambda *_: 0)
    log_in_time(handler.log, logging.WARNING, "a line %s", "of two words")
    assert "a line of two words" in capfd.readouterr().err


def test_a_handler_that_hangs_is_not_waited_for(
    handler: Handler, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it should have written is, and not by it."""
    goes_on = threading.Event()
    handler.function = lambda: goes_on.wait(60)
    log_in_time(handler.log, logging.WARNING, "a line")
    goes_on.set()
    assert capfd.readouterr().err.count("a line") == 1


def test_what_a_handler_fails_to_write_comes_out(
    handler: Handler, printed: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error is no sign that the line was handled."""
    handler.function = fail
    log_in_time(handler.log, logging.WARNING, "a line")
    assert " WARNING rws_operator.in_time a line\n" in capfd.readouterr().err
    assert printed.wait(30)


def test_a_long_line_comes_out_whole(
    handler: Handler, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack may be longer than what a pipe takes at a time."""
    monkeypatch.setattr("_thread.start_new_thread", lambda *_: 0)
    log_in_time(handler.log, logging.WARNING, "%s the end", "x" * 20_000)
    assert f"{'x' * 20_000} the end" in capfd.readouterr().err


def test_a_call_that_raises_has_not_returned(printed: threading.Event) -> None:
    """What it raises is printed, as that of any thread, and no business of the caller's."""
    assert not in_time(0.1, fail)
    assert printed.wait(30)
    assert in_time(30, len, "abc")
    assert not in_time(0.01, time.sleep, 1)


def test_a_stack_is_read_where_it_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it names file, line and function, and nothing waits for a file."""
    monkeypatch.setattr("rws_operator.log_in_time._LOG_SECONDS", 30)
    stack = stack_of(threading.get_ident())
    assert ", in test_a_stack_is_read_where_it_is_logged" in str(stack)
    assert "stack = stack_of(threading.get_ident())" not in str(stack)
    log_in_time(log, logging.DEBUG - 1, "%s", stack)
    assert "stack = stack_of(threading.get_ident())" not in str(stack)
    log_in_time(log, logging.CRITICAL, "%s", stack)
    assert "stack = stack_of(threading.get_ident())" in str(stack)
    assert str(stack_of(-1)) == "(the thread has ended)"
