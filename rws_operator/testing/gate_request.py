"""A request as the gate sees it, and how tests choose among requests."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict

from rws_operator.testing.selectors import check_selectors

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(eq=False)
class GateRequest:
    """A request that came to the gate.

    Attributes:
        method: The HTTP method.
        path: The path, without query.
        query: The query parameters.
        user_agent: The User-Agent header.
        body: The body.
        verb: Kubernetes' verb: get, list, watch, create, update, patch, delete, deletecollection.
        resource: The plural, e.g. ``widgets``; "" for paths without one, such as ``/version``.
        namespace: The namespace, or "".
        name: The object's name, or "".
        subresource: e.g. ``status``, or "".
        at: When it came, in the loop's seconds.
        status: The answered status; None before, and if none was.
        audit_id: What the audit log calls it, if it was sent on: `AuditEntry.audit_id`. The
            program's own, where it sent an Audit-ID header.
    """

    method: str
    path: str
    query: Mapping[str, str]
    user_agent: str = ""
    body: bytes = field(default=b"", repr=False)
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    status: int | None = None
    audit_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __str__(self) -> str:
        """Who asked for what, and what was answered, in a line."""
        what = "/".join(filter(None, (self.resource, self.subresource))) or self.path
        which = "/".join(filter(None, (self.namespace, self.name)))
        asked = " ".join(filter(None, (self.verb, what, which)))
        return f"{self.user_agent or '-'}: {asked}: {self.status or 'no answer'}"

    @classmethod
    def parse(
        cls, method: str, path: str, query: Mapping[str, str], user_agent: str, body: bytes
    ) -> Self:
        """Read what a path and query mean to Kubernetes."""
        request = cls(method, path, query, user_agent, body)
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
        if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in _NAMESPACE_SUBRESOURCES:
            request.namespace = parts[1]
            parts = parts[2:]
        padded = [*parts, "", "", ""]
        request.resource, request.name, request.subresource = padded[:3]
        if method == "GET":
            is_list = request.resource and not request.name
            is_watch = query.get("watch") in ("true", "1")
            request.verb = "watch" if is_watch else "list" if is_list else "get"
        elif method == "DELETE" and not request.name:
            request.verb = "deletecollection"
        else:
            request.verb = _VERBS.get(method, method.lower())
        return request


@dataclass(frozen=True)
class Match:
    """Which requests; every field that is set must fit.

    Args:
        verb: Kubernetes' verb, e.g. ``watch``, or several.
        resource: The plural, e.g. ``widgets``.
        namespace: The namespace.
        name: The object's name.
        subresource: e.g. ``status``; "" for requests of the object itself.
        path: A part of the path.
        user_agent: A part of the User-Agent header.
        where: Anything else, e.g. ``lambda request: "continue" in request.query``; a fault asks
            it once about each request, so it may also throw a die.
    """

    verb: str | Collection[str] | None = None
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    path: str | None = None
    user_agent: str | None = None
    where: Callable[[GateRequest], bool] | None = None

    @classmethod
    def of(cls, chosen: "Chosen") -> Self:
        """Choose by the keywords of a test.

        Raises:
            ConfigurationError: No request can ever fit.
        """
        check_selectors(chosen, Chosen.__annotations__)
        return cls(**chosen)

    def __str__(self) -> str:
        """What is asked for, as it was written."""
        fields: dict[str, Any] = {key: getattr(self, key) for key in Chosen.__annotations__}
        given = [f"{key}={value!r}" for key, value in fields.items() if value is not None]
        return f"request with {', '.join(given)}" if given else "request"

    def fits(self, request: GateRequest) -> bool:
        """Whether ``request`` is one of them."""
        verbs = (self.verb,) if isinstance(self.verb, str) else self.verb
        if verbs is not None and request.verb not in verbs:
            return False
        for attribute in ("resource", "namespace", "name", "subresource"):
            wanted = getattr(self, attribute)
            if wanted is not None and getattr(request, attribute) != wanted:
                return False
        if self.path is not None and self.path not in request.path:
            return False
        if self.user_agent is not None and self.user_agent not in request.user_agent:
            return False
        return self.where is None or self.where(request)


class Chosen(TypedDict, total=False):
    """The fields of `Match`, as keywords."""

    verb: str | Collection[str]
    resource: str
    namespace: str
    name: str
    subresource: str
    path: str
    user_agent: str
    where: Callable[[GateRequest], bool]
