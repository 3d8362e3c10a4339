"""Who wrote what, and when: the API server's audit log, read as it grows.

It is the witness of tests in which several programs write: it knows what the API server received,
from whom and in which order, whatever the programs tell or their answers became.

    log = AuditLog(control_plane.audit_log)
    ...
    await eventually(5, lambda: log.writes(resource="widgets", name="one", user_agent="replica-2"))

Invariants: each request is told of once, when its answer has ended, in the order of the log (a
watch thus when it is over); nothing is lost or told twice while the file grows, is rotated, or its
API server is killed in the middle of a line and started again.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, Unpack

import msgspec

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# What is created there is an answer, and stored nowhere.
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_LINE_BEGINS = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1"'


@dataclass(frozen=True)
class AuditEntry:
    """A request that the API server has answered.

    Attributes:
        verb: Kubernetes' verb: get, list, watch, create, update, patch, delete, deletecollection.
        group: The API group, "" for the core group.
        resource: The plural, e.g. ``widgets``; "" for paths without one, such as ``/version``.
        subresource: e.g. ``status``, or "".
        namespace: The namespace, or "".
        name: The object's name, also one that the server made; or "".
        user: The user's name, ``system:serviceaccount:<namespace>:<name>`` of a ServiceAccount.
        user_agent: The User-Agent header.
        credential: Names the token (``JTI=...``) or certificate (``X509SHA256=...``), or "".
        received: When the request came, in seconds since the epoch.
        answered: When its answer had been sent, in seconds since the epoch.
        code: The HTTP status of the answer.
        uid: Of the object that was answered, or "".
        resource_version: Of the object that was answered, or "".
        uri: Path and query.
        audit_id: Names the request; of one that went through a gate, its `GateRequest.audit_id`.
        request: The body sent, None where the log holds none (reads, Secrets, tokens).
        response: The body answered, likewise.
    """

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    credential: str
    received: float
    answered: float
    code: int
    uid: str
    resource_version: str
    uri: str
    audit_id: str
    request: dict[str, Any] | None = field(repr=False)
    response: dict[str, Any] | None = field(repr=False)

    def __str__(self) -> str:
        """Who did what, and when, in a line."""
        at = datetime.fromtimestamp(self.received, UTC).strftime("%H:%M:%S.%f")
        what = "/".join(filter(None, (self.resource, self.subresource))) or self.uri
        which = "/".join(filter(None, (self.namespace, self.name)))
        version = f", resource version {self.resource_version}" if self.resource_version else ""
        return (
            f"{at} {self.user_agent or '-'} as {self.user}: {self.verb} {what} {which}: "
            f"{self.code}{version}"
        )

    @property
    def succeeded(self) -> bool:
        """Whether the server did what was asked."""
        return self.code < 300

    @property
    def is_write(self) -> bool:
        """Whether it could change something: no dry run, and not the review of a permission."""
        return self.verb in _WRITES and self.group not in _REVIEWS and "dryRun=All" not in self.uri


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
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._read_to: dict[int, int] = {}  # by the file's inode, which a rotation keeps
        self._entries: list[AuditEntry] = []

    def entries(self, **chosen: Unpack[ChosenEntries]) -> list[AuditEntry]:
        """The chosen requests so far, in the order in which their answers ended."""
        self._read()
        return [entry for entry in self._entries if _fits(entry, **chosen)]

    def writes(self, **chosen: Unpack[ChosenEntries]) -> list[AuditEntry]:
        """The chosen requests that could change something, whether they succeeded or not."""
        return [entry for entry in self.entries(**chosen) if entry.is_write]

    def _read(self) -> None:
        # Opened first: should it be rotated now, it is found among the rotated ones as well.
        with contextlib.ExitStack() as stack:
            files: list[BinaryIO] = []
            with contextlib.suppress(FileNotFoundError):  # just rotated
                files.append(stack.enter_context(self._path.open("rb")))
            # The time of the rotation is part of the name.
            rotated = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
            files[:0] = [stack.enter_context(path.open("rb")) for path in rotated]
            for file in files:
                self._read_file(file)

    def _read_file(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        begin = self._read_to.get(status.st_ino, 0)
        if status.st_size <= begin:
            return
        file.seek(begin)
        *lines, rest = file.read().split(b"\n")
        for line in lines:
            if (entry := _parse(line)) is not None:
                self._entries.append(entry)
        self._read_to[status.st_ino] = file.tell() - len(rest)


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


def _parse(line: bytes) -> AuditEntry | None:
    """Decode a line; None for what is no whole answer."""
    try:
        event = msgspec.json.decode(line)
    except msgspec.DecodeError:
        # A killed API server left half a line, and its successor went on behind it.
        begin = line.rfind(_LINE_BEGINS)
        if begin <= 0:
            return None
        return _parse(line[begin:])
    return _entry(event) if event["stage"] != "ResponseStarted" else None


def _entry(event: Mapping[str, Any]) -> AuditEntry:
    about = event.get("objectRef") or {}
    user = event["user"]
    response = event.get("responseObject")
    answered = _answered_object(response)
    return AuditEntry(
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name") or answered.get("name", ""),
        user=user.get("username", ""),
        user_agent=event.get("userAgent", ""),
        credential=((user.get("extra") or {}).get(_CREDENTIAL) or [""])[0],
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        code=(event.get("responseStatus") or {}).get("code", 0),
        uid=answered.get("uid", ""),
        resource_version=answered.get("resourceVersion", ""),
        uri=event["requestURI"],
        audit_id=event.get("auditID", ""),
        request=event.get("requestObject"),
        response=response,
    )


def _answered_object(response: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The metadata of what was answered; of a deletion that took it at once, its details."""
    if response is None:
        return {}
    is_status = response.get("kind") == "Status"
    found: Mapping[str, Any] = response.get("details" if is_status else "metadata") or {}
    return found


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
