"""Controllers that share a kind and a finalizer: shards, of which one cleans up for another.

A finalizer is one entry on an object, whoever put it there. So where two controllers with the same
one serve the same object, the first cleanup that succeeds takes it off, and the object goes, though
the other's may have failed. That is refused where the declarations show it: nothing would be left
to try again.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rws_operator.controller.controller import Controller


def check_shards(controllers: Iterable[Controller[Any]], where: str) -> None:
    """Refuse controllers of the same kind and finalizer that serve the same objects.

    Raises:
        ConfigurationError: Two of them are no shards.
    """
    with_cleanup = [each for each in controllers if each.finalizer_name is not None]
    for one, other in combinations(with_cleanup, 2):
        if _share_finalizer(one, other) and not _may_be_apart(one, other):
            raise ConfigurationError(
                f"{where}: controllers {one.name} and {other.name} both clean up {one.kind.kind} "
                f"objects under the finalizer {one.finalizer_name}, which the first that succeeds "
                "takes off for both",
                remedy="give each a finalizer of its own, or, if they are shards, both another "
                "label_selector, both another field_selector, or both other namespaces",
            )


def _share_finalizer(one: Controller[Any], other: Controller[Any]) -> bool:
    kinds = {(each.kind.group, each.kind.kind) for each in (one, other)}  # in whatever version
    return len(kinds) == 1 and one.finalizer_name == other.finalizer_name


def _may_be_apart(one: Controller[Any], other: Controller[Any]) -> bool:
    """Whether no object need be in both selections."""
    if one.namespaces and other.namespaces and not set(one.namespaces) & set(other.namespaces):
        return True
    return _differ(one.label_selector, other.label_selector) or _differ(
        one.field_selector, other.field_selector
    )


def _differ(one: str | None, other: str | None) -> bool:
    return bool(one and other and one != other)
