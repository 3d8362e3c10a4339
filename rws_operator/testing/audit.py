"""Who wrote what, and when: the API server's audit log, read as it grows.

It is the witness of tests in which several programs write: it knows what the API server received,
from whom and in which order, whatever the programs tell or their answers became.

    log = AuditLog(control_plane.audit_log)
    ...
    await eventually(5, lambda: log.writes(resource="widgets", name="one", user_agent="replica-2"))

Invariants: each request is told of once, when its answer has ended, in the order of the log (a
watch thus when it is over); nothing is lost or told twice while the file grows, or its API server
is killed in the middle of a line and started again. Bodies are kept as they are in the log, and
decoded when they are asked for. The file is not rotated.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypedDict, Unpack

from rws_operator.errors import ConfigurationError
from rws_operator.testing.audit_entry import AuditEntry, parse_line
from rws_operator.testing.selectors import check_selectors, path_of

__all__ = ["AuditEntry", "AuditLog", "ChosenEntries"]


class ChosenEntries(TypedDict, total=False):
    """Which entries; every keyword that is given must fit.

    The text of ``user_agent`` is a part of the header, everything else is the whole value; of
    ``verb`` it may be one of several.
    """

    verb: str | Collection[str]
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    credential: str
    where: Callable[[AuditEntry], bool]


class AuditLog:
    """The audit log of one control plane, read as far as it goes at each question.

    An entry may appear a moment after the answer: ask by `eventually` for what must come. A write
    whose API server was killed may be stored and have no entry.

    Args:
        path: The file: `ControlPlane.audit_log`. What it holds already counts, too.

    Raises:
        ConfigurationError: There is no such file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path_of(path, "AuditLog", "pass control_plane.audit_log")
        if not self._path.exists():
            raise ConfigurationError(
                f"there is no audit log {self._path}", remedy="pass control_plane.audit_log"
            )
        self._read_to = 0
        self._entries: list[AuditEntry] = []

    def entries(self, **chosen: Unpack[ChosenEntries]) -> list[AuditEntry]:
        """The chosen requests so far, in the order in which their answers ended.

        Raises:
            ConfigurationError: No entry can ever fit.
        """
        check_selectors(chosen, ChosenEntries.__annotations__)
        self._read()
        return [entry for entry in self._entries if _fits(entry, **chosen)]

    def writes(self, **chosen: Unpack[ChosenEntries]) -> list[AuditEntry]:
        """The chosen requests that could change something, whether they succeeded or not."""
        return [entry for entry in self.entries(**chosen) if entry.is_write]

    def _read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read_to += len(line)
                if (entry := parse_line(line)) is not None:
                    self._entries.append(entry)


def _fits(
    entry: AuditEntry,
    *,
    verb: str | Collection[str] | None = None,
    user_agent: str = "",
    where: Callable[[AuditEntry], bool] | None = None,
    **exact: object,
) -> bool:
    verbs = (verb,) if isinstance(verb, str) else verb
    return (
        (verbs is None or entry.verb in verbs)
        and user_agent in entry.user_agent
        and all(getattr(entry, key) == value for key, value in exact.items())
        and (where is None or where(entry))
    )
