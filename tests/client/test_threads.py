"""A client needs no thread that the author's code may fill."""

import _thread
import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver

from rws_operator.client import client as connect
from rws_operator.client.resolver import OwnResolver
from rws_operator.client.tls import Tls
from rws_operator.client.token_file import TokenFile
from rws_operator.errors import ConnectionFailed
from rws_operator.testing.eventually import eventually
from rws_operator.testing.pki import CertificateAuthority
from tests.client.scripted import ScriptedServer, ok, scripted_server, serving, status
from tests.client.test_kubeconfig import write


@pytest.mark.usefixtures("filled_threads")
async def test_a_request_passes_while_the_author_fills_every_thread(tmp_path: Path) -> None:
    """Its token is read again, its TLS context made and its server's name looked up meanwhile."""
    authority = CertificateAuthority()
    ca, token = tmp_path / "ca.crt", tmp_path / "token"
    ca.write_bytes(authority.cert_pem)
    token.write_text("old")
    credentials = TokenFile.credentials(token)
    token.write_text("new")
    async with scripted_server(serving(authority)) as server:
        server.answer(status(401, "Unauthorized"), ok())
        address = server.address.replace("127.0.0.1", "localhost")
        async with server.client(credentials, server=address, tls=Tls(ca=ca)) as client:
            await client.request("GET", "/x", deadline=10)
    sent = [one.headers["Authorization"] for one in server.seen]
    assert sent == ["Bearer old", "Bearer new"]


@pytest.mark.usefixtures("filled_threads")
async def test_a_client_is_made_while_the_author_fills_every_thread(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """A program may run an Operator beside work of its own."""
    server.answer(ok())
    path = write(tmp_path / "config", user={"token": "t"}, cluster={"server": server.address})
    async with asyncio.timeout(10):
        made = await connect(str(path))
    async with made as client:
        assert (await client.request("GET", "/x", deadline=10)).status == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
@pytest.mark.parametrize("family", [socket.AF_UNSPEC, socket.AF_INET6])
async def test_names_are_looked_up_as_ever(host: str, family: socket.AddressFamily) -> None:
    """What is found, or not, is what aiohttp's own resolver finds."""

    async def found(resolver: OwnResolver | ThreadedResolver) -> Any:
        try:
            return await resolver.resolve(host, 443, family)
        except socket.gaierror as error:
            return error.errno

    assert await found(OwnResolver()) == await found(ThreadedResolver())


async def test_a_name_that_no_thread_can_be_had_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request gets no answer, which every caller expects; why is told, not the DNS blamed."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    client = ScriptedServer("http://localhost:1").client()
    async with client:
        with pytest.raises(ConnectionFailed, match=r"no thread can be .*: let the pod have more"):
            await client.request("GET", "/x")


def threads() -> set[str]:
    """The threads of this process, those that Python doesn't know of as well."""
    return set(os.listdir("/proc/self/task"))


async def test_a_token_file_whose_read_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one renews the token; reads that hang don't take ever more threads."""
    monkeypatch.setattr("rws_operator.client.credentials._DEADLINE_SECONDS", 0.2)
    monkeypatch.setattr("rws_operator.client.credentials._REFUSALS_SECONDS", 0.0)
    monkeypatch.setattr("rws_operator.client.token_file._MOST_READS", 3)
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_text("old")
    read = TokenFile.credentials(token)
    os.mkfifo(other)
    other.rename(token)
    before = threads()
    for _ in range(5):
        assert not await read.refused("Bearer old")
    await eventually(10, lambda: len(threads() - before) == 3)
    writer = os.open(token, os.O_RDWR | os.O_NONBLOCK)
    other.write_text("new")
    other.rename(token)
    os.close(writer)
    await eventually(10, lambda: not threads() - before)
    monkeypatch.setattr("rws_operator.client.credentials._DEADLINE_SECONDS", 25.0)
    await eventually(10, lambda: read.refused("Bearer old"))
    assert await read.authorization() == "Bearer new"
