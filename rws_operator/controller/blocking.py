"""`BlockingContext`: Context for plain functions, which run in a thread.

Each method hands the Context's own to the event loop and waits for the answer, so there is one
implementation; a typing test holds the signatures equal. When the run is cancelled or past its
deadline every call raises, so that a plain function ends at its next call at the latest.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rws_operator.errors import DeadlineExceeded
from rws_operator.resources import CustomResource, Kind, KindLike, Model, ObjectKey

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from contextlib import AbstractContextManager

    from rws_operator.client import Client
    from rws_operator.controller.context import Context, Log
    from rws_operator.controller.delete import Propagation

R = TypeVar("R", bound=CustomResource)
T = TypeVar("T")


class BlockingContext:
    """One run's tools, for a plain function. The methods are those of `Context`.

    Args:
        context: The run's.
        loop: The event loop that the run belongs to.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()
        self._cancelled = False

    @property
    def client(self) -> Client:
        """The async client; its calls are waited for by `wait`."""
        return self._context.client

    @property
    def operator(self) -> str:
        """See `Context`."""
        return self._context.operator

    @property
    def log(self) -> Log:
        """See `Context`."""
        return self._context.log

    @property
    def attempt(self) -> int:
        """See `Context`."""
        return self._context.attempt

    @property
    def deadline(self) -> float:
        """See `Context`."""
        return self._context.deadline

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, e.g. a call of `client`, on the event loop and return its result.

        Raises:
            DeadlineExceeded: The run's deadline has passed.
            concurrent.futures.CancelledError: The run was cancelled.
        """
        return self._run(call)

    def patch_status(self, obj: T, status: Mapping[str, Any] | Model) -> T:
        """See `Context.patch_status`."""
        return self._run(self._context.patch_status(obj, status))

    def set_condition(
        self,
        obj: T,
        type: str,  # noqa: A002 (the field's name)
        status: bool | str,
        reason: str,
        message: str = "",
    ) -> T:
        """See `Context.set_condition`."""
        return self._run(self._context.set_condition(obj, type, status, reason, message))

    def apply_owned(self, owner: Any, child: T, *, kind: Kind | None = None) -> T:
        """See `Context.apply_owned`."""
        return self._run(self._context.apply_owned(owner, child, kind=kind))

    def apply(self, obj: T, *, kind: Kind | None = None) -> T:
        """See `Context.apply`."""
        return self._run(self._context.apply(obj, kind=kind))

    @overload
    def delete(
        self,
        obj: KindLike,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
    ) -> None: ...
    @overload
    def delete(self, obj: Any, *, propagation: Propagation = "Background") -> None: ...
    def delete(
        self,
        obj: Any,
        name: str | None = None,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
    ) -> None:
        """See `Context.delete`."""
        if name is None:
            self._run(self._context.delete(obj, propagation=propagation))
        else:
            self._run(self._context.delete(obj, name, namespace, propagation=propagation))

    def prune(self, owner: Any, kinds: Iterable[KindLike]) -> list[ObjectKey]:
        """See `Context.prune`."""
        return self._run(self._context.prune(owner, kinds))

    def event(
        self, obj: Any, reason: str, note: str, *, warning: bool = False, action: str | None = None
    ) -> None:
        """See `Context.event`."""
        self._run(self._context.event(obj, reason, note, warning=warning, action=action))

    @overload
    def get(self, kind: type[R], name: str, namespace: str | None = None) -> R | None: ...
    @overload
    def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any] | None: ...
    def get(self, kind: KindLike, name: str, namespace: str | None = None) -> Any:
        """See `Context.get`."""
        return self._run(self._context.get(kind, name, namespace))

    @overload
    def list(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> list[R]: ...
    @overload
    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]: ...
    def list(
        self,
        kind: KindLike,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """See `Context.list`."""
        return self._run(self._context.list(kind, namespace, labels=labels))

    def step(self, name: str) -> AbstractContextManager[None]:
        """See `Context.step`."""
        return self._context.step(name)

    def cancel(self) -> None:
        """End the call under way and every later one. Called by the controller, on the loop."""
        with self._lock:
            self._cancelled = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._cancelled:
                call.close()
                raise concurrent.futures.CancelledError("the run was cancelled")
            future = asyncio.run_coroutine_threadsafe(self._until_deadline(call), self._loop)
            self._calls.add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._calls.discard(future)

    async def _until_deadline(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout_at(self._context.deadline):
                return await call
        except TimeoutError as error:
            if self._loop.time() < self._context.deadline:
                raise
            raise DeadlineExceeded("the run's deadline has passed") from error
