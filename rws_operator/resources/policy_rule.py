"""An RBAC rule as data: which verbs on which resources of a group.

Controllers and the Operator collect them; `rws_operator.manifests` merges and prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One RBAC rule.

    Args:
        group: API group, "" for core.
        resources: Plural names, with a subresource after a slash, e.g. ``backups/status``.
        verbs: e.g. ``("get", "list", "watch")``.
        resource_names: Restricts the rule to objects of these names; () for all.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Lists read better at the call; tuples keep the rule hashable.
        for field in ("resources", "verbs", "resource_names"):
            value = getattr(self, field)
            object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))

    def to_wire(self) -> dict[str, Any]:
        """The rule as it stands in a Role."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.resource_names:
            rule["resourceNames"] = list(self.resource_names)
        return rule
