"""One request, one answer: HTTP/1.1 over aiohttp's connector.

aiohttp makes and pools the connections, speaks TLS, tunnels through proxies and parses what
comes back. Its ClientSession is left out: cookies, redirects, netrc, tracing and a task for each
body cost as much CPU as all the rest, and it repeats requests on its own. Writing the request
here is also what lets the fence be asked where it counts: the connection is had, the question is
asked, and the next statement hands the bytes to the socket.

Invariants: requests share a bounded pool, watches and the Lease have one of their own, so neither
can starve the other; a connection goes back to its pool only after its answer was read whole.
Deadlines are the caller's (`rws_operator.client.rest`).
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, cast

import aiohttp
from yarl import URL

from rws_operator.client.answer import error_of
from rws_operator.client.connector import make_connector
from rws_operator.client.failure import BROKEN, failure_of
from rws_operator.client.proxy import proxy_of
from rws_operator.client.stream import Stream, drop
from rws_operator.client.tls import TlsContexts
from rws_operator.errors import ConfigurationError, KubeconfigError

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from multidict import CIMultiDictProxy

    from rws_operator.client.config import ClientConfig
    from rws_operator.client.fence import Fence

_POOL_SIZE = 64
"""Connections for requests at once; more wait their turn, as the server's own limits ask."""

_READ_BUFFER = 2**18
"""Bytes that may wait to be read before the socket is paused."""

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
"""Verbs whose requests say how long their body is even where there is none."""

_NO_TIMEOUT = aiohttp.ClientTimeout()


class _Route(aiohttp.ClientRequest):
    """What the connector needs to know of a server; made once, used by all requests."""

    connection_key = cached_property(aiohttp.ClientRequest.connection_key.fget)  # type: ignore[attr-defined]


class Transport:
    """The connections to one API server.

    Args:
        config: Where the server is, and how to be trusted.
        user_agent: The User-Agent header.
    """

    def __init__(self, config: ClientConfig, user_agent: str) -> None:
        self._config = config
        self._url = URL(config.server)
        self._proxy = proxy_of(config)
        self._secure = self._url.scheme == "https"
        self.host = self._url.authority
        self._prefix = self._url.raw_path.rstrip("/")
        if self._proxy is not None and not self._secure:
            self._prefix = config.server
        self._fixed = self._fixed_head(user_agent)
        self._contexts = TlsContexts(config.tls, lambda: self._loop.time())
        self._context: SSLContext | None = None
        self._route: _Route | None = None
        self._closed = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the first request; connections belong to it."""
        return asyncio.get_running_loop()

    @cached_property
    def _pool(self) -> aiohttp.TCPConnector:
        return self._connector(_POOL_SIZE)

    @cached_property
    def _own(self) -> aiohttp.TCPConnector:
        """The unbounded connector of watches and of what must never wait."""
        return self._connector(0)

    def _connector(self, limit: int) -> aiohttp.TCPConnector:
        self.check_open()
        return make_connector(limit)

    def check_open(self) -> None:
        """Return if requests may be sent.

        Raises:
            ConfigurationError: It was closed.
        """
        if self._closed:
            raise ConfigurationError(
                f"the client of {self._config.server} is closed",
                remedy="close it after its last request, or make another one",
            )

    def _fixed_head(self, user_agent: str) -> str:
        """Return the header lines that never change."""
        lines = [f"Host: {self._url.host_port_subcomponent}", f"User-Agent: {user_agent}"]
        for name, value in self._config.impersonation.headers():
            lines.append(f"{name}: {self._utf8(name, value)}")
        if self._proxy is not None and self._proxy.user and not self._secure:
            pair = f"{self._proxy.user}:{self._proxy.password or ''}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
        return "\r\n".join(lines)

    def _utf8(self, name: str, value: str) -> str:
        """Return the value of a header so that its UTF-8 goes on the wire; names may need it."""
        try:
            if value.isprintable():
                return value.encode().decode("latin-1")
        except UnicodeEncodeError:  # half of a UTF-16 pair
            pass
        raise KubeconfigError(
            f"{name} of {self._config.source} holds characters that can't stand in a header",
            remedy="use printable characters only",
        )

    async def send(
        self,
        method: str,
        target: str,
        headers: str,
        body: bytes | None,
        *,
        fence: Fence | None = None,
        priority: bool = False,
    ) -> tuple[int, bytes, CIMultiDictProxy[str]]:
        """Send one request and read its answer, whatever its status.

        Args:
            method: The HTTP verb.
            target: Path and query, percent-encoded.
            headers: Further header lines, each ended by CRLF.
            body: The body, or None.
            fence: Asked when the connection is had, before the first byte is sent.
            priority: Use the unbounded connector.

        Raises:
            ConnectionFailed: No answer came.
            ConfigurationError: It was closed, or the TLS files can't be used.
            LeadershipLost: The fence refused; nothing was sent.
        """
        connection = await self._connect(waits=not priority)
        try:
            self._write(connection, self._head(method, target, headers, body), body, fence)
            message, payload = await _read_head(connection)
            data = await payload.read()
        except BROKEN as error:
            drop(connection)
            raise failure_of(error, self._config, sent=True) from error
        except BaseException:
            drop(connection)
            raise
        connection.release()
        return message.code, data, message.headers

    async def open_stream(self, target: str, headers: str) -> Stream:
        """Send a GET on a connection of its own, whose body is read as it comes.

        Args:
            target: Path and query, percent-encoded.
            headers: Further header lines, each ended by CRLF.

        Raises:
            ApiError: The answer is no success.
            ConnectionFailed: No answer came.
            ConfigurationError: It was closed, or the TLS files can't be used.
        """
        connection = await self._connect(waits=False)
        try:
            self._write(connection, self._head("GET", target, headers, None), None, None)
            message, payload = await _read_head(connection)
            if message.code != 200:
                data = await payload.read()
                raise error_of(
                    message.code, data, message.headers, f"GET {target}", self._config.source
                )
        except BROKEN as error:
            drop(connection)
            raise failure_of(error, self._config, sent=True) from error
        except BaseException:
            drop(connection)
            raise
        return Stream(connection, payload, self._config)

    async def close(self) -> None:
        """Close every connection; a request that comes later is refused."""
        self._closed = True
        async with AsyncExitStack() as stack:  # which goes on when one is cut
            stack.push_async_callback(self._contexts.close)
            for name in ("_pool", "_own"):
                if (connector := self.__dict__.pop(name, None)) is not None:
                    stack.push_async_callback(connector.close)

    async def _connect(self, *, waits: bool) -> Connection:
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                f"the client of {self._config.server} is used from another event loop",
                remedy="use it on the loop of its first request: in a plain handler call the"
                " context's own methods, not asyncio.run",
            )
        connector = self._pool if waits else self._own
        route = await self._current_route()
        try:
            return await connector.connect(route, traces=[], timeout=_NO_TIMEOUT)
        except BROKEN as error:
            if isinstance(error, aiohttp.ClientSSLError):
                self._contexts.distrust()
            raise failure_of(error, self._config, sent=False) from error

    async def _current_route(self) -> _Route:
        """Return the route, a new one if the TLS files have changed."""
        context = None
        if self._secure:
            context = await self._contexts.current(self._config.credentials.certificate)
        if self._route is None or context is not self._context:
            self._context = context
            self._route = _Route(
                "GET",
                self._url,
                loop=self._loop,
                ssl=context if context is not None else False,
                proxy=self._proxy,
                server_hostname=self._config.tls.server_name,
            )
        return self._route

    def _head(self, method: str, target: str, headers: str, body: bytes | None) -> bytes:
        length = ""
        if body is not None or method in _WITH_BODY:
            length = f"Content-Length: {len(body or b'')}\r\n"
        head = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._fixed}\r\n{headers}{length}\r\n"
        return head.encode("latin-1")

    def _write(
        self, connection: Connection, head: bytes, body: bytes | None, fence: Fence | None
    ) -> None:
        """Ask the fence and hand the request to the socket, with nothing awaited in between."""
        protocol = connection.protocol
        if protocol is None or protocol.transport is None:
            raise aiohttp.ServerDisconnectedError
        protocol.set_response_params(read_until_eof=True, read_bufsize=_READ_BUFFER)
        if fence is not None:
            fence.check()
        protocol.transport.write(head + body if body else head)


async def _read_head(connection: Connection) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    """Read the status line and the headers, passing over 1xx answers."""
    while True:
        message, payload = await cast("ResponseHandler", connection.protocol).read()
        if message.code >= 200:
            return message, payload
