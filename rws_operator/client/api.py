"""The client: Kubernetes' verbs, typed, over one `Transport`.

Every call has a deadline that covers the wait for a connection, the retries and the answer. A
class (`CustomResource`) gives instances of it, a `Kind` gives dicts as the server sent them.
A client that is `fenced` or `observed` shares its connections with the one it was made from. Each
write of a fenced client asks the fence again at each try; an observed one tells of its writes.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import msgspec

from rws_operator.client.content_type import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)
from rws_operator.client.document import (
    decode_page,
    decoded,
    document,
    item_of,
    metadata_of,
    path_of,
)
from rws_operator.client.load import load_config
from rws_operator.client.path import collection_path, list_path, object_path, target_of
from rws_operator.client.retry import Requests
from rws_operator.client.transport import Transport
from rws_operator.errors import DeadlineExceeded, Expired
from rws_operator.resources import CustomResource, Kind, ObjectKey, kind_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rws_operator.client.answer import Answer
    from rws_operator.client.config import ClientConfig
    from rws_operator.client.fence import Fence
    from rws_operator.client.observer import WriteObserver
    from rws_operator.client.transport import Stream
    from rws_operator.resources.wire import KubernetesModel, ObjectLike

T = TypeVar("T", bound=CustomResource)

PatchType = Literal["merge", "json", "strategic"]

_PATCHES: dict[PatchType, str] = {
    "merge": MERGE_PATCH,
    "json": JSON_PATCH,
    "strategic": STRATEGIC_MERGE_PATCH,
}


class Client:
    """A client of one API server.

    Use it as an async context manager, or `close` it. It may be made outside of an event loop,
    but belongs to the loop of its first request.

    Args:
        config: Where the server is and who we are to it; see `load_config`.
        user_agent: The User-Agent header; default ``rws-operator``.
    """

    def __init__(self, config: ClientConfig, *, user_agent: str | None = None) -> None:
        self.config = config
        self._transport = Transport(config, user_agent or "rws-operator")
        self._requests = Requests(config, self._transport)
        self._fence: Fence | None = None
        self._observer: WriteObserver | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, those of fenced clients made from this one too."""
        await self._transport.close()

    def fenced(self, fence: Fence) -> Client:
        """Return a client of the same connections whose writes pass a fence.

        Args:
            fence: Asked before each POST, PUT, PATCH and DELETE, once its connection is had.
        """
        client = copy.copy(self)
        client._fence = fence
        return client

    def check_fence(self) -> None:
        """Return if a write could start now; always, where no fence was given.

        Raises:
            LeadershipLost: The fence would refuse it.
        """
        if self._fence is not None:
            self._fence.check()

    def observed(self, observer: WriteObserver) -> Client:
        """Return a client of the same connections and fence whose writes somebody is told of.

        Args:
            observer: Told of each object that is created, replaced, patched, applied or deleted,
                but for dry runs; not of what `request` sends.
        """
        client = copy.copy(self)
        client._observer = observer
        return client

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline: float = 30.0,
        priority: bool = False,
    ) -> Answer:
        """Send a request and return its answer.

        Args:
            method: The HTTP verb in capitals.
            path: Absolute path.
            params: Query parameters.
            body: The body; anything but bytes is encoded as JSON.
            content_type: The body's type.
            accept: The answer's type.
            deadline: Seconds for all of it: waiting for a connection, retries and the answer.
            priority: Never wait for a connection, as the Lease must not.

        Raises:
            ApiError: The server refused; its subclass says how.
            ConnectionFailed: No answer came.
            DeadlineExceeded: None came in time.
            LeadershipLost: The fence refused; nothing was sent.
        """
        target = target_of(path, params)
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        give_up_at = asyncio.get_running_loop().time() + deadline
        try:
            async with asyncio.timeout_at(give_up_at):
                return await self._requests.send(
                    method,
                    target,
                    body,
                    content_type=content_type,
                    accept=accept,
                    give_up_at=give_up_at,
                    fence=self._fence if method != "GET" else None,
                    priority=priority,
                )
        except TimeoutError:
            raise DeadlineExceeded(
                f"{method} {path}: {self.config.server} did not answer within {deadline:g} s",
                remedy="check the network and the API server's load; a write may have been done",
            ) from None

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
        connect_deadline: float = 30.0,
        idle_deadline: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET whose answer goes on, such as a watch; give its chunks as they come.

        Args:
            path: Absolute path.
            params: Query parameters.
            accept: The answer's type.
            connect_deadline: Seconds until the answer must have begun.
            idle_deadline: Seconds that may pass between two chunks; None: any time.

        Raises:
            ApiError: The answer is no success; no chunk was given.
            ConnectionFailed: No answer came, or (from the iterator) the connection broke.
            DeadlineExceeded: A deadline passed.
        """
        target = target_of(path, params)
        try:
            async with asyncio.timeout(connect_deadline):
                stream = await self._requests.open_stream(target, accept)
        except TimeoutError:
            raise DeadlineExceeded(
                f"GET {path}: {self.config.server} did not answer within {connect_deadline:g} s",
                remedy="check the network and the API server's load",
            ) from None
        try:
            yield _Chunks(stream, idle_deadline, path)
        finally:
            stream.close()

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
        params = _set(labelSelector=label_selector, fieldSelector=field_selector)
        found: list[Any] = []
        page_params = {**params, "limit": str(limit)}
        while True:
            try:
                answer = await self.request("GET", path, params=page_params)
            except Expired:
                if "continue" not in page_params:
                    raise
                # The pages took longer than the server keeps history: once more, in one piece.
                found, page_params = [], params
                continue
            page = decode_page(answer.body)
            found += [item_of(kind, resource, item) for item in page.items or ()]
            if not page.metadata.next:
                return found
            page_params = {**params, "limit": str(limit), "continue": page.metadata.next}

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
        params = _set(fieldManager=field_manager, dryRun="All" if dry_run else None)
        key = _key(resource, namespace, metadata_of(wire).get("name"))
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
        params = _set(fieldManager=field_manager, dryRun="All" if dry_run else None)
        key = _key_of(resource, wire, namespace)
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
            _key(resource, namespace, name),
            params=_set(fieldManager=field_manager, fieldValidation=field_validation),
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
            _key_of(resource, wire, namespace),
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
        preconditions = _set(uid=uid, resourceVersion=resource_version)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        resource = kind_of(kind)
        path, key = object_path(resource, name, namespace), _key(resource, namespace, name)
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


async def client(
    kubeconfig: str | None = None, context: str | None = None, *, user_agent: str | None = None
) -> Client:
    """Return a client of the API server that this program belongs to.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: the pod's ServiceAccount if this is a
            pod, else the environment's KUBECONFIG, else ``~/.kube/config``.
        context: Name of a context in these files, which then go before the ServiceAccount; None:
            the current one.
        user_agent: The User-Agent header; default ``rws-operator``.

    Raises:
        KubeconfigError: None was found, or what was found can't be used; or its credentials have
            to be fetched, e.g. by a plugin, and can't be.
    """
    config = await asyncio.to_thread(load_config, kubeconfig, context)
    await config.credentials.authorization()
    return Client(config, user_agent=user_agent)


class _Chunks:
    """The chunks of a stream, each within the idle deadline."""

    def __init__(self, stream: Stream, idle_deadline: float | None, path: str) -> None:
        self._stream = stream
        self._idle_deadline = idle_deadline
        self._path = path

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_deadline):
                chunk = await self._stream.read()
        except TimeoutError:
            raise DeadlineExceeded(
                f"GET {self._path}: the stream was silent for {self._idle_deadline:g} s",
                remedy="open it again; the connection is half open, or the server hangs",
            ) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _key(kind: Kind, namespace: str | None, name: str | None) -> ObjectKey:
    return ObjectKey((namespace or "") if kind.namespaced else "", name or "")


def _key_of(kind: Kind, wire: Mapping[str, Any], namespace: str | None) -> ObjectKey:
    metadata = metadata_of(wire)
    return _key(kind, namespace or metadata.get("namespace"), metadata.get("name"))


def _set(**params: str | None) -> dict[str, str]:
    """Return the parameters that are set."""
    return {name: value for name, value in params.items() if value is not None}
