"""Whether all of an uninstall may be done, asked before any of it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rws_operator.client import Client
    from rws_operator.resources import Kind
    from rws_operator.uninstall.parts import Parts


class Access(NamedTuple):
    """One thing to be done to an object, or to all of a kind."""

    verb: str
    kind: Kind
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.verb} {self.kind.resource} {self.name}".rstrip()
        return f"{what} in {self.namespace}" if self.namespace else what


def needed(
    parts: Parts,
    kinds_touched: Iterable[Kind],
    *,
    is_stripping: bool,
    keep_crds: bool,
    delete_namespace: bool,
) -> list[Access]:
    """What an uninstall does, as far as its documents tell.

    Args:
        parts: What goes.
        kinds_touched: Kinds whose objects are looked at.
        is_stripping: Whether they lose finalizers.
        keep_crds: Whether the CRDs stay.
        delete_namespace: Whether the namespace goes.
    """
    accesses = [
        Access(verb, part.kind, part.key.namespace, part.key.name)
        for part in parts.removed(keep_crds=keep_crds, delete_namespace=delete_namespace)
        for verb in ("get", "delete")
    ]
    accesses += [
        Access(verb, part.kind, name=part.key.name)
        for part in parts.crds
        for verb in ("get", "patch")
    ]
    accesses += [
        Access("get", part.kind, name=part.key.name)
        for part in (*parts.foreign_crds, *parts.namespaces)
    ]
    for kind in kinds_touched:
        accesses += [Access(verb, kind) for verb in ("get", "list")]
        accesses += [Access("patch", kind)] if is_stripping else []
    return list(dict.fromkeys(accesses))


async def check_permissions(client: Client, accesses: Sequence[Access]) -> None:
    """Refuse to begin what could not be ended.

    Raises:
        ConfigurationError: A permission is missing; the message names each.
    """
    missing = [str(access) for access in accesses if not await _may(client, access)]
    if missing:
        raise ConfigurationError(
            f"nothing was removed: this user may not {'; '.join(missing)}",
            remedy="use a kubeconfig that may, with --kubeconfig",
        )


async def _may(client: Client, access: Access) -> bool:
    attributes = {
        "group": access.kind.group,
        "resource": access.kind.plural,
        "verb": access.verb,
        "namespace": access.namespace,
        "name": access.name,
    }
    review = await client.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
        kind=kinds.SelfSubjectAccessReview,
    )
    return bool(review["status"]["allowed"])
