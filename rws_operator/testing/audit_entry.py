"""One entry of the API server's audit log: a request, and what became of it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# What is created there is an answer, and stored nowhere.
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_LINE_BEGINS = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1"'
_NOTHING = msgspec.Raw(b"null")


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
        code: The HTTP status of the answer; 0 if the log holds none.
        uid: Of the object that was answered, or "".
        resource_version: Of the object that was answered, or "".
        uri: Path and query.
        audit_id: Names the request; of one that went through a gate, its `GateRequest.audit_id`.
        raw_request: The body sent, as it is in the log.
        raw_response: The body answered, likewise.
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
    raw_request: msgspec.Raw = field(repr=False)
    raw_response: msgspec.Raw = field(repr=False)

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
        return 200 <= self.code < 300

    @property
    def request(self) -> dict[str, Any] | None:
        """The body sent, None where the log holds none (reads, Secrets, tokens)."""
        return msgspec.json.decode(self.raw_request, type=dict[str, Any] | None)

    @property
    def response(self) -> dict[str, Any] | None:
        """The body answered, likewise."""
        return msgspec.json.decode(self.raw_response, type=dict[str, Any] | None)

    @property
    def is_write(self) -> bool:
        """Whether it could change something: no dry run, and not the review of a permission."""
        return self.verb in _WRITES and self.group not in _REVIEWS and "dryRun=All" not in self.uri


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _About(msgspec.Struct, rename="camel"):
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    """A line of the log, as far as it is told of."""

    stage: str
    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    request_uri: str = msgspec.field(name="requestURI")
    audit_id: str = msgspec.field(name="auditID", default="")
    user_agent: str = ""
    object_ref: _About | None = None
    response_status: _Status | None = None
    request_object: msgspec.Raw = _NOTHING
    response_object: msgspec.Raw = _NOTHING


class _Named(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Answer(msgspec.Struct):
    """What was answered: an object, or a Status."""

    kind: str = ""
    metadata: _Named | None = None
    details: _Named | None = None

    def about(self) -> _Named:
        """The metadata of the object; of a deletion that took it at once, its details."""
        return (self.details if self.kind == "Status" else self.metadata) or _Named()


_EVENTS = msgspec.json.Decoder(_Event)
_ANSWERS = msgspec.json.Decoder(_Answer | None)


def parse_line(line: bytes) -> AuditEntry | None:
    """Decode a line of the log; None for what is no whole answer."""
    try:
        event = _EVENTS.decode(line)
    except msgspec.DecodeError:
        # A killed API server left half a line, and its successor went on behind it.
        begin = line.rfind(_LINE_BEGINS)
        if begin <= 0:
            return None
        return parse_line(line[begin:])
    return _entry(event) if event.stage != "ResponseStarted" else None


def _entry(event: _Event) -> AuditEntry:
    about = event.object_ref or _About()
    answer = _ANSWERS.decode(event.response_object)
    answered = answer.about() if answer else _Named()
    return AuditEntry(
        verb=event.verb,
        group=about.api_group,
        resource=about.resource,
        subresource=about.subresource,
        namespace=about.namespace,
        name=about.name or answered.name,
        user=event.user.username,
        user_agent=event.user_agent,
        credential=((event.user.extra or {}).get(_CREDENTIAL) or [""])[0],
        received=event.request_received_timestamp.timestamp(),
        answered=event.stage_timestamp.timestamp(),
        code=event.response_status.code if event.response_status else 0,
        uid=answered.uid,
        resource_version=answered.resource_version,
        uri=event.request_uri,
        audit_id=event.audit_id,
        raw_request=event.request_object,
        raw_response=event.response_object,
    )
