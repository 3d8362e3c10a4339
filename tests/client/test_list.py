"""Lists that expire half-way, on a scripted server: a real one takes minutes to forget."""

import pytest

from rws_operator import errors, kinds
from tests.client.scripted import ScriptedServer, ok, status, targets


def page(*names: str, more: str = "") -> object:
    """Return a page of a list."""
    items = [{"metadata": {"name": name}} for name in names]
    return {"metadata": {"continue": more}, "items": items}


async def test_a_list_whose_pages_expire_is_read_again_in_one_piece(
    server: ScriptedServer,
) -> None:
    """What was read before is dropped, so that no object is given twice or as it was."""
    server.answer(ok(page("a", "b", more="next")), status(410, "Expired"), ok(page("b", "c")))
    async with server.client() as client:
        found = await client.list(kinds.ConfigMap, label_selector="a=b", limit=2)
    assert [one["metadata"]["name"] for one in found] == ["b", "c"]
    path = "GET /api/v1/configmaps?labelSelector=a%3Db"
    assert targets(server.seen) == [f"{path}&limit=2", f"{path}&limit=2&continue=next", path]


async def test_a_list_that_is_refused_as_expired_is_not_asked_for_ever(
    server: ScriptedServer,
) -> None:
    """A 410 that has nothing to do with pages is the caller's."""
    server.answer(status(410, "Expired"))
    async with server.client() as client:
        with pytest.raises(errors.Expired):
            await client.list(kinds.ConfigMap)
    assert len(server.seen) == 1


async def test_an_empty_list(server: ScriptedServer) -> None:
    """Go writes an empty list as null."""
    server.answer(ok({"metadata": {}, "items": None}))
    async with server.client() as client:
        assert await client.list(kinds.ConfigMap) == []
