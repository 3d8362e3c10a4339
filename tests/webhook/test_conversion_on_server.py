"""Conversions as the real API server asks for them: reads, lists, watches, applies, old objects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rws_operator.client.content_type import APPLY_PATCH, MERGE_PATCH
from rws_operator.errors import ApiError, Invalid
from rws_operator.testing import eventually
from rws_operator.watch.lines import LineSplitter
from rws_operator.webhook.conversion import RawConversion, TypedConversion
from rws_operator.webhook.converters import Converters
from tests.webhook.conversion_kit import (
    CRDS,
    Spec,
    apply_crd,
    installed,
    serving,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing import TestCluster, TestNamespace
    from tests.webhook.conversion_kit import Versions

OLD = {
    "cron": "@daily",
    "keep": 3,
    "targets": [{"bucket": "b", "colour": "red"}],
    "more": {"x": 1.5},
}
STORED = {
    "schedule": "@daily",
    "retentionDays": 3,
    "targets": [{"bucket": "b"}],
    "more": {"x": 1.5},
}
NEWEST = {
    "when": {"schedule": "@daily"},
    "retentionDays": 3,
    "targets": [{"bucket": "b"}],
    "more": {"x": 1.5},
}


class Objects:
    """The objects of one kind in one namespace, at whichever version."""

    def __init__(self, cluster: TestCluster, namespace: TestNamespace, versions: Versions) -> None:
        self.client = cluster.client
        self.namespace = namespace.name
        self.versions = versions

    async def create(
        self, version: str, name: str, spec: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Create an object at a version."""
        body = self.versions.object(version, name, spec, **more)
        return await self.request("POST", version, body=body)

    async def get(self, version: str, name: str) -> dict[str, Any]:
        """Read an object at a version."""
        return await self.request("GET", version, name)

    async def spec(self, version: str, name: str) -> Any:
        """Read an object's spec at a version."""
        return (await self.get(version, name))["spec"]

    async def list(self, version: str) -> list[dict[str, Any]]:
        """List all objects at a version."""
        items: list[dict[str, Any]] = (await self.request("GET", version))["items"]
        return items

    async def apply(
        self, version: str, name: str, manager: str, spec: dict[str, Any]
    ) -> dict[str, Any]:
        """Apply an object at a version."""
        return await self.request(
            "PATCH",
            version,
            name,
            params={"fieldManager": manager, "force": "true"},
            body=self.versions.object(version, name, spec),
            content_type=APPLY_PATCH,
        )

    async def request(
        self, verb: str, version: str, name: str | None = None, after: str = "", **options: Any
    ) -> dict[str, Any]:
        """Send a request to the collection or an object."""
        path = self.versions.path(version, self.namespace, name) + after
        answer: dict[str, Any] = (await self.client.request(verb, path, **options)).json()
        return answer


async def test_object_at_every_version(cluster, namespace):
    """Stored from the oldest, read at each, and back: the content follows, the rest is the same."""
    versions = versions_of()
    async with installed(cluster, versions):
        objects = Objects(cluster, namespace, versions)
        metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.test/y"]}
        made = await objects.create("v1alpha1", "a", OLD, metadata=metadata)
        read = {version: await objects.get(version, "a") for version in ("v1alpha1", "v1", "v2")}
        await objects.request(
            "PATCH",
            "v1",
            "a",
            body={"metadata": {"finalizers": None}},
            content_type=MERGE_PATCH,
        )
    # The API server prunes what a list's items have and their schema has not.
    assert made["spec"] == {**OLD, "targets": [{"bucket": "b"}]}
    assert read["v1alpha1"] == made
    assert read["v1"]["spec"] == STORED
    assert read["v2"]["spec"] == NEWEST
    for version, obj in read.items():
        assert obj["apiVersion"] == versions.api_version(version)
        assert obj["metadata"] == made["metadata"]
        assert obj["metadata"]["managedFields"]
        assert "status" not in obj


@pytest.mark.parametrize("version", ["v1alpha1", "v1", "v2"])
async def test_what_is_read_can_be_written_back_without_a_change(cluster, namespace, version):
    """The API server itself finds no difference: nothing is lost, invented or written otherwise."""
    versions = versions_of()
    # v2 moves suspend to a group, where an explicit null has no place.
    suspend = {} if version == "v2" else {"suspend": None}
    spec = {**STORED, **suspend, "targets": [{"bucket": "b", "region": None}]}
    async with installed(cluster, versions):
        objects = Objects(cluster, namespace, versions)
        for number, status in enumerate([None, {}, {"ready": False}, {"ready": True, "runs": 1}]):
            name = f"b{number}"
            await objects.create("v1", name, spec)
            if status is not None:
                await objects.request(
                    "PATCH",
                    "v1",
                    name,
                    "/status",
                    body={"status": status},
                    content_type=MERGE_PATCH,
                )
            before = await objects.get("v1", name)
            for path in ("", "/status"):
                body = await objects.get(version, name)
                await objects.request("PUT", version, name, path, body=body)
            after = await objects.get("v1", name)
            assert after == before
            assert after["spec"] == spec
            assert after.get("status") == status


async def test_list_of_several_versions(cluster, namespace):
    """A list at one version holds all objects."""
    versions = versions_of()
    async with installed(cluster, versions):
        objects = Objects(cluster, namespace, versions)
        for number, (version, spec) in enumerate(
            [("v1alpha1", {"cron": "0"}), ("v1", {"schedule": "1"})] * 10
        ):
            await objects.create(version, f"b{number:02}", spec)
        listed = await objects.list("v2")
    assert [each["spec"]["when"]["schedule"] for each in listed] == ["0", "1"] * 10


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The events of a watch."""
    splitter = LineSplitter()
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield msgspec.json.decode(line)


async def test_watch_at_another_version(cluster, namespace):
    """Events come in the version that is watched, deletions too."""
    versions = versions_of()
    async with installed(cluster, versions):
        objects = Objects(cluster, namespace, versions)
        path = versions.path("v1alpha1", namespace.name)
        events: list[tuple[str, str]] = []
        async with asyncio.timeout(20):
            async with cluster.client.stream(path, params={"watch": "true"}) as lines:
                await objects.create("v1", "a", STORED)
                await objects.apply("v2", "a", "m", {"when": {"schedule": "@weekly"}})
                await objects.request("DELETE", "v1", "a")
                async for event in events_of(lines):
                    assert event["object"]["apiVersion"] == versions.api_version("v1alpha1")
                    events.append((event["type"], event["object"]["spec"]["cron"]))
                    if event["type"] == "DELETED":
                        break
    assert events == [("ADDED", "@daily"), ("MODIFIED", "@weekly"), ("DELETED", "@weekly")]


async def test_apply_of_parts_at_several_versions(cluster, namespace):
    """Each manager applies its own fields at its own version; giving fields up works too.

    The API server then has parts of objects converted, without fields that are required.
    """
    versions = versions_of()
    async with installed(cluster, versions) as server:
        objects = Objects(cluster, namespace, versions)
        await objects.apply("v1alpha1", "a", "one", {"cron": "1", "keep": 3})
        await objects.apply("v1", "a", "two", {"schedule": "1", "suspend": True})
        await objects.apply("v2", "a", "three", {"when": {"schedule": "1"}, "more": "x"})
        assert await objects.spec("v1", "a") == {
            "schedule": "1",
            "retentionDays": 3,
            "suspend": True,
            "targets": [],
            "more": "x",
        }
        # Now without the required field, which others still own.
        await objects.apply("v1alpha1", "a", "one", {"keep": 4})
        await objects.apply("v1", "a", "two", {"suspend": False})
        assert await objects.spec("v1alpha1", "a") == {
            "cron": "1",
            "keep": 4,
            "suspend": False,
            "targets": [],
            "more": "x",
        }
        await objects.apply("v1", "a", "two", {"retentionDays": 4})
        assert "suspend" not in await objects.spec("v1", "a")
        # And without it where nobody else does.
        with pytest.raises(Invalid, match=r"spec\.when.*: Required value"):
            await objects.apply("v2", "a", "three", {"more": "x"})
        parts = [
            each["spec"]
            for review in server.reviews
            for each in review["request"]["objects"]
            if not {"cron", "schedule", "when"} & each.get("spec", {}).keys()
        ]
        results = {each["response"]["result"]["status"] for each in server.answers}
    assert parts, "the API server sent no part; the test proves nothing"
    assert results == {"Success"}


async def test_objects_stored_at_versions_that_are_not_stored_any_more(cluster, namespace):
    """After a change of the storage version old objects are read, and written anew when changed."""
    first = versions_of(stored="v1")
    then = versions_of(first.group, stored="v2")
    async with serving(TypedConversion("/convert", first.converters)) as server:
        objects = Objects(cluster, namespace, first)
        document = await apply_crd(cluster, first.v1, [first.v1alpha1, first.v2], server.target)
        try:
            await objects.create("v1alpha1", "a", OLD)
            server.endpoint = TypedConversion("/convert", then.converters)
            await apply_crd(cluster, then.v2, [then.v1alpha1, then.v1], server.target)

            async def is_moved() -> bool:
                crd = await cluster.client.request("GET", f"{CRDS}/{document['metadata']['name']}")
                return bool(crd.json()["status"]["storedVersions"] == ["v1", "v2"])

            await eventually(20, is_moved)
            assert await objects.spec("v1alpha1", "a") == {**OLD, "targets": [{"bucket": "b"}]}
            assert await objects.spec("v1", "a") == STORED
            assert await objects.spec("v2", "a") == NEWEST
            server.reviews.clear()
            await objects.apply("v1", "a", "m", {"schedule": "@weekly"})
            assert await objects.spec("v2", "a") == {**NEWEST, "when": {"schedule": "@weekly"}}
            assert (await objects.spec("v1alpha1", "a"))["cron"] == "@weekly"
            wanted = {each["request"]["desiredAPIVersion"] for each in server.reviews}
        finally:
            await cluster.client.request("DELETE", f"{CRDS}/{document['metadata']['name']}")
    assert first.api_version("v2") in wanted


async def test_bad_object_in_a_list(cluster, namespace):
    """The message that kubectl shows names the object, both versions and the reason."""
    versions = versions_of()
    async with installed(cluster, versions) as server:
        objects = Objects(cluster, namespace, versions)
        converters = Converters()

        def refuse(new: Any) -> Any:
            if new.name == "bad":
                raise ValueError("hunter2")
            return versions.v1alpha1.from_wire(
                versions.object("v1alpha1", new.name, {"cron": "x"}, metadata={})
            )

        converters.add(versions.v1, versions.v1alpha1, refuse)
        # First: what the API server has converted before, its cache of the version goes on to list.
        server.endpoint = TypedConversion("/convert", converters)
        await objects.create("v1", "good", STORED)
        await objects.create("v1", "bad", STORED)
        with pytest.raises(ApiError) as caught:
            await objects.get("v1alpha1", "bad")
        message = str(caught.value)
        assert f"Backup {namespace.name}/bad can't be converted from " in message
        assert (
            f"from {versions.api_version('v1')} to {versions.api_version('v1alpha1')}: " in message
        )
        assert "refuse raised ValueError: see the operator's log" in message
        assert "hunter2" not in message
        with pytest.raises(ApiError, match=r"good can't be .* changed metadata\.namespace from"):
            await objects.get("v1alpha1", "good")
        with pytest.raises(ApiError, match=f"Backup {namespace.name}/bad can't be converted"):
            await objects.list("v1alpha1")
        assert len(await objects.list("v1")) == 2


async def test_function_that_changes_what_it_must_not(cluster, namespace):
    """A changed uid is refused by us, with the object's name, before the API server does."""
    versions = versions_of()
    async with installed(cluster, versions) as server:
        objects = Objects(cluster, namespace, versions)

        def steal(old: Any) -> Any:
            old.metadata.uid = "another"
            return versions.v1(metadata=old.metadata, spec=Spec(schedule=old.spec.cron))

        converters = Converters()
        converters.add(versions.v1alpha1, versions.v1, steal)
        server.endpoint = TypedConversion("/convert", converters)
        with pytest.raises(ApiError, match=r"Backup .*/a can't be .* changed metadata\.uid from '"):
            await objects.create("v1alpha1", "a", OLD)


async def test_function_that_changes_labels_and_annotations(cluster, namespace):
    """They are stored as the function made them, and managed fields stay."""
    versions = versions_of()
    async with installed(cluster, versions) as server:
        objects = Objects(cluster, namespace, versions)

        def mark(old: Any) -> Any:
            old.metadata.annotations["keep"] = str(old.spec.keep)
            old.metadata.labels.pop("old")
            return versions.v1(metadata=old.metadata, spec=Spec(schedule=old.spec.cron))

        converters = Converters()
        converters.add(versions.v1alpha1, versions.v1, mark)
        server.endpoint = TypedConversion("/convert", converters)
        with pytest.raises(ApiError, match="has no converter from v1 to v1alpha1"):
            # It is stored, but the answer would have to be of the version that was sent.
            await objects.create("v1alpha1", "a", OLD, metadata={"labels": {"old": "1"}})
        stored = await objects.get("v1", "a")
    assert stored["metadata"]["annotations"] == {"keep": "3"}
    assert "labels" not in stored["metadata"]
    assert stored["metadata"]["managedFields"]


async def test_function_that_hangs(cluster, namespace):
    """The API server gets an answer at our deadline, and other objects are not held up."""
    versions = versions_of()
    async with installed(cluster, versions) as server:
        objects = Objects(cluster, namespace, versions)
        await objects.create("v1", "a", STORED)

        async def hang(_: Any) -> Any:
            await asyncio.sleep(30)

        converters = Converters()
        converters.add(versions.v1, versions.v1alpha1, hang)
        endpoint = TypedConversion("/convert", converters)
        endpoint.timeout_seconds = 0.3
        server.endpoint = endpoint
        with pytest.raises(
            ApiError, match=f"Backup {namespace.name}/a can't be .*hang was not done"
        ):
            await objects.get("v1alpha1", "a")
        assert await objects.spec("v1", "a") == STORED


async def test_raw_function(cluster, namespace):
    """A function on dicts serves the same kind."""
    versions = versions_of()

    def convert(obj: dict[str, Any], desired: str) -> dict[str, Any]:
        spec = obj["spec"]
        if desired.endswith("v1alpha1"):
            spec["cron"] = spec.pop("schedule")
        elif "cron" in spec:
            spec["schedule"] = spec.pop("cron")
        return obj

    async with installed(cluster, versions, RawConversion("/convert", convert)):
        objects = Objects(cluster, namespace, versions)
        made = await objects.create("v1alpha1", "a", {"cron": "1", "more": {"x": [1]}})
        read = await objects.get("v1", "a")
    assert made["spec"]["cron"] == "1"
    assert read["spec"]["schedule"] == "1"
    assert read["spec"]["more"] == {"x": [1]}
    assert read["metadata"] == made["metadata"]
