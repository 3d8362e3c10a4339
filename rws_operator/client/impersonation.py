"""Acting as somebody else: what the Impersonate headers of each request say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = "!#$&'*+^`|"
"""What may stand in a header's name beside letters, digits and -._~; client-go escapes the rest."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """As whom to act.

    Args:
        user: The user's name; None: as oneself.
        uid: The user's uid, or None.
        groups: The user's groups.
        extra: Further claims of the user, each with its values.
    """

    user: str | None = None
    uid: str | None = None
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers that say so, by name and value."""
        if self.user is None:
            return []
        found = [("Impersonate-User", self.user)]
        if self.uid is not None:
            found.append(("Impersonate-Uid", self.uid))
        found += [("Impersonate-Group", group) for group in self.groups]
        for name, values in self.extra.items():
            header = f"Impersonate-Extra-{quote(name, safe=_PLAIN)}"
            found += [(header, value) for value in values]
        return found
