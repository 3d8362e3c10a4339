"""What the session says on the terminal, between the lines of the program's own log."""

from __future__ import annotations

import contextlib
import sys

from rws_operator.log import has_colour, paint


def tell(text: str, colour: str = "cyan") -> None:
    """Say something on standard error, marked as the session's."""
    lines = [f"▸ {line}" for line in text.splitlines()]
    _write("\n".join(lines), colour)


def tell_trouble(text: str) -> None:
    """Say in red what is wrong with the program, as it is: it may be a traceback."""
    _write(text.rstrip("\n"), "red")


def _write(text: str, colour: str) -> None:
    if has_colour(sys.stderr):
        text = paint(text, colour)
    # In one piece, for two processes write here. An old encoding need not have the mark.
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # nobody reads it any more
        sys.stderr.write(f"{text}\n".encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()
