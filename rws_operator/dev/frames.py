"""What of a call stack is the program's own: all that its author can mend.

an error of our own tree    what and the remedy, below the program's own lines that led to it
any other error             its traceback, from where the program begins
an import that hangs        the innermost line of the program
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from rws_operator.dev.console import tell, tell_trouble
from rws_operator.dev.sources import is_installed
from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from types import FrameType

IMPORT_SECONDS = 5.0
"""How long an import may take before it is told where it is."""

_importing: threading.Timer | None = None


def tell_error(error: BaseException, *, debug: bool = False) -> None:
    """Tell of an error of the program.

    Args:
        error: What it raised.
        debug: Whether every error shows its traceback.
    """
    frame = error.__traceback__
    while frame is not None and is_installed(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    error = error.with_traceback(frame or error.__traceback__)
    if debug or not isinstance(error, OperatorError):
        tell_trouble("".join(traceback.format_exception(error)))
        return
    own = [each for each in traceback.extract_tb(frame) if not is_installed(each.filename)]
    tell_trouble("".join(traceback.format_list(own)) + f"error: {error}")


def begin_import() -> None:
    """Tell where this thread is unless `end_import` is called in time."""
    global _importing
    thread = threading.get_ident()

    def tell_where() -> None:
        place = _place(sys._current_frames().get(thread))
        tell(f"the program is still being imported after {IMPORT_SECONDS:g} s{place}", "yellow")

    _importing = threading.Timer(IMPORT_SECONDS, tell_where)
    _importing.daemon = True
    _importing.start()


def end_import() -> bool:
    """Note that the program was imported, or failed to be; return whether that was known."""
    global _importing
    if _importing is None:
        return True
    _importing.cancel()
    _importing = None
    return False


def _place(frame: FrameType | None) -> str:
    """The innermost line of the program, below all that it called."""
    if frame is not None:
        for each in reversed(traceback.extract_stack(frame)):
            if not is_installed(each.filename):
                return f": it is at {os.path.relpath(each.filename)}:{each.lineno}, {each.line}"
    return ""
