from hypothesis import given
from hypothesis import strategies as st

from rws_operator.cache.store import Store
from rws_operator.resources.kind import ObjectKey
from rws_operator.resources.record import ObjectRecord, OwnerRef

names = st.sampled_from(["a", "b", "c"])
owners = st.lists(st.sampled_from(["u1", "u2"]), max_size=3)


def record(name: str, *owners: str, namespace: str = "ns", raw: bytes = b"{}") -> ObjectRecord:
    """A record with owners of these uids."""
    return ObjectRecord(
        raw=raw,
        key=ObjectKey(namespace, name),
        uid=name,
        resource_version="1",
        generation=0,
        deleting=False,
        finalizers=(),
        owners=tuple(OwnerRef("v1", "K", uid, uid) for uid in owners),
    )


@given(st.lists(st.tuples(names, owners | st.none())))
def test_indexes_follow_the_records(changes: list[tuple[str, list[str] | None]]) -> None:
    """After any puts and removes the owner index and the size are those of the records."""
    store = Store()
    for name, uids in changes:
        if uids is not None:
            store.put(record(name, *uids, raw=b"x" * len(uids)))
        elif store.get(ObjectKey("ns", name)):
            store.remove(ObjectKey("ns", name))
    for uid in ("u1", "u2"):
        wanted = [r for r in store if uid in {owner.uid for owner in r.owners}]
        assert sorted(store.owned_by(uid), key=repr) == sorted(wanted, key=repr)
    assert store.size_bytes == sum(len(r.raw) for r in store)
    assert len(store) == len(store.list())


def test_lists_are_of_one_namespace_or_all() -> None:
    """A namespace's list holds nothing of another's."""
    store = Store()
    store.put(record("a", namespace="one"))
    store.put(record("a", namespace="two"))
    assert [r.key.namespace for r in store.list("two")] == ["two"]
    assert len(store.list()) == 2
    assert store.list("three") == []
