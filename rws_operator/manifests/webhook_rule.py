"""Which requests the API server sends to a webhook: a rule on resources and operations.

Checked as the API server checks it; what a rule would never match for a slip of spelling (a
kind's name in place of its plural, a verb in place of an operation) is refused with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from rws_operator.controller.checks import check_type
from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]
RuleScope = Literal["*", "Namespaced", "Cluster"]


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Requests of some resources of one group and version.

    Args:
        group: API group, "" for core, "*" for all.
        version: Version within the group, "*" for all.
        resource: Plural name, or several; a subresource after a slash, e.g. ``pods/status``.
        operations: What is done to the object, one or several of CREATE, UPDATE, DELETE, CONNECT;
            "*" for all.
        scope: Whether only objects within namespaces, or only those outside, are meant.

    Raises:
        ConfigurationError: The API server would not take it.
    """

    group: str
    version: str
    resource: str | Sequence[str]
    operations: Operation | Sequence[Operation]
    scope: RuleScope = "*"

    def __post_init__(self) -> None:
        for field in ("resource", "operations"):
            value: Any = getattr(self, field)
            object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))
        where = f"webhook rule on {'.'.join((*self.resource, self.group))}"
        check_type(self.group, str, f"{where}: group", 'pass a text; "" is the core group')
        check_type(self.version, str, f"{where}: version", 'pass a text such as "v1"')
        if not self.version or "/" in self.version:
            raise ConfigurationError(
                f"{where}: version {self.version!r}", remedy='write it alone, e.g. "v1"'
            )
        _check_operations(tuple(self.operations), where)
        _check_resources(tuple(self.resource), where)
        if self.scope not in get_args(RuleScope):
            raise ConfigurationError(
                f"{where}: scope {self.scope!r}", remedy=f"use one of {get_args(RuleScope)}"
            )

    def to_wire(self) -> dict[str, Any]:
        """The rule as it stands in a webhook's ``rules``."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "operations": list(self.operations),
            "resources": list(self.resource),
            "scope": self.scope,
        }


def _check_operations(operations: tuple[Any, ...], where: str) -> None:
    if not operations or any(each not in get_args(Operation) for each in operations):
        raise ConfigurationError(
            f"{where}: operations {operations!r}",
            remedy=f"use one or more of {', '.join(get_args(Operation))}",
        )
    if "*" in operations and len(operations) > 1:
        raise ConfigurationError(
            f"{where}: operations {operations!r}",
            remedy="'*' means all of them: let it stand alone",
        )


def _check_resources(resources: tuple[Any, ...], where: str) -> None:
    if not resources:
        raise ConfigurationError(f"{where}: no resource", remedy='name one, e.g. "pods"')
    for each in resources:
        check_type(each, str, f"{where}: resource", 'pass a plural name such as "pods"')
        plural, slash, subresource = each.partition("/")
        if not plural or each != each.lower() or (slash and not subresource):
            raise ConfigurationError(
                f"{where}: resource {each!r} is no plural name of a resource",
                remedy='write it as in a path, e.g. "pods" or "pods/status"',
            )
    for each in resources:
        swallowed = [other for other in resources if other != each and _holds(each, other)]
        if swallowed:
            raise ConfigurationError(
                f"{where}: resource {each!r} holds {swallowed[0]!r} already",
                remedy=f"leave {swallowed[0]!r} out",
            )


def _holds(pattern: str, resource: str) -> bool:
    """Whether a pattern matches all that another one does."""
    if pattern == "*/*":
        return True
    wild, slash, wild_sub = pattern.partition("/")
    plural, has_sub, subresource = resource.partition("/")
    if bool(slash) != bool(has_sub):
        return False
    return wild in ("*", plural) and (not slash or wild_sub in ("*", subresource))
