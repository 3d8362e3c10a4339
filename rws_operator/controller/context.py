"""What a handler is given to do its work with: `Context`.

The controller makes one for each run. Every write goes through the fenced client and into the
cache at once, and is not sent at all where it is proven to change nothing (those of `client` itself
always are); every cached read is decoded anew. The work itself is done by the modules named after
it: `status`, `apply`, `delete`, `client_writes`, `reads`, `events`.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rws_operator import metrics
from rws_operator.controller.apply import Applier
from rws_operator.controller.client_writes import ClientWrites
from rws_operator.controller.delete import Deleter, Propagation
from rws_operator.controller.document import make_document, set_owner
from rws_operator.controller.form import reader_like, reader_of_kind, reference_to
from rws_operator.controller.reads import Reads, Watched
from rws_operator.controller.regarding import regarding
from rws_operator.controller.status import StatusWriter, make_condition
from rws_operator.controller.writes import Writes
from rws_operator.resources import CustomResource, Kind, KindLike, Model, ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from rws_operator.cache.informer import Informer
    from rws_operator.client import Client
    from rws_operator.controller.environment import Environment

R = TypeVar("R", bound=CustomResource)
T = TypeVar("T")

_IN_STEP = "in step "

Log = logging.Logger | logging.LoggerAdapter[Any]


class Context:
    """One run's tools. Handlers get it; the controller makes it.

    Attributes:
        operator: The operator's name, which is the field manager of every write.
        log: Logs with controller, namespace and name of the object.
        attempt: How many runs of this object failed in a row before this one.
        deadline: When this run is cut, in seconds of the event loop's clock.
    """

    def __init__(
        self,
        *,
        environment: Environment,
        informers: Watched,
        log: Log,
        attempt: int,
        deadline: float,
        writer: Hashable,
        reporter: str | None = None,
        own: Informer | None = None,
    ) -> None:
        """Make a run's context.

        Args:
            environment: What the operator lends.
            informers: The controller's.
            log: See the attributes; so `attempt` and `deadline`.
            attempt: See the attributes.
            deadline: See the attributes.
            writer: Who writes, as `Informer.writing` has it.
            reporter: The events' reporting controller; default the operator's name.
            own: Where the run's object is cached, if it may be none of those (a stray).
        """
        self.operator = environment.operator
        self.log = log
        self.attempt = attempt
        self.deadline = deadline
        self._environment = environment
        self._controller = informers.controller
        self._reads = Reads(informers, own)
        self._writer = writer
        self._reporter = reporter
        self._applied: set[tuple[str, str, ObjectKey]] = set()
        self._has_changed = False

    @cached_property
    def client(self) -> Client:
        """The client; its writes pass the fence.

        What it creates, replaces, patches, applies or deletes, `get` and `list` show at once,
        too. It counts as a change of others: an object that it changes runs again, and so does
        the owner. What `Client.request` sends shows once the watch tells of it.
        """
        writes = ClientWrites(self._reads, self.operator, self._note_change)
        return self._environment.client.observed(writes)

    async def patch_status(self, obj: T, status: Mapping[str, Any] | Model) -> T:
        """Write an object's status, by a merge patch under the operator's field manager.

        Nothing is sent where the status says so already. The patch holds only for the object it
        was decided on: if it changed meanwhile it is read and compared again, and a new object
        of the same name is never written to.

        Args:
            obj: The object; only what names it is read.
            status: A dict goes to the wire as it is (None deletes a key); a model is written
                whole.

        Returns:
            The object as the server has it, in the form of ``obj``.

        Raises:
            Conflict: The object was deleted and made again, or keeps changing.
            NotFound: The object is gone, or its kind has no status subresource.
            PrunedFieldsError: The schema lacks a field of the status.
        """
        reference = reference_to(obj, self._reads.resolve(obj))
        record = await self._status().patch(reference, status)
        return self._as(obj, record.raw)

    async def set_condition(
        self,
        obj: T,
        type: str,  # noqa: A002 (the field's name)
        status: bool | str,
        reason: str,
        message: str = "",
    ) -> T:
        """Set one condition in an object's status; those of others stay.

        ``observedGeneration`` is the generation of ``obj``; ``lastTransitionTime`` moves only
        when the status changes. Nothing is sent where the condition says so already.

        Args:
            obj: The object, as this run got it.
            type: e.g. ``Ready``.
            status: True, False or ``"Unknown"``.
            reason: One word in CamelCase.
            message: For people.

        Returns:
            The object as the server has it, in the form of ``obj``.

        Raises:
            Conflict: The object was deleted and made again, or keeps changing.
            ConfigurationError: The API server would not take such a condition.
        """
        reference = reference_to(obj, self._reads.resolve(obj))
        condition = make_condition(reference, type, status, reason, message)
        record = await self._status().set_condition(reference, condition)
        return self._as(obj, record.raw)

    async def apply_owned(self, owner: Any, child: T, *, kind: Kind | None = None) -> T:
        """Make a child of an object be as given, by a forced server-side apply.

        The child gets a controller owner reference with ``blockOwnerDeletion`` beside those it
        has, and the owner's namespace where it has none. Fields left out since the last apply
        are removed. Nothing is sent where it is proven to change nothing.

        Args:
            owner: The object, as the API server gave it.
            child: A dict, a kubernetes_asyncio model or a CustomResource.
            kind: The child's kind, if it can't be told: it is a dict, and its kind is neither
                built in nor declared by the controller.

        Returns:
            The child as the server has it, in the form given.

        Raises:
            OwnerReferenceError: The two must not be joined, or another object controls the child
                (told where the controller owns the child's kind). It is retried like any error,
                so the child is had once the other owner, and the child with it, is gone.
            ConfigurationError: The child lacks a name or kind, or says another kind.
            RetryAfter: The owner's kind is so new that a part of the API server does not know
                it yet; let it through.
        """
        return await self._apply(child, kind, owner)

    async def apply(self, obj: T, *, kind: Kind | None = None) -> T:
        """Make an object be as given, like `apply_owned` but without an owner reference.

        In an undeclared kind each is sent, and what ``ctx.client`` once set there is not removed.
        """
        return await self._apply(obj, kind, None)

    @overload
    async def delete(
        self,
        obj: KindLike,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
    ) -> None: ...
    @overload
    async def delete(self, obj: Any, *, propagation: Propagation = "Background") -> None: ...
    async def delete(
        self,
        obj: Any,
        name: str | None = None,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object; that it is gone already is no error.

        Args:
            obj: The object (with a uid, no other of its name is deleted), or a kind.
            name: With a kind, the object's name.
            namespace: With a kind, its namespace.
            propagation: What becomes of what it owns.

        Raises:
            NotFound: The API server does not serve the kind.
        """
        if name is None:
            reference = reference_to(obj, self._reads.resolve(obj))
        else:
            reference = self._reads.reference(obj, name, namespace)
        await self._deleter().delete(reference, propagation)

    async def prune(self, owner: Any, kinds: Iterable[KindLike]) -> list[ObjectKey]:
        """Delete the children that an object controls and this run did not apply.

        Args:
            owner: The object.
            kinds: The children's kinds; the controller has to own them.

        Returns:
            What was deleted.

        Raises:
            UndeclaredKindError: The controller does not watch a kind.
        """
        reference = reference_to(owner, self._reads.resolve(owner))
        return await self._deleter().prune(reference.uid, kinds, self._applied)

    async def event(
        self, obj: Any, reason: str, note: str, *, warning: bool = False, action: str | None = None
    ) -> None:
        """Record an event about an object. It never waits and never fails.

        Args:
            obj: What it is about.
            reason: Why, one word in CamelCase; for machines.
            note: What happened, for people; cut to 1024 bytes.
            warning: Warning instead of Normal.
            action: What was done, one word in CamelCase; default the reason.
        """
        try:
            about = regarding(obj, self._reads.resolve(obj))
        except Exception as error:  # whatever was given: telling of a thing must not undo it
            metrics.events.labels("failed").inc()
            self.log.warning("an event is about nothing that can be named error=%r", error)
            return
        self._environment.recorder.record(
            about,
            "Warning" if warning else "Normal",
            reason,
            note,
            action or reason,
            self._reporter,
        )

    @overload
    async def get(self, kind: type[R], name: str, namespace: str | None = None) -> R | None: ...
    @overload
    async def get(
        self, kind: Kind, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None: ...
    async def get(self, kind: KindLike, name: str, namespace: str | None = None) -> Any:
        """Read an object from the cache; it shows the run's own writes.

        The cache keeps neither managedFields nor kubectl's last-applied annotation, so what is
        read here must not be sent back whole (`Client.replace`): that would remove the
        annotation. Where the kind is watched by a selector, an object that the run made shows
        once the watch tells of it.

        Args:
            kind: A class gives an instance, a Kind a dict; the controller has to declare it.
            name: Its name.
            namespace: Its namespace; None for a cluster-scoped kind.

        Returns:
            A copy of one's own, or None if there is no such object.

        Raises:
            UndeclaredKindError: The controller does not watch the kind.
        """
        raw = self._reads.get(kind, name, namespace)
        return None if raw is None else reader_of_kind(kind)(raw)

    @overload
    async def list(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> list[R]: ...
    @overload
    async def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: KindLike,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Read objects from the cache, by namespace and name; see `get` for what it holds.

        Args:
            kind: A class gives instances, a Kind dicts; the controller has to declare it.
            namespace: None for all that the controller watches.
            labels: Only objects that carry all of these.

        Raises:
            UndeclaredKindError: The controller does not watch the kind.
        """
        read = reader_of_kind(kind)
        return [read(raw) for raw in self._reads.list(kind, namespace, labels)]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a part of the run, and name it in the error where it fails.

        Args:
            name: A fixed name, never an object's: it is a metric's label.
        """
        begun = time.monotonic()
        try:
            yield
        except BaseException as error:
            if not any(note.startswith(_IN_STEP) for note in getattr(error, "__notes__", ())):
                error.add_note(_IN_STEP + name)
            raise
        finally:
            seconds = time.monotonic() - begun
            metrics.reconcile_step_seconds.labels(self._controller, name).observe(seconds)

    async def _apply(self, obj: T, kind: Kind | None, owner: Any) -> T:
        kind = kind or self._reads.resolve(obj)
        document = make_document(obj, kind)
        owner_kind = self._reads.resolve(owner) if owner is not None else None
        if owner_kind is not None:
            set_owner(document, kind, owner, owner_kind)
        reference = reference_to(document, kind)
        # Noted first: what a run wanted is never pruned by it, even if the apply failed.
        self._applied.add((kind.group, kind.kind, reference.key))
        record = await self._applier().apply(reference, document, owner_kind)
        return self._as(obj, record.raw)

    def _as(self, obj: T, raw: bytes) -> T:
        read: Callable[[bytes], T] = reader_like(obj)
        return read(raw)

    def _writes(self) -> Writes:
        client = self._environment.client
        return Writes(client, self.operator, self._reads, self._writer, self._note_change)

    def _note_change(self) -> None:
        """Something changed that may run objects; told once a run."""
        if not self._has_changed:
            self._has_changed = True
            self._environment.restless.changed(self._controller, self._writer, self.log)

    def _status(self) -> StatusWriter:
        return StatusWriter(self._writes(), self._controller, self._environment.restless)

    def _applier(self) -> Applier:
        environment = self._environment
        return Applier(self._writes(), environment.schemas, environment.proofs, self._controller)

    def _deleter(self) -> Deleter:
        return Deleter(self._writes())
