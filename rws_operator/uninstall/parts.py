"""The documents of an installation, by the part they play when it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rws_operator.resources import Kind, ObjectKey, kind_of, kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MADE = {("coordination.k8s.io", "leases"): kinds.Lease, ("", "secrets"): kinds.Secret}


@dataclass(frozen=True, slots=True)
class Part:
    """One object that the installation consists of."""

    kind: Kind
    key: ObjectKey

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Part:
        """The object of a document."""
        metadata = document["metadata"]
        return cls(kind_of(document), ObjectKey(metadata.get("namespace", ""), metadata["name"]))

    @property
    def namespace(self) -> str | None:
        """Its namespace, None for cluster scope."""
        return self.key.namespace or None

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What goes, in the order of its going."""

    configurations: tuple[Part, ...]
    crds: tuple[Part, ...]
    deployments: tuple[Part, ...]
    others: tuple[Part, ...]
    namespaces: tuple[Part, ...]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> Parts:
        """The parts of an installation's documents.

        What the operator makes itself stands in no document: its Lease and its certificate's
        Secret. The Role that names them does.
        """
        listed = [Part.of(document) for document in documents]
        configurations = (
            kinds.ValidatingWebhookConfiguration,
            kinds.MutatingWebhookConfiguration,
        )
        first = (*configurations, kinds.CustomResourceDefinition, kinds.Deployment, kinds.Namespace)
        # Permissions go last: the operator's last words need them.
        rest = [part for part in reversed(listed) if part.kind not in first]
        return cls(
            configurations=_of_kind(listed, *configurations),
            crds=_of_kind(listed, kinds.CustomResourceDefinition),
            deployments=_of_kind(listed, kinds.Deployment),
            others=(
                *(part for part in rest if "rbac" not in part.kind.group),
                *dict.fromkeys(_made(documents)),
                *(part for part in rest if "rbac" in part.kind.group),
            ),
            namespaces=_of_kind(listed, kinds.Namespace),
        )

    def removed(self, *, keep_crds: bool, delete_namespace: bool) -> list[Part]:
        """What is to be deleted."""
        return [
            *self.configurations,
            *(() if keep_crds else self.crds),
            *self.deployments,
            *self.others,
            *(self.namespaces if delete_namespace else ()),
        ]


def _of_kind(parts: Iterable[Part], *wanted: Kind) -> tuple[Part, ...]:
    return tuple(part for part in parts if part.kind in wanted)


def _made(documents: Sequence[Mapping[str, Any]]) -> list[Part]:
    roles = [document for document in documents if document["kind"] == "Role"]
    return [
        Part(kind, ObjectKey(role["metadata"]["namespace"], name))
        for role in roles
        for rule in role["rules"]
        for (group, plural), kind in _MADE.items()
        if group in rule["apiGroups"] and plural in rule["resources"]
        for name in rule.get("resourceNames", ())
    ]
