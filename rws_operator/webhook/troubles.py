"""What does not work about the webhooks' certificate: gathered in each round, told once.

Invariant: no failure leaves a round, and none shows a key: of an error that is not one of ours,
which may hold anything, only the place is told.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from typing import TYPE_CHECKING

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("rws_operator.webhook")


class Troubles:
    """Of one certificate.

    Args:
        told_after: Rounds in a row that must fail until the log says so.
    """

    def __init__(self, *, told_after: int) -> None:
        self._told_after = told_after
        self._faults: list[str] = []  # of the round that goes on
        self._hints: list[str] = []
        self._last_hints: list[str] = []
        self._problem: str | None = None
        self._told: str | None = None
        self._failures = 0

    @property
    def problem(self) -> str | None:
        """What failed in the last round, as one line."""
        return self._problem

    def notes(self) -> list[str]:
        """What is worth knowing since the last round, failures first."""
        return [*([self._problem] if self._problem else []), *self._last_hints]

    def add(self, fault: str) -> None:
        """Something failed in this round."""
        self._faults.append(fault)

    def hint(self, text: str) -> None:
        """Something is odd in this round, yet no failure."""
        self._hints.append(text)

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Note a failure of the block, as that of `what`, and go on after it."""
        try:
            yield
        except OperatorError as error:
            self.add(f"{what}: {error}")
        except Exception as error:  # nothing may end the loop that keeps a certificate
            self.add(f"{what}: {_place_of(error)}")

    def end_round(self) -> int:
        """Tell what is new.

        Returns:
            How many rounds in a row have failed.
        """
        for hint in self._hints:
            if hint not in self._last_hints:
                log.warning("the webhooks' certificate: look at this", extra={"hint": hint})
        self._problem = "; ".join(self._faults) or None
        self._failures = self._failures + 1 if self._faults else 0
        self._last_hints, self._hints, self._faults = self._hints, [], []
        if self._failures >= self._told_after and self._problem != self._told:
            log.warning("the webhooks' certificate: keeps trying", extra={"error": self._problem})
            self._told = self._problem
        elif self._told and not self._problem:
            log.info("the webhooks' certificate is looked after again")
            self._told = None
        return self._failures


def _place_of(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = " < ".join(f"{each.name}:{each.lineno}" for each in reversed(frames[-3:]))
    return f"unexpected {type(error).__name__} in {place}"
