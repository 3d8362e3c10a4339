"""The caBundle of our webhook entries: what it must hold, and the patch that makes it so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.resources.policy_rule import PolicyRule


@dataclass(frozen=True)
class BundleTargets:
    """Whose caBundle is ours to keep.

    Args:
        service: (name, namespace) of our Service; None where the API server calls a URL.
        validating: Name of a ValidatingWebhookConfiguration → names of our entries in it.
        mutating: The same of MutatingWebhookConfigurations.
        crds: Names of the CRDs that we convert.
    """

    service: tuple[str, str] | None = None
    validating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mutating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    crds: tuple[str, ...] = ()


def ca_bundle_rules(targets: BundleTargets) -> list[PolicyRule]:
    """The rules that a Keeper needs in a ClusterRole."""
    raise NotImplementedError
