"""HTTP proxies: from the kubeconfig, from the environment, and none at all."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rws_operator.client import Client, ClientConfig
from rws_operator.client.proxy import proxy_of
from rws_operator.client.tls import Tls
from rws_operator.errors import ConfigurationError, ConnectionFailed
from rws_operator.testing.pki import CertificateAuthority
from tests.client.paths import pump
from tests.client.scripted import ScriptedServer, ok, scripted_server, serving


class Proxy:
    """A proxy that tunnels, and remembers the first line and the headers of what came."""

    def __init__(self) -> None:
        self.address = ""
        self.heads: list[str] = []
        self.refuses = False
        self.target: str | None = None
        self.wanted = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open one tunnel."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self.refuses or self.wanted not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = head.split()[1].partition(":")
        far_reader, far_writer = await asyncio.open_connection(self.target or host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


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
    """A server of any name is reached through HTTPS_PROXY, loopback never is."""
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    tls = Tls(ca=authority.cert_pem)
    async with secure.client(tls=tls) as client:
        await client.request("GET", "/x")
    assert proxy.heads == []
    port = secure.address.rpartition(":")[2]
    proxy.target = "127.0.0.1"
    async with secure.client(server=f"https://kubernetes:{port}", tls=tls) as client:
        await client.request("GET", "/x")
    assert proxy.heads[0].startswith(f"CONNECT kubernetes:{port} ")


def chosen(server: str, monkeypatch: pytest.MonkeyPatch, **environ: str) -> str | None:
    """Return the proxy that an environment means for a server."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = proxy_of(ClientConfig(server))
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("server", "no_proxy"),
    [
        ("https://localhost:6443", ""),
        ("https://127.8.0.1:6443", ""),
        ("https://[::1]:6443", ""),
        ("https://a.example.com", "*"),
        ("https://a.example.com", "other.org , example.com"),
        ("https://a.example.com", ".example.com"),
        ("https://a.example.com", "*.EXAMPLE.com"),
        ("https://a.example.com", "a.example.com:443"),
        ("https://10.1.2.3:6443", "192.168.0.0/16,10.0.0.0/8"),
        ("https://10.1.2.3:6443", "10.1.2.3"),
        ("https://10.1.2.3:6443", "10.1.2.3:6443"),
        ("https://[fd00::1]:6443", "fd00::/8"),
        ("https://[fd00::1]:6443", "fd00:0::1"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
    ],
)
def test_servers_that_are_reached_directly(
    server: str, no_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY holds names, domains, addresses and networks, as the Go clients read it."""
    assert chosen(server, monkeypatch, HTTPS_PROXY="http://p:1", NO_PROXY=no_proxy) is None


@pytest.mark.parametrize(
    ("server", "no_proxy"),
    [
        ("https://example.com", ".example.com"),
        ("https://an-example.com", "example.com"),
        ("https://example.com", "*example.com"),
        ("https://a.example.com", "*example.com"),
        ("https://a.example.com.", ":443"),
        ("https://a.example.com", "a.example.com:6443"),
        ("https://10.1.2.3:6443", "10.1.2,10.1.2.0/33,10.0.0.0/x,10.1.2.3:443"),
        ("https://10.1.2.3:6443", "fd00::/8,127.0.0.0/8"),
        ("https://[fd00::1]:6443", "[fd00::1]:443"),
        ("https://a.example.com", ", ,"),
    ],
)
def test_servers_that_are_reached_through_the_proxy(
    server: str, no_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of NO_PROXY about another name, port or network exempts nothing."""
    found = chosen(server, monkeypatch, HTTPS_PROXY="http://p:1", NO_PROXY=no_proxy)
    assert found == "http://p:1"


def test_the_environments_proxy_in_other_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capitals go before small letters, a bare host means HTTP, and each scheme has its own."""
    server = "https://a.example.com"
    assert (
        chosen(server, monkeypatch, http_proxy="http://plain:1", ALL_PROXY="http://all:1") is None
    )
    assert chosen("http://a.example.com", monkeypatch) == "http://plain:1"
    assert chosen(server, monkeypatch, https_proxy="small:1") == "http://small:1"
    assert chosen(server, monkeypatch, HTTPS_PROXY="https://j:p@big:1") == "https://j:p@big:1"
    assert chosen(server, monkeypatch, no_proxy="example.com") is None
    assert chosen(server, monkeypatch, NO_PROXY="example.org") == "https://j:p@big:1"


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
    for address in ("http://jane:hidden@[::1", "http://jane:hidden@a..b", "socks5://p:1"):
        monkeypatch.setenv("HTTPS_PROXY", address)
        with pytest.raises(ConfigurationError, match="HTTPS_PROXY of the environment") as caught:
            Client(ClientConfig("https://api.example.com"))
        assert "hidden" not in str(caught.value)
