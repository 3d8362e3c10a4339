"""A kind: what an API server calls a type of object, and the path it answers on.

Kinds are plain values. Built-in ones stand in `rws_operator.resources.kinds`; a
CustomResource class carries its own (`kind_of`); any other is spelt out by hand. Nothing here
speaks to a server, so a wrong plural shows as a 404 that names the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class ObjectKey(NamedTuple):
    """What tells objects of one kind apart: namespace ("" for cluster scope) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of object of the API server.

    Args:
        api_version: Group and version as on the wire, e.g. ``batch/v1``, or ``v1`` for core.
        kind: The kind's name, e.g. ``CronJob``.
        plural: The resource's name in paths and RBAC rules, e.g. ``cronjobs``.
        namespaced: Whether objects live in a namespace (True) or in the cluster.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group, "" for core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.api_version.rpartition("/")[2]

    @property
    def resource(self) -> str:
        """The resource's full name, e.g. ``cronjobs.batch``; core kinds have no suffix."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """The path of the collection, of one object or of its subresource.

        Args:
            namespace: None for all namespaces, and for cluster-scoped kinds.
            name: None for the collection.
            subresource: e.g. ``status``; needs a name.
        """
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.kind}.{self.api_version}"
