"""The Secret that the replicas share their certificate by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rws_operator.resources.policy_rule import PolicyRule


def certificate_rules(secret: str) -> list[PolicyRule]:
    """The rules that a Keeper needs in a Role of the Secret's namespace."""
    raise NotImplementedError
