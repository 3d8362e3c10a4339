"""The permissions of one account, to be taken away and given back while it works.

RBAC only allows, so what is revoked is taken out of the Roles that allow it. Invariant: a change
counts as done when the API server says so.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from rws_operator.client import Client

_ROLES = {kind.kind: kind for kind in (kinds.ClusterRole, kinds.Role)}
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_EFFECTIVE_SECONDS = 20.0


@dataclass(frozen=True)
class _Revocation:
    """What is taken away; None stands for any."""

    verb: str | None
    resource: str | None

    def takes(self, verb: str, resource: str) -> bool:
        return self.verb in (None, verb) and self.resource in (None, resource)


@dataclass
class _Role:
    """A Role or ClusterRole as it was made."""

    path: str
    namespace: str
    rules: Sequence[Mapping[str, Any]]

    def single(self) -> Iterator[tuple[Mapping[str, Any], str, str]]:
        """Each resource and verb that it allows, with the rule that says so."""
        for rule in self.rules:
            for resource in rule.get("resources", ()):
                for verb in _VERBS if "*" in rule["verbs"] else rule["verbs"]:
                    yield rule, resource, verb

    def first(
        self, revocation: _Revocation, unless: Sequence[_Revocation] = ()
    ) -> dict[str, Any] | None:
        """The attributes of something that it allows and that one takes away, and no other."""
        for rule, resource, verb in self.single():
            others = any(other.takes(verb, resource) for other in unless)
            if revocation.takes(verb, resource) and not others:
                plural, _, subresource = resource.partition("/")
                return {
                    "group": rule["apiGroups"][0],
                    "resource": plural,
                    "subresource": subresource,
                    "verb": verb,
                    "namespace": self.namespace,
                    "name": (rule.get("resourceNames") or [""])[0],
                }
        return None

    def without(self, revocations: Sequence[_Revocation]) -> list[dict[str, Any]]:
        """Its rules without what is taken away."""
        return [
            {**rule, "resources": [resource], "verbs": [verb]}
            for rule, resource, verb in self.single()
            if not any(revocation.takes(verb, resource) for revocation in revocations)
        ]


@dataclass
class Permissions:
    """What one ServiceAccount may do.

    Args:
        client: An administrator's client.
        user: The account's user name.
        groups: Its groups.
        documents: Its Roles and ClusterRoles, as they were applied; all others are left out.
    """

    client: Client
    user: str
    groups: Sequence[str]
    documents: Sequence[Mapping[str, Any]]
    _revoked: list[_Revocation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._roles = [
            _Role(
                kind.path(document["metadata"].get("namespace"), document["metadata"]["name"]),
                document["metadata"].get("namespace", ""),
                document["rules"],
            )
            for document in self.documents
            if (kind := _ROLES.get(document["kind"]))
        ]

    async def wait_until_granted(self) -> None:
        """Wait until the API server knows of every Role."""
        await self._wait(self._roles, _Revocation(None, None), allowed=True)

    @contextlib.asynccontextmanager
    async def revoke(
        self, *, verb: str | None = None, resource: str | None = None
    ) -> AsyncIterator[None]:
        """Take permissions away, and give them back; see `OperatorAccount.revoke`."""
        revocation = _Revocation(verb, resource)
        roles = [role for role in self._roles if role.first(revocation)]
        if not roles:
            what = f"{verb or 'any verb'} on {resource or 'any resource'}"
            raise ConfigurationError(
                f"{self.user} has no permission of {what} that could be revoked",
                remedy="name verb and resource as the operator's rules do, e.g. 'widgets/status'",
            )
        self._revoked.append(revocation)
        try:
            await self._store(roles)
            await self._wait(roles, revocation, allowed=False)
            yield
        finally:
            self._revoked.remove(revocation)
            await self._store(roles)
        await self._wait(roles, revocation, allowed=True)

    async def _store(self, roles: Sequence[_Role]) -> None:
        for role in roles:
            await self.client.request(
                "PATCH",
                role.path,
                body={"rules": role.without(self._revoked)},
                content_type=MERGE_PATCH,
            )

    async def _wait(
        self, roles: Sequence[_Role], revocation: _Revocation, *, allowed: bool
    ) -> None:
        for role in roles:
            if attributes := role.first(revocation, self._revoked if allowed else ()):
                check = partial(self._is, attributes, allowed)
                await eventually(_EFFECTIVE_SECONDS, check, 0.05)

    async def _is(self, attributes: Mapping[str, Any], allowed: bool) -> bool:
        spec = {"user": self.user, "groups": self.groups, "resourceAttributes": attributes}
        answer = await self.client.request("POST", _REVIEWS, body={"spec": spec})
        return bool(answer.json()["status"]["allowed"]) is allowed
