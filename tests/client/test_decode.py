"""Answers that hold something else than they should: errors of ours, never of a library."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from rws_operator import errors, kinds
from rws_operator.client import Client
from tests.client.scripted import ScriptedServer

Call = Callable[[Client], Awaitable[Any]]

OBJECT = {"metadata": {"name": "a", "namespace": "x"}}

CALLS: dict[str, Call] = {
    "get": lambda client: client.get(kinds.ConfigMap, "a", "x"),
    "list": lambda client: client.list(kinds.ConfigMap),
    "create": lambda client: client.create(OBJECT, kind=kinds.ConfigMap),
    "replace": lambda client: client.replace(OBJECT, kind=kinds.ConfigMap),
    "patch": lambda client: client.patch(kinds.ConfigMap, "a", "x", patch={}),
    "apply": lambda client: client.apply(OBJECT, kind=kinds.ConfigMap, field_manager="t"),
}

BODIES = {
    "nothing": b"",
    "a page": b"<html>",
    "half": b'{"metadata":',
    "a list": b"[]",
    "no text": b'{"metadata": {"resourceVersion": "\xff"}}',
    "deep": b'{"metadata":' + b"[" * 100_000,
}


def answer(status: int, body: bytes, **headers: str) -> web.Response:
    """Return an answer of a body as it is."""
    return web.Response(
        status=status,
        body=body,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_success_that_is_none(server: ScriptedServer, call: Call, body: bytes) -> None:
    """Each verb says that the answer can't be read, in one line with a remedy."""
    server.answer(answer(200, body))
    async with server.client() as client:
        with pytest.raises(errors.DecodeError, match="no readable") as caught:
            await call(client)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", [b'{"items": [5]}', b'{"items": 5}', b'{"metadata": []}'])
async def test_a_list_that_is_none(server: ScriptedServer, body: bytes) -> None:
    """A list of something else than objects is one more answer that can't be read."""
    server.answer(answer(200, body))
    async with server.client() as client:
        with pytest.raises(errors.DecodeError, match="no readable"):
            await client.list(kinds.ConfigMap)


async def test_json_that_is_none(server: ScriptedServer) -> None:
    """Whoever reads a bare answer gets our own error too."""
    server.answer(answer(200, b"{"))
    async with server.client() as client:
        bare = await client.request("GET", "/x")
    with pytest.raises(errors.DecodeError, match="no readable answer"):
        bare.json()


@pytest.mark.parametrize("delay", ["²", "9" * 5000, "-1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_a_delay_that_is_none(server: ScriptedServer, delay: str) -> None:
    """A Retry-After that is no number of seconds is no Retry-After."""
    server.answer(answer(429, b"", Retry_After=delay))
    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.request("GET", "/x")
    assert caught.value.retry_after is None
    assert len(server.seen) == 1


@pytest.mark.parametrize("delay", [b'"abc"', b"[]", b"-1", b"1e300", b"9" * 400])
async def test_a_delay_of_a_status_that_is_none(server: ScriptedServer, delay: bytes) -> None:
    """A Status whose retryAfterSeconds can't be one is an error like any other."""
    body = b'{"kind": "Status", "reason": "Busy", "details": {"retryAfterSeconds": %s}}' % delay
    server.answer(answer(503, body))
    async with server.client() as client:
        with pytest.raises(errors.ServerError, match="Busy") as caught:
            await client.request("GET", "/x")
    assert caught.value.retry_after is None


@pytest.mark.parametrize("causes", [b"5", b'"x"', b'["x"]', b"{}", b"null"])
async def test_causes_that_are_none(server: ScriptedServer, causes: bytes) -> None:
    """Causes that are no list of mappings are left out; the rest of the Status is kept."""
    body = b'{"kind": "Status", "reason": "Odd", "details": {"kind": "k", "causes": %s}}' % causes
    server.answer(answer(422, body))
    async with server.client() as client:
        with pytest.raises(errors.Invalid, match="Odd") as caught:
            await client.request("GET", "/x")
    assert caught.value.causes == []
    assert caught.value.details["kind"] == "k"


async def test_a_refusal_that_is_nested_for_ever(server: ScriptedServer) -> None:
    """A refusal that can't be read is still a refusal."""
    server.answer(answer(403, b'{"kind": "Status", "details": ' + b'{"a":' * 100_000))
    async with server.client() as client:
        with pytest.raises(errors.Forbidden):
            await client.request("GET", "/x")


async def test_what_is_no_text_is_refused_before_it_is_sent(server: ScriptedServer) -> None:
    """Half of a UTF-16 pair can stand in no path and in no query, nor a line's end in a name."""
    half = "\ud800"
    async with server.client() as client:
        with pytest.raises(errors.ConfigurationError, match="can't be a name"):
            await client.get(kinds.ConfigMap, half, "x")
        with pytest.raises(errors.ConfigurationError, match="can't be a name"):
            await client.list(kinds.ConfigMap, half)
        with pytest.raises(errors.ConfigurationError, match="can't be a name"):
            await client.get(kinds.ConfigMap, "a\n", "x")
        with pytest.raises(errors.ConfigurationError, match="query parameter"):
            await client.list(kinds.ConfigMap, label_selector=half)
    assert server.seen == []
