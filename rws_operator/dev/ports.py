"""The ports of metrics and of webhooks: the same for all runs of a session.

A port that was asked for is refused if it is in use as the session begins; the runs listen on it,
and tell if somebody took it meanwhile. Another one that is in use is no reason to stop: who calls
is told where.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.dev.console import tell
from rws_operator.errors import ConfigurationError
from rws_operator.testing.folder import held_port

if TYPE_CHECKING:
    import contextlib


@dataclass(frozen=True)
class Port:
    """A port that is wanted.

    Attributes:
        flag: The option that names it.
        number: Which one; 0 for any free one.
        is_given: Whether the user asked for it.
        is_used: Whether anything will listen there.
    """

    flag: str
    number: int
    is_given: bool = True
    is_used: bool = True


def held_ports(wanted: list[Port], held: contextlib.ExitStack) -> list[int]:
    """Find where to listen, in the order of what is wanted.

    Raises:
        ConfigurationError: Ports that the user asked for can't be listened on.
    """
    used = [each for each in wanted if each.number and each.is_used]
    reasons = {each: _rival(each, used) or _reason(each.number) for each in used}
    refused = [
        f"{each.flag} {each.number} can't be listened on: {reason}"
        for each, reason in reasons.items()
        if reason and each.is_given
    ]
    if refused:
        raise ConfigurationError(
            "; ".join(refused), remedy="choose another port, or 0 for any free one"
        )
    return [_held(each, reasons.get(each), held) for each in wanted]


def _held(wanted: Port, reason: str | None, held: contextlib.ExitStack) -> int:
    if wanted.number and not reason:
        return wanted.number
    found = held.enter_context(held_port())
    if reason:
        tell(f"port {wanted.number} can't be had ({reason}): {wanted.flag} is {found}", "yellow")
    return found


def _rival(port: Port, used: list[Port]) -> str | None:
    """Who else wants it; who asked for it goes before who did not."""
    for each in used:
        if each.flag != port.flag and each.number == port.number and each.is_given:
            return f"{each.flag} asks for it, too"
    return None


def _reason(number: int) -> str | None:
    """Why it can't be listened on; None if it can."""
    try:
        with socket.create_server(("", number)):
            return None
    except OSError as error:
        return os.strerror(error.errno or 0)
