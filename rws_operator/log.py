"""Logging set-up for an operator's process, and loggers that carry context.

A line is a constant message and key=value pairs, or the same as one JSON object. Importing this
module installs nothing: `configure` is called by the command line only, so that a program which
embeds an operator keeps its own logging.

Context comes from `logger(...)`, an adapter that holds e.g. the object a reconcile is about, and
from `extra={...}` of one call. Invariant: what looks like a credential never leaves the process.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    # Generic in the stubs only.
    from collections.abc import Callable, Mapping, MutableMapping

    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter

LEVELS = ("debug", "info", "warning", "error")

_HIDDEN = "***"
_SECRET_KEY = re.compile(
    r"token|password|passwd|secret_?data|authorization|private_?key|api_?key|credential", re.I
)
_WORD = "[A-Za-z0-9_-]"
_SECRET_TEXT = re.compile(
    r"(?P<keep>\b(?:Bearer|Basic) +)[A-Za-z0-9._~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    # A JSON web token. The look-ahead comes first, once a word: others write what is searched, and
    # to try each "eyJ" of a long word up to its end takes a time that is quadratic.
    rf"|(?<!{_WORD})(?={_WORD}++\.{_WORD}++\.)(?P<before>{_WORD}*?)"
    rf"\beyJ{_WORD}{{10,}}\.{_WORD}+\.{_WORD}*",
    re.S,
)
_LONGEST_TRACE = 16_384  # characters
_PLAIN = re.compile(r"[^\s\"=]+")
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "dim": 2}
_OF_LEVEL = {"DEBUG": "dim", "INFO": "green", "WARNING": "yellow"}  # what is worse is red
_NOISE = frozenset({"reconcile_id"})  # of no use to one pair of eyes
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "context"}


class ContextLogger(_LoggerAdapter):
    """A logger whose lines carry context; `extra` of a call adds to it."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the context into one attribute of the record: `name` is taken there already."""
        context = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        kwargs["extra"] = {"context": context}
        return msg, kwargs

    def bind(self, **context: object) -> ContextLogger:
        """A logger with more context."""
        return ContextLogger(self.logger, {**(self.extra or {}), **context})


def logger(area: str, **context: object) -> ContextLogger:
    """A logger that carries context.

    Args:
        area: The part of the runtime, or of the user's program, e.g. ``controller``.
        context: For a reconcile: ``controller``, ``namespace``, ``name``, ``reconcile_id``.
    """
    return ContextLogger(logging.getLogger(f"rws_operator.{area}"), context)


def configure(
    level: str = "info",
    format: Literal["text", "json", "console"] = "text",  # noqa: A002
    *,
    stream: TextIO | None = None,
) -> None:
    """Send the process's log to a stream; a second call replaces the first.

    Args:
        level: One of debug, info, warning, error; in any case.
        format: ``text`` for people, ``json`` for machines, ``console`` for who watches it run:
            short and, on a terminal, coloured.
        stream: Default standard error.

    Raises:
        ConfigurationError: No such level or format.
    """
    if level.lower() not in LEVELS:
        raise ConfigurationError(f"log level {level!r}", remedy=f"use one of {', '.join(LEVELS)}")
    if format not in _FORMATTERS:
        raise ConfigurationError(f"log format {format!r}", remedy="use text, json or console")
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Handler):
            root.removeHandler(handler)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[format](handler.stream))
    root.addHandler(handler)
    root.setLevel(level.upper())


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `configure`, told from handlers of others by its class."""


class TextFormatter(logging.Formatter):
    """One line: time, level, logger, message, key=value pairs; a traceback follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        parts = [_time(record), record.levelname, record.name, record.getMessage()]
        parts += [f"{key}={_word(value)}" for key, value in _context(record).items()]
        lines = [" ".join(parts), *_trace(self, record)]
        return redact("\n".join(lines))


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for key, value in _context(record).items():
            plain = value is None or isinstance(value, bool | int | float)
            fields.setdefault(key, value if plain else redact(str(value)))
        trace = _trace(self, record)
        if trace:
            fields["trace"] = redact("\n".join(trace))
        return json.dumps(fields, ensure_ascii=False)


class ConsoleFormatter(logging.Formatter):
    """One short line in local time, with colours if asked for; a traceback follows."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._paint = paint if colour else _plain

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")  # noqa: DTZ006
        colour = _OF_LEVEL.get(record.levelname, "red")
        area = record.name.removeprefix("rws_operator.")
        message = record.getMessage()
        parts = [
            self._paint(f"{moment}.{int(record.msecs):03d}", "dim"),
            self._paint(f"{record.levelname:<7}", colour),
            self._paint(area, "cyan"),
            self._paint(message, colour) if record.levelno >= logging.WARNING else message,
        ]
        parts += [
            self._paint(f"{key}=", "dim") + _word(value)
            for key, value in _context(record).items()
            if key not in _NOISE
        ]
        trace = [self._paint(text, "red") for text in _trace(self, record)]
        return redact("\n".join([" ".join(parts), *trace]))


def has_colour(stream: TextIO) -> bool:
    """Whether colours are wanted there: on a terminal, unless NO_COLOR says no."""
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_wanted and stream.isatty()


def paint(text: str, colour: str) -> str:
    """Put text between the marks of a colour: red, green, yellow, cyan or dim."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _plain(text: str, _: str) -> str:
    return text


_FORMATTERS: Mapping[str, Callable[[TextIO], logging.Formatter]] = {
    "text": lambda _: TextFormatter(),
    "json": lambda _: JsonFormatter(),
    "console": lambda stream: ConsoleFormatter(colour=has_colour(stream)),
}


def redact(text: str) -> str:
    """Blank out what looks like a credential: bearer tokens, JSON web tokens, private keys."""
    return _SECRET_TEXT.sub(lambda found: (found["keep"] or found["before"] or "") + _HIDDEN, text)


def _context(record: logging.LogRecord) -> dict[str, object]:
    """The record's context: the adapter's, and what a plain logger was given as `extra`."""
    context = dict(getattr(record, "context", None) or {})
    if len(record.__dict__) > len(_STANDARD) - 3:
        context |= {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
    return {k: _HIDDEN if _SECRET_KEY.search(k) else v for k, v in context.items()}


def _word(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    lines = []
    if record.exc_info:
        lines.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        lines.append(formatter.formatStack(record.stack_info))
    return [_shortened(line) for line in lines]


def _shortened(trace: str) -> str:
    """A traceback without its middle where it is long: an error's text may be of any length."""
    if len(trace) <= _LONGEST_TRACE:
        return trace
    whole = redact(trace)  # what looks like a credential is known by its beginning
    half = _LONGEST_TRACE // 2
    return f"{whole[:half]}\n... ({len(whole)} characters) ...\n{whole[-half:]}"
