"""Who is told of a client's writes to objects: the one thing a cache above must learn of them.

`client` defines the protocol and `rws_operator.controller` implements it, so that the package that
sends bytes needs to know nothing of caches. Told are the typed verbs (`Client.create`, `replace`,
`patch`, `apply` and `delete`); what goes through `Client.request` says nothing of the object that
it may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rws_operator.resources import Kind, ObjectKey


class WriteObserver(Protocol):
    """Is told of each write, and of its answer."""

    def writing(
        self, kind: Kind, key: ObjectKey, *, deletes: bool
    ) -> AbstractContextManager[Callable[[bytes], None]]:
        """Enclose one write.

        Args:
            kind: The object's kind, as the caller gave it.
            key: The object; its name is "" where the server is to generate it.
            deletes: Whether it is a deletion.

        Returns:
            A context manager; what it gives is called with the answer, if there is one. The
            answer of a subresource may be of another kind.
        """
        ...
