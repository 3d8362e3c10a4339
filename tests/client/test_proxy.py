"""HTTP proxies: from the kubeconfig, from the environment, and none at all."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rws_operator.client import Client, ClientConfig
from rws_operator.client.tls import Tls
from rws_operator.errors import ConfigurationError, ConnectionFailed
from rws_operator.testing.pki import CertificateAuthority
from tests.client.scripted import ScriptedServer, ok, scripted_server, serving


class Proxy:
    """A proxy that tunnels, and remembers the first line and the headers of what came."""

    def __init__(self) -> None:
        self.address = ""
        self.heads: list[str] = []
        self.refuses = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open one tunnel."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = head.split()[1].partition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side closes."""
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A running proxy."""
    proxy = Proxy()
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield proxy
    server.close()


@pytest.fixture
def authority() -> CertificateAuthority:
    """The authority of the servers."""
    return CertificateAuthority()


@pytest.fixture
async def secure(authority: CertificateAuthority) -> AsyncIterator[ScriptedServer]:
    """A server that speaks TLS."""
    async with scripted_server(serving(authority)) as server:
        server.answer(ok({"a": 1}))
        yield server


async def test_a_tunnel(
    proxy: Proxy, secure: ScriptedServer, authority: CertificateAuthority
) -> None:
    """TLS goes through to the server; the proxy sees neither the token nor the path."""
    address = proxy.address.replace("http://", "http://jane:pw@")
    async with secure.client(tls=Tls(ca=authority.cert_pem), proxy=address) as client:
        assert (await client.request("GET", "/x")).json() == {"a": 1}
        async with client.stream("/y") as chunks:
            assert [chunk async for chunk in chunks] == [b'{"a":1}']
        await client.request("GET", "/x")
    connect = secure.address.removeprefix("https://")
    assert [head.splitlines()[0] for head in proxy.heads] == [f"CONNECT {connect} HTTP/1.1"] * 2
    assert "Proxy-Authorization: Basic amFuZTpwdw==" in proxy.heads[0]
    assert "Proxy-Authorization" not in secure.seen[0].headers


async def test_the_environments_proxy(
    proxy: Proxy,
    secure: ScriptedServer,
    authority: CertificateAuthority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTPS_PROXY is used, unless NO_PROXY names the server."""
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    tls = Tls(ca=authority.cert_pem)
    async with secure.client(tls=tls) as client:
        await client.request("GET", "/x")
    assert len(proxy.heads) == 1
    for exempt in (
        "127.0.0.1",
        secure.address.removeprefix("https://"),
        "example.com, 127.0.0.0/8",
    ):
        monkeypatch.setenv("NO_PROXY", exempt)
        async with secure.client(tls=tls) as client:
            await client.request("GET", "/x")
    assert len(proxy.heads) == 1
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,127.0.0.1:1,example.com/x")
    async with secure.client(tls=tls) as client:
        await client.request("GET", "/x")
    assert len(proxy.heads) == 2


async def test_a_plain_server_through_a_proxy(server: ScriptedServer) -> None:
    """Without TLS there is no tunnel: the proxy is asked for the whole address."""
    server.answer(ok())
    address = server.address.replace("http://", "http://jane:pw@")
    async with server.client(server="http://api.example.com:8080/k", proxy=address) as client:
        await client.request("GET", "/x")
    seen = server.seen[0]
    assert seen.target == "http://api.example.com:8080/k/x"
    assert seen.headers["Host"] == "api.example.com:8080"
    assert seen.headers["Proxy-Authorization"] == "Basic amFuZTpwdw=="


async def test_a_proxy_that_refuses(
    proxy: Proxy, secure: ScriptedServer, authority: CertificateAuthority
) -> None:
    """The error says that it is the proxy, and shows no password."""
    proxy.refuses = True
    address = proxy.address.replace("http://", "http://jane:hidden@")
    async with secure.client(tls=Tls(ca=authority.cert_pem), proxy=address) as client:
        with pytest.raises(ConnectionFailed, match="through the proxy") as caught:
            await client.request("GET", "/x")
    message = str(caught.value)
    assert "NO_PROXY" in message
    assert "hidden" not in message
    assert "\n" not in message


async def test_a_proxy_that_is_not_there(
    unused_tcp_port: int, secure: ScriptedServer, authority: CertificateAuthority
) -> None:
    """A proxy that refuses connections is not taken for the server."""
    tls, address = Tls(ca=authority.cert_pem), f"http://127.0.0.1:{unused_tcp_port}"
    async with secure.client(tls=tls, proxy=address) as client:
        with pytest.raises(ConnectionFailed, match="through the proxy"):
            await client.request("GET", "/x")
    assert secure.seen == []


def test_a_proxy_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one line when the client is made, and shows no password."""
    for address in ("http://jane:hidden@[::1", "http://jane:hidden@a..b", "proxy:3128"):
        monkeypatch.setenv("HTTPS_PROXY", address)
        with pytest.raises(ConfigurationError, match="HTTPS_PROXY of the environment") as caught:
            Client(ClientConfig("https://api.example.com"))
        assert "hidden" not in str(caught.value)
