"""The documents of an installation, by the part they play when it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rws_operator.manifests.monitoring import PROMETHEUS_RULE, SERVICE_MONITOR
from rws_operator.manifests.names import selector
from rws_operator.resources import Kind, ObjectKey, kind_of, kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MADE = (kinds.Lease, kinds.Secret)
_CONVERTED = (kinds.CustomResourceDefinition,)
_MONITORING = {each.kind: each for each in (SERVICE_MONITOR, PROMETHEUS_RULE)}
_ON_REQUEST = (kinds.NetworkPolicy, kinds.ConfigMap, *_MONITORING.values())


@dataclass(frozen=True, slots=True)
class Part:
    """One object that the installation consists of."""

    kind: Kind
    key: ObjectKey
    labels: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Without which an object of this name is somebody else's."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Part:
        """The object of a document.

        What is printed on request only may never have been applied: an object of that name is
        the operator's only if it is labelled as such.
        """
        metadata = document["metadata"]
        kind = _MONITORING.get(document["kind"]) or kind_of(document)
        labels = {
            name: metadata["labels"][name] for name in (selector("") if kind in _ON_REQUEST else ())
        }
        return cls(kind, ObjectKey(metadata.get("namespace", ""), metadata["name"]), labels)

    def is_foreign(self, found: Mapping[str, Any]) -> bool:
        """Whether an object that was found under its name is somebody else's."""
        return not self.labels.items() <= found["metadata"].get("labels", {}).items()

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
    foreign_crds: tuple[Part, ...]
    """Of others, which it may have converted; they stay."""
    deployments: tuple[Part, ...]
    others: tuple[Part, ...]
    namespaces: tuple[Part, ...]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> Parts:
        """The parts of an installation's documents.

        What the operator makes itself stands in no document: its Lease and its certificate's
        Secret; nor do the CRDs of others that it converts. The roles that name them do. The Lease
        goes before the Secret: who holds it still would put the Secret back.
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
            foreign_crds=tuple(
                each for each in _named(documents, _CONVERTED) if each not in listed
            ),
            deployments=_of_kind(listed, kinds.Deployment),
            others=(
                *(part for part in rest if "rbac" not in part.kind.group),
                *_named(documents, _MADE),
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


def _named(documents: Sequence[Mapping[str, Any]], wanted: Sequence[Kind]) -> list[Part]:
    """What the roles name of some kinds, in the order of these."""
    roles = [each for each in documents if each["kind"] in ("Role", "ClusterRole")]
    found = (
        Part(kind, ObjectKey(role["metadata"].get("namespace", ""), name))
        for kind in wanted
        for role in roles
        for rule in role["rules"]
        if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]
        for name in rule.get("resourceNames", ())
        if kind.namespaced == ("namespace" in role["metadata"])
    )
    return list(dict.fromkeys(found))
