"""What a log line looks like, and what never stands in one."""

import io
import json
import logging
import re
import subprocess
import sys
from time import process_time
from typing import Literal

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.log import LEVELS, configure, logger, redact


@pytest.fixture(autouse=True)
def _restore_logging():
    """Leave the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


Style = Literal["text", "json", "console"]


def lines(style: Style, *, level: str = "info") -> io.StringIO:
    """Set logging up; what is logged can be read from what this returns."""
    stream = io.StringIO()
    configure(level, style, stream=stream)
    return stream


def test_a_line_is_a_constant_message_and_pairs() -> None:
    """Time in UTC, level, logger, message, then key=value; words with blanks are quoted."""
    stream = lines("text")
    logger("test", controller="Backup", namespace="ns", name="b1").info(
        "event sent", extra={"reason": "It works", "attempt": 2}
    )
    time, rest = stream.getvalue().rstrip("\n").split(" ", 1)
    assert time.endswith("Z")
    assert len(time) == len("2026-01-01T00:00:00.000Z")
    assert rest == (
        "INFO rws_operator.test event sent controller=Backup namespace=ns name=b1 "
        'reason="It works" attempt=2'
    )


def test_a_json_line_holds_the_same() -> None:
    """Numbers stay numbers; a traceback is one field, so that a line is an event."""
    stream = lines("json")
    try:
        raise ValueError("no")
    except ValueError:
        logger("test", controller="Backup").bind(name="b1").exception(
            "reconcile failed", extra={"attempt": 2, "key": ("a", "b")}
        )
    line = json.loads(stream.getvalue())
    assert line.pop("trace").endswith("ValueError: no")
    assert line.pop("time")
    assert line == {
        "level": "error",
        "logger": "rws_operator.test",
        "message": "reconcile failed",
        "controller": "Backup",
        "name": "b1",
        "attempt": 2,
        "key": "('a', 'b')",
    }


def test_context_never_replaces_the_lines_own_fields() -> None:
    """An object's name is not the logger's, and a message stays the message."""
    stream = lines("json")
    logger("test", message="x", level="y").info("hello")
    line = json.loads(stream.getvalue())
    assert (line["message"], line["level"]) == ("hello", "info")


def test_extra_of_a_plain_logger_is_shown_too() -> None:
    """The user's own loggers need no adapter."""
    stream = lines("text")
    logging.getLogger("app").warning("slow", extra={"seconds": 3})
    assert stream.getvalue().endswith("WARNING app slow seconds=3\n")


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abcdefghijklmnop",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        "eyJhbGciOiJSUzI1NiIsIm.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
        "token-eyJhbGciOiJSUzI1NiIsIm.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIabcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIabcdefghijklmnop",
    ],
)
def test_credentials_never_stand_in_a_line(style: Style, secret: str) -> None:
    """Neither in the message, nor in a value, nor in a traceback."""
    stream = lines(style)
    body = secret.split("\n")[1] if "\n" in secret else secret.split()[-1]
    try:
        raise ValueError(secret)
    except ValueError:
        logger("test", header=secret).exception("failed: %s", secret)
    assert "***" in stream.getvalue()
    assert body not in stream.getvalue()


@pytest.mark.parametrize("style", ["text", "json", "console"])
def test_a_traceback_is_bounded(style: Style) -> None:
    """It shows its beginning and its end; a credential that the cut goes through stays hidden."""
    stream = lines(style)
    key = "-----BEGIN PRIVATE KEY-----" + "MIIabcdef" * 500_000 + "-----END PRIVATE KEY-----"
    try:
        raise ValueError("x" * 1_000_000 + key + "y" * 1_000_000 + "the end")
    except ValueError:
        logger("test").exception("failed")
    written = stream.getvalue()
    assert len(written) < 20_000
    assert "Traceback" in written
    assert "the end" in written
    assert "MIIabcdef" not in written
    stream.truncate(0)
    try:
        raise ValueError("x" * 10_000 + key)
    except ValueError:
        logger("test").exception("failed")
    assert "MIIabcdef" not in stream.getvalue()


@pytest.mark.parametrize(
    "repeated",
    [
        "eyJaaaaaaaaaa-",
        "eyJaaaaaaaaaa.",
        "-eyJaaaaaaaaaa-a.",
        "Basic        ",
        "-----BEGIN ",
        "-----END ",
        "-----BEGIN PRIVATE KEY",
    ],
)
@pytest.mark.parametrize("first", ["", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaa."])
def test_the_search_for_credentials_is_quick(first: str, repeated: str) -> None:
    """Whatever others wrote: an error that quotes a field of 1 MB must not block the event loop."""
    text = first + repeated * (1_000_000 // len(repeated))
    began = process_time()
    redact(text)
    assert process_time() - began < 10  # a minute, were it quadratic


def test_what_stands_before_a_token_is_kept() -> None:
    """Only the token is hidden, in a word with others too."""
    token = "eyJhbGciOiJSUzI1NiIsIm.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    assert redact(f"a.b.c key-{token}, {token} x") == "a.b.c key-***, *** x"


def test_values_under_telling_names_are_hidden() -> None:
    """A token needs no recognisable form to be hidden."""
    stream = lines("text")
    logger("test", token="hunter2", db_password="hunter2").info("x", extra={"api_key": "hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert "token=***" in stream.getvalue()


def test_redaction_keeps_ordinary_text() -> None:
    """Words about credentials are no credentials."""
    text = "Bearer token refused; basic check failed for secret ns/name"
    assert redact(text) == text


def test_the_level_holds() -> None:
    """Below the level nothing is written, at it everything is."""
    stream = lines("text", level="WARNING")
    logger("test").info("no")
    logger("test").warning("yes")
    assert "no" not in stream.getvalue()
    assert "yes" in stream.getvalue()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_the_console_has_short_lines() -> None:
    """Local time, the area alone, no reconcile's id; no marks where no terminal is."""
    stream = lines("console")
    logger("watch", kind="Backup", reconcile_id="0123").warning("failed", extra={"why": "a b"})
    line = stream.getvalue()
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.\d{3} WARNING watch failed kind=Backup why="a b"\n', line)


@pytest.mark.parametrize(
    ("variable", "value", "coloured"),
    [("NO_COLOR", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)],
)
def test_a_terminal_is_coloured_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, coloured: bool
) -> None:
    """Levels differ by colour; a traceback is red; credentials are hidden all the same."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    stream = Terminal()
    configure("info", "console", stream=stream)
    try:
        raise ValueError("Bearer abcdefghijkl")
    except ValueError:
        logging.getLogger("app").exception("it failed")
    assert ("\x1b[31mERROR  \x1b[0m" in stream.getvalue()) is coloured
    assert ("\x1b[31mTraceback" in stream.getvalue()) is coloured
    assert "Bearer ***" in stream.getvalue()


def test_a_second_set_up_replaces_the_first() -> None:
    """No line is written twice, and foreign handlers stay."""
    foreign = logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    first, second = lines("text"), lines("text")
    logger("test").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
    assert foreign in logging.getLogger().handlers


@pytest.mark.parametrize(("level", "style"), [("loud", "text"), ("info", "xml")])
def test_unknown_settings_are_refused(level: str, style: Style) -> None:
    """The message names the setting and what is allowed."""
    with pytest.raises(ConfigurationError, match="use "):
        configure(level, style)


def test_levels_are_those_of_logging() -> None:
    """Each name is one that the standard library knows."""
    assert all(isinstance(logging.getLevelName(level.upper()), int) for level in LEVELS)


def test_importing_installs_no_handler() -> None:
    """A program that embeds the runtime keeps its own logging."""
    code = "import rws_operator.log, logging; print(logging.getLogger().handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
