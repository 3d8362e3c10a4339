"""The body of an answer that goes on, on the connection that is its alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rws_operator.client.failure import BROKEN, failure_of

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.connector import Connection

    from rws_operator.client.config import ClientConfig


class Stream:
    """The body of an answer that goes on; its connection is closed, never used again."""

    def __init__(
        self, connection: Connection, payload: aiohttp.StreamReader, config: ClientConfig
    ) -> None:
        self._connection = connection
        self._payload = payload
        self._config = config

    async def read(self) -> bytes:
        """Return what has come, as soon as anything has; b"" at the end.

        Raises:
            ConnectionFailed: The connection broke before the end.
        """
        try:
            return await self._payload.readany()
        except BROKEN as error:
            raise failure_of(error, self._config, sent=True) from error

    def close(self) -> None:
        """Close the connection."""
        drop(self._connection)


def drop(connection: Connection) -> None:
    """Close a connection at once: TLS's good-bye could outlive the loop that waits for it."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()
