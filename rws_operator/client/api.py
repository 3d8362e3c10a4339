"""The client: Kubernetes' verbs, typed, over the requests of `rest`.

A class (`CustomResource`) gives instances of it, a `Kind` gives dicts as the server sent them.
A client that is `fenced` or `observed` shares its connections with the one it was made from; an
observed one tells of its writes. Invariant: each verb is a `request`, with its deadline and fence.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from rws_operator.client.content_type import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)
from rws_operator.client.document import (
    decoded,
    delete_options,
    document,
    item_of,
    key_in,
    key_of,
    metadata_of,
    path_of,
)
from rws_operator.client.listing import read_pages
from rws_operator.client.path import collection_path, given, list_path, object_path
from rws_operator.client.rest import RestClient
from rws_operator.resources import CustomResource, Kind, ObjectKey, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.client.answer import Answer
    from rws_operator.client.config import ClientConfig
    from rws_operator.client.observer import WriteObserver
    from rws_operator.resources.wire import KubernetesModel, ObjectLike

T = TypeVar("T", bound=CustomResource)

PatchType = Literal["merge", "json", "strategic"]

_PATCHES: dict[PatchType, str] = {
    "merge": MERGE_PATCH,
    "json": JSON_PATCH,
    "strategic": STRATEGIC_MERGE_PATCH,
}


class Client(RestClient):
    """A client of one API server.

    Use it as an async context manager, or `close` it. It may be made outside of an event loop,
    but belongs to the loop of its first request.

    Args:
        config: Where the server is and who we are to it; see `load_config`.
        user_agent: The User-Agent header; default ``rws-operator``.
    """

    def __init__(self, config: ClientConfig, *, user_agent: str | None = None) -> None:
        super().__init__(config, user_agent=user_agent)
        self._observer: WriteObserver | None = None

    def observed(self, observer: WriteObserver) -> Client:
        """Return a client of the same connections and fence whose writes somebody is told of.

        Args:
            observer: Told of each object that is created, replaced, patched, applied or deleted,
                but for dry runs; not of what `request` sends.
        """
        client = self._lent()
        client._observer = observer
        return client

    @overload
    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T: ...
    @overload
    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]: ...
    async def get(
        self, kind: type[CustomResource] | Kind, name: str, namespace: str | None = None
    ) -> Any:
        """Read one object.

        Args:
            kind: A class gives an instance, a `Kind` a dict.
            name: The object's name.
            namespace: Its namespace; None for a cluster-scoped kind.

        Raises:
            NotFound: There is none.
        """
        answer = await self.request("GET", object_path(kind_of(kind), name, namespace))
        return decoded(kind, answer.body)

    @overload
    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> list[T]: ...
    @overload
    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: type[T] | Kind,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> Any:
        """Read all objects of a kind, page by page.

        Args:
            kind: A class gives instances, a `Kind` dicts.
            namespace: None for all namespaces.
            label_selector: e.g. ``app=web``.
            field_selector: e.g. ``metadata.name=web``.
            limit: Objects a page.
        """
        resource = kind_of(kind)
        path = list_path(resource, namespace)
        return await read_pages(
            lambda page: self.request("GET", path, params=page),
            partial(item_of, kind, resource),
            given(labelSelector=label_selector, fieldSelector=field_selector),
            limit,
        )

    @overload
    async def create(
        self,
        obj: T,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> T: ...
    @overload
    async def create(
        self,
        obj: Mapping[str, Any] | KubernetesModel,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def create(
        self,
        obj: ObjectLike,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Create an object.

        Args:
            obj: A CustomResource, a dict or a kubernetes_asyncio model.
            namespace: If the object doesn't say it.
            kind: The object's kind, if it can't be told from it.
            field_manager: Who is to own the fields; default the User-Agent.
            dry_run: Let the server do all but store it.

        Returns:
            The object as the server has it, in the form of ``obj`` (a dict for a model).

        Raises:
            AlreadyExists: There is one of that name.
            Invalid: It breaks its schema.
        """
        resource, wire = document(obj, kind)
        namespace = namespace or metadata_of(wire).get("namespace")
        path = collection_path(resource, namespace)
        params = given(fieldManager=field_manager, dryRun="All" if dry_run else None)
        key = key_of(resource, namespace, metadata_of(wire).get("name"))
        answer = await self._write("POST", path, resource, key, params=params, body=wire)
        return decoded(type(obj), answer.body)

    @overload
    async def replace(
        self,
        obj: T,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> T: ...
    @overload
    async def replace(
        self,
        obj: Mapping[str, Any] | KubernetesModel,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def replace(
        self,
        obj: ObjectLike,
        *,
        namespace: str | None = None,
        kind: Kind | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Replace an object, or a subresource of it.

        Send what `Client.get` gave, not what a Context's `get` or `list` did: the cache keeps
        neither managedFields nor kubectl's last-applied annotation, and a replace removes what
        it doesn't hold.

        Args:
            obj: The whole object; its resourceVersion makes the server refuse a stale one.
            namespace: If the object doesn't say it.
            kind: The object's kind, if it can't be told from it.
            subresource: e.g. ``status``.
            field_manager: Who is to own the fields; default the User-Agent.
            dry_run: Let the server do all but store it.

        Raises:
            NotFound: There is none.
            Conflict: It changed meanwhile.
        """
        resource, wire = document(obj, kind)
        path = path_of(resource, wire, namespace, subresource)
        params = given(fieldManager=field_manager, dryRun="All" if dry_run else None)
        key = key_in(resource, wire, namespace)
        answer = await self._write("PUT", path, resource, key, params=params, body=wire)
        return decoded(type(obj), answer.body)

    @overload
    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        type: PatchType = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
    ) -> T: ...
    @overload
    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        type: PatchType = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
    ) -> dict[str, Any]: ...
    async def patch(
        self,
        kind: Any,
        name: str,
        namespace: str | None = None,
        *,
        patch: bytes | Mapping[str, Any] | Sequence[Any],
        type: PatchType = "merge",  # noqa: A002 (reads well at the call)
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
    ) -> Any:
        """Patch an object, or a subresource of it.

        Args:
            kind: A class gives an instance, a `Kind` a dict.
            name: The object's name.
            namespace: Its namespace; None for a cluster-scoped kind.
            patch: The patch document; a list of operations for ``json``.
            type: ``merge``, ``json``, or ``strategic`` (built-in kinds only).
            subresource: e.g. ``status``.
            field_manager: Who is to own the fields; default the User-Agent.
            field_validation: ``Ignore``, ``Warn`` or ``Strict`` on unknown fields.

        Raises:
            NotFound: There is none.
            Conflict: The patch names a resourceVersion, and the object changed meanwhile.
            Invalid: The result breaks its schema, or a ``test`` operation failed.
        """
        resource = kind_of(kind)
        answer = await self._write(
            "PATCH",
            object_path(resource, name, namespace, subresource),
            resource,
            key_of(resource, namespace, name),
            params=given(fieldManager=field_manager, fieldValidation=field_validation),
            body=patch,
            content_type=_PATCHES[type],
        )
        return decoded(kind, answer.body)

    @overload
    async def apply(
        self,
        obj: T,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        namespace: str | None = None,
        kind: Kind | None = None,
    ) -> T: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any] | KubernetesModel,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        namespace: str | None = None,
        kind: Kind | None = None,
    ) -> dict[str, Any]: ...
    async def apply(
        self,
        obj: ObjectLike,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        namespace: str | None = None,
        kind: Kind | None = None,
    ) -> Any:
        """Apply an object on the server's side: it makes or changes what ``obj`` names.

        Args:
            obj: The fields that are to be ours: CustomResource, dict or kubernetes_asyncio model.
            field_manager: Who owns the fields.
            force: Take fields that another manager owns.
            subresource: e.g. ``status``.
            namespace: If the object doesn't say it.
            kind: The object's kind, if it can't be told from it.

        Returns:
            The object as the server has it, in the form of ``obj`` (a dict for a model).

        Raises:
            Conflict: Another manager owns a field, and ``force`` is off.
            Invalid: The result breaks its schema.
        """
        resource, wire = document(obj, kind)
        answer = await self._write(
            "PATCH",
            path_of(resource, wire, namespace, subresource),
            resource,
            key_in(resource, wire, namespace),
            params={"fieldManager": field_manager, "force": "true" if force else "false"},
            body=wire,
            content_type=APPLY_PATCH,
        )
        return decoded(type(obj), answer.body)

    async def delete(
        self,
        kind: type[CustomResource] | Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object; with finalizers on it, begin to.

        Args:
            kind: Its class or `Kind`.
            name: Its name.
            namespace: Its namespace; None for a cluster-scoped kind.
            uid: Refuse if the object is another one of the same name.
            resource_version: Refuse if the object changed meanwhile.
            propagation: What becomes of its dependents; default as the server does by kind.
            grace_seconds: Seconds it may take to end.

        Raises:
            NotFound: There is none.
            Conflict: ``uid`` or ``resource_version`` differ.
        """
        options = delete_options(uid, resource_version, propagation, grace_seconds)
        resource = kind_of(kind)
        path, key = object_path(resource, name, namespace), key_of(resource, namespace, name)
        await self._write("DELETE", path, resource, key, body=options)

    async def _write(
        self, method: str, path: str, kind: Kind, key: ObjectKey, **options: Any
    ) -> Answer:
        """Send a write of one object; who observes is told, but of a dry run."""
        if self._observer is None or "dryRun" in (options.get("params") or ()):
            return await self.request(method, path, **options)
        with self._observer.writing(kind, key, deletes=method == "DELETE") as answered:
            answer = await self.request(method, path, **options)
            answered(answer.body)
        return answer
