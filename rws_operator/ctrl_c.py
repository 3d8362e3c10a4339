"""Tells a Ctrl-C from a KeyboardInterrupt that an author's code raised, which is its failure."""

from __future__ import annotations

import signal


def is_ctrl_c(error: BaseException) -> bool:
    """Whether Python itself may have raised it, wherever the main thread was.

    It does in a program that leaves SIGINT to it, as a running operator does not.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and is_default
