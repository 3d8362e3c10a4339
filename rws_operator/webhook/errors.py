"""`ReviewError`: raised by whatever can't review a call, told as plain HTTP by `http`."""

from __future__ import annotations

from rws_operator.errors import OperatorError


class ReviewError(OperatorError):
    """A call that gets no review as its answer.

    Args:
        status: HTTP status: 400 malformed, 408, 413, 415, 500 failed handler, 503 too many large
            calls, 504 late handler.
        what: What is wrong. The API server shows it to whoever made the request.
        remedy: What to do about it.
    """

    def __init__(self, status: int, what: str, *, remedy: str | None = None) -> None:
        self.status = status
        super().__init__(what, remedy=remedy)
