"""What an apply does while the API server does not know the owner's kind yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rws_operator import kinds
from rws_operator.controller.apply import Applier
from rws_operator.controller.form import reference_to
from rws_operator.errors import Forbidden, RetryAfter
from rws_operator.resources import Kind

NEW_KIND = (
    'cronjobs.batch "orders" is forbidden: cannot set blockOwnerDeletion in this case because '
    "cannot find RESTMapping for APIVersion example.com/v1 Kind Backup: "
    'no matches for kind "Backup" in version "example.com/v1"'
)
NO_PERMISSION = (
    'cronjobs.batch "orders" is forbidden: cannot set blockOwnerDeletion if an ownerReference '
    "refers to a resource you can't set finalizers on"
)


BACKUP = Kind("example.com/v1", "Backup", "backups")


async def refused(message: str, owner: Kind | None) -> None:
    """Apply what the API server refuses so; the words are its own."""

    async def patch(*_: Any) -> None:
        raise Forbidden(403, "Forbidden", message)

    reads = SimpleNamespace(informer=lambda *_: None)
    writes: Any = SimpleNamespace(manager="test", patch=patch, reads=reads)
    proofs: Any = SimpleNamespace()
    schemas: Any = SimpleNamespace()
    metadata = {"name": "a", "namespace": "n"}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    reference = reference_to(document, kinds.ConfigMap)
    await Applier(writes, schemas, proofs, "test").apply(reference, document, owner)


async def test_it_is_tried_again_soon_without_a_failure():
    """The back-off, which doubles, would outlast it."""
    with pytest.raises(RetryAfter, match="does not know the owner's kind yet") as raised:
        await refused(NEW_KIND, BACKUP)
    assert raised.value.seconds == 2.0


@pytest.mark.parametrize(
    "owner", [None, Kind("example.com/v2", "Backup", "backups"), kinds.ConfigMap]
)
async def test_a_kind_that_nobody_may_serve_stays_an_error(owner: Kind | None):
    """An owner reference that the author wrote into the child may name what will never be."""
    with pytest.raises(Forbidden):
        await refused(NEW_KIND, owner)


async def test_a_missing_permission_stays_an_error():
    """Nobody but the author can mend it."""
    with pytest.raises(Forbidden):
        await refused(NO_PERMISSION, BACKUP)
