"""How a client meets a 401: on a scripted server, for a real one forgets no token at will."""

import logging
from pathlib import Path

import pytest

from rws_operator.client.token_file import TokenFile
from rws_operator.errors import Unauthorized
from tests.client.scripted import ScriptedServer, ok, status


async def test_a_swapped_token_is_found_at_the_first_401(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """One request meets a 401, reads the file again and succeeds; nothing was raised."""
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile.credentials(path)
    path.write_text("new")
    server.answer(status(401, "Unauthorized"), ok({"a": 1}))
    async with server.client(credentials) as client:
        answer = await client.request("PATCH", "/x", body=b"{}")
    assert answer.json() == {"a": 1}
    sent = [one.headers["Authorization"] for one in server.seen]
    assert sent == ["Bearer old", "Bearer new"]
    assert len(server.connections) == 1


async def test_an_expired_token(
    server: ScriptedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that stays refused is tried once, and the error says what to do."""
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "token"
    path.write_text("expired")
    server.answer(status(401, "Unauthorized", "Unauthorized"))
    async with server.client(TokenFile.credentials(path)) as client:
        with pytest.raises(Unauthorized, match="renew the token") as caught:
            await client.request("GET", "/x")
    assert len(server.seen) == 1
    assert "expired" not in str(caught.value) + caplog.text


async def test_a_stream_is_opened_with_the_swapped_token(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """A watch that meets a 401 reads the file again too."""
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile.credentials(path)
    path.write_text("new")
    server.answer(status(401, "Unauthorized"), ok({"type": "ADDED"}))
    async with server.client(credentials) as client, client.stream("/x") as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b'{"type":"ADDED"}'
    assert [one.headers["Authorization"] for one in server.seen] == ["Bearer old", "Bearer new"]
