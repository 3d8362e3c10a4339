"""The log of operators that run in a test, kept for the report of its failure.

pytest's own capture shows messages without their context, and none below a warning unless told.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Self

from rws_operator.log import TextFormatter

LINES = 2000
"""How many lines are kept, the last ones."""

_NAME = "rws_operator"


class OperatorLog(logging.Handler):
    """What the runtime logs while this is open, as the command line would show it.

    Use it as a context manager.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(TextFormatter())
        self._lines: deque[str] = deque(maxlen=LINES)
        self._level = logging.NOTSET

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        try:
            self._lines.append(self.format(record))
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        """All lines that are kept."""
        return "\n".join(self._lines)

    def __enter__(self) -> Self:
        logger = logging.getLogger(_NAME)
        self._level = logger.level
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logger = logging.getLogger(_NAME)
        logger.removeHandler(self)
        logger.setLevel(self._level)
