"""Where a session of development listens: what was asked for, or what is free."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace

import pytest

from rws_operator.dev.ports import Port, held_ports
from rws_operator.errors import ConfigurationError
from rws_operator.testing.folder import held_port


def test_a_port_that_is_named_twice() -> None:
    """Both can't listen there; one that nobody will use, and any free one, may be the same."""
    http, webhooks = Port("--http-port", 8080), Port("--webhook-port", 8080)
    with contextlib.ExitStack() as held:
        with pytest.raises(ConfigurationError, match=r"8080 can't be .*: --http-port asks for it"):
            held_ports([http, webhooks], held)
        free = held.enter_context(held_port())
        http, webhooks = replace(http, number=free), replace(webhooks, number=free, is_used=False)
        assert held_ports([http, webhooks], held) == [free, free]
        zeros = [replace(each, number=0, is_used=True) for each in (http, webhooks)]
        assert len(set(held_ports(zeros, held))) == 2


def test_a_named_port_that_is_the_default_of_another(capsys: pytest.CaptureFixture[str]) -> None:
    """The other one gives way, and where it is is told."""
    with contextlib.ExitStack() as held:
        free = held.enter_context(held_port())
        wanted = [Port("--http-port", free), Port("--webhook-port", free, is_given=False)]
        http, webhooks = held_ports(wanted, held)
        assert (http, webhooks != free) == (free, True)
    told = f"port {free} can't be had (--http-port asks for it, too): --webhook-port is {webhooks}"
    assert told in capsys.readouterr().err


def test_a_port_that_nobody_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is taken another one will do, and which is told; one that is unused is not."""
    with socket.create_server(("", 0)) as taken, contextlib.ExitStack() as held:
        number = taken.getsockname()[1]
        http, webhooks = held_ports(
            [
                Port("--http-port", number, is_given=False),
                Port("--webhook-port", number, is_given=False, is_used=False),
            ],
            held,
        )
        assert (http != number, webhooks) == (True, number)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (f"▸ port {number} can't be had (Address already in use): --http-port is {http}")
