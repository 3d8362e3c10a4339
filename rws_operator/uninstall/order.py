"""The steps of an uninstall, in order; the package says why in this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.resources import kinds
from rws_operator.uninstall.conversion import is_converted, is_stored_older, revert_conversion
from rws_operator.uninstall.end_of_kinds import delete_kinds, refuse_orphans, release
from rws_operator.uninstall.instances import served_kind
from rws_operator.uninstall.parts import Part, Parts
from rws_operator.uninstall.permissions import Access, check_permissions, needed
from rws_operator.uninstall.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rws_operator.client import Client
    from rws_operator.resources import Kind

TIMEOUT_SECONDS = 120.0
"""How long objects, and after them the namespace, may take to go unless it is said."""


async def uninstall(
    client: Client,
    documents: Sequence[Mapping[str, Any]],
    *,
    finalizers: Mapping[Kind, Sequence[str]],
    converts: Callable[[Mapping[str, Any]], bool] = lambda _: False,
    keep_crds: bool = False,
    delete_namespace: bool = False,
    strip_finalizers: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
    tell: Callable[[str], None],
) -> None:
    """Remove an installation; what is gone already counts as done.

    Args:
        client: An administrator's.
        documents: What installed it.
        finalizers: The finalizers that its controllers put on objects, by kind.
        converts: Whether a CRD, as it is in the cluster, calls it for conversions.
        keep_crds: Leave its CRDs and their objects, converted no more.
        delete_namespace: Delete its namespace too, whatever is in it.
        strip_finalizers: Take the finalizers off without waiting for a cleanup.
        timeout_seconds: How long objects may take to go, and the namespace after them.
        tell: Called with a line for each thing done.

    Raises:
        ConfigurationError: A permission is missing, or objects of others' kinds hold finalizers
            that nobody would take off any more; nothing was changed.
        UninstallIncomplete: Something would not go in time, or kept objects can't be stored
            as they must be without a conversion. As long as it is objects, the operator is left
            running, without its webhook configurations.
        ApiError: The API server refused something.
    """
    parts = Parts.of(documents)
    removal = Removal(client, _by_resource(finalizers), timeout_seconds, tell)
    printed = {each["metadata"]["name"]: served_kind(each) for each in documents if _is_crd(each)}
    foreign = [kind for kind in finalizers if kind.resource not in printed]
    await check_permissions(
        client,
        needed(
            parts,
            [*printed.values(), *foreign],
            is_stripping=strip_finalizers,
            keep_crds=keep_crds,
            delete_namespace=delete_namespace,
        ),
    )
    crds = {part: crd for part in parts.crds if (crd := await removal.read(part)) is not None}
    own = {part: served_kind(crd) for part, crd in crds.items()}
    converted = await _converted(removal, parts.foreign_crds, converts)
    await check_permissions(client, _of_conversions(crds, converted))
    if not (keep_crds or strip_finalizers):
        await refuse_orphans(removal, foreign)

    for part in parts.configurations:
        await removal.delete(part)
    for part, crd in crds.items():
        await revert_conversion(removal, part, crd, keeps_objects=keep_crds)
    for part, crd in converted.items():
        await revert_conversion(removal, part, crd, keeps_objects=True)
    if not keep_crds:
        await delete_kinds(removal, own, strip_finalizers=strip_finalizers)
    for part in parts.deployments:
        await removal.delete_deployment(part)
    for kind in [*own.values(), *foreign] if keep_crds else foreign:
        await release(removal, kind, strip_finalizers=strip_finalizers)
    for part in parts.others:
        await removal.delete_other(part)
    for part in parts.namespaces:
        await (removal.delete_namespace if delete_namespace else removal.leave_namespace)(part)


async def _converted(
    removal: Removal, parts: Sequence[Part], converts: Callable[[Mapping[str, Any]], bool]
) -> dict[Part, dict[str, Any]]:
    """The CRDs of others that call the operator for conversions; tells of those that don't."""
    found = {}
    for part in parts:
        crd = await removal.read(part)
        if crd is None or not is_converted(crd):
            continue
        if converts(crd):
            found[part] = crd
        else:
            removal.tell(f"left the conversion of {part.key.name}: it does not call this operator")
    return found


def _of_conversions(
    own: Mapping[Part, Mapping[str, Any]], foreign: Mapping[Part, Mapping[str, Any]]
) -> list[Access]:
    """What may be done where conversions end: patch CRDs, and store objects anew."""
    older = [served_kind(crd) for crd in (*own.values(), *foreign.values()) if is_stored_older(crd)]
    return [
        *(Access("patch", part.kind, name=part.key.name) for part in foreign),
        *(Access(verb, kind) for kind in older for verb in ("get", "list", "patch")),
    ]


def _is_crd(document: Mapping[str, Any]) -> bool:
    return bool(document["kind"] == kinds.CustomResourceDefinition.kind)


def _by_resource(finalizers: Mapping[Kind, Sequence[str]]) -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {}
    for kind, each in finalizers.items():
        names[kind.resource] = names.get(kind.resource, frozenset()).union(each)
    return names
