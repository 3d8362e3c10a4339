"""Owner references: checked and joined.

The API server accepts pairs that the garbage collector then deletes or never collects (a
namespaced owner of a cluster-scoped child, an owner in another namespace, a stale uid), so
they are refused here, before anything is sent. So is a second controller of a child: a manager's
forced apply drops the references of its earlier ones, so the server would see but one at a time,
and the owners would take the child from each other for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.errors import OwnerReferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.resources.kind import Kind
    from rws_operator.resources.record import ObjectRecord


def check_owner(
    owner_kind: Kind,
    owner_namespace: str | None,
    owner_uid: str | None,
    child_kind: Kind,
    child_namespace: str | None,
) -> None:
    """Check that an object may own another.

    Args:
        owner_kind: The owner's kind.
        owner_namespace: None or "" for cluster scope.
        owner_uid: As the API server gave it.
        child_kind: The child's kind.
        child_namespace: None or "" for cluster scope.

    Raises:
        OwnerReferenceError: Says which of the two is wrong and what to do.
    """
    pair = f"{owner_kind.kind} can't own {child_kind.kind}"
    if not owner_uid:
        raise OwnerReferenceError(
            f"{pair}: the owner has no uid", remedy="pass the object as the API server gave it"
        )
    if not owner_kind.namespaced:
        return
    if not child_kind.namespaced:
        raise OwnerReferenceError(
            f"{pair}: a namespaced owner of a cluster-scoped child would never be found by the "
            "garbage collector",
            remedy="delete the child in a finalizer's cleanup, or own it by a cluster-scoped kind",
        )
    if (owner_namespace or "") != (child_namespace or ""):
        raise OwnerReferenceError(
            f"{pair} in another namespace ({owner_namespace} and {child_namespace}): the garbage "
            "collector would delete the child",
            remedy="put the child into the owner's namespace",
        )


def add_owner(
    references: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Owner references with ours among them; entries of other owners stay.

    Raises:
        OwnerReferenceError: Another owner controls the child already.
    """
    others = [dict(each) for each in references if each.get("uid") != reference["uid"]]
    for other in others:
        if other.get("controller") and reference.get("controller"):
            raise OwnerReferenceError(
                f"{reference['kind']} {reference['name']} can't control the child: "
                f"{other.get('kind')} {other.get('name')} does already",
                remedy="give the child another name, or leave controller out of the other entry",
            )
    return [*others, dict(reference)]


def check_controller(
    child: str, held: ObjectRecord, references: Sequence[Mapping[str, Any]]
) -> None:
    """Check that a child which is there may get the controller that its new references name.

    The earlier controller may be an object that was deleted and made again as the new one (same
    kind and name, another uid). And it may be named among the new references: then it is meant to
    be a plain owner from now on.

    Args:
        child: Names the child in the error.
        held: The child as it is.
        references: The owner references that it is to have.

    Raises:
        OwnerReferenceError: Another object controls the child.
    """
    ours = next((each for each in references if each.get("controller")), None)
    theirs = next((each for each in held.owners if each.controller), None)
    if ours is None or theirs is None:
        return
    if theirs.uid in {each.get("uid") for each in references}:
        return
    api_version, kind, name = (ours.get(each) or "" for each in ("apiVersion", "kind", "name"))
    held_name = _group(theirs.api_version), theirs.kind, theirs.name
    if held_name == (_group(api_version), kind, name):
        return
    raise OwnerReferenceError(
        f"{kind} {name} can't control {child}: {theirs.kind} {theirs.name} (uid {theirs.uid}) "
        "does already",
        remedy="give each owner a child of its own, e.g. with the owner's name in the child's; to "
        f"hand this one over, name {theirs.name} in its ownerReferences without controller",
    )


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
