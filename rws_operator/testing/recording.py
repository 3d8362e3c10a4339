"""`RecordingContext`: a Context without a cluster, for tests of what a reconcile decides.

The methods are those of Context; only what would go to the API server stays here, checked against
the schema as the API server does. So a test is as quick as the handler, and still finds the field
that the CRD lacks. What needs a real API server (webhooks, CEL rules, defaults, garbage
collection, conflicts) is for the fixture `running_operator`.
"""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Never, Self, TypeVar

import msgspec

from rws_operator.controller.blocking import BlockingContext
from rws_operator.controller.context import Context
from rws_operator.controller.delete import Deleter, Propagation
from rws_operator.controller.form import Reference, reference_to
from rws_operator.controller.status import StatusWriter
from rws_operator.controller.watched import WatchedInformers
from rws_operator.errors import ConfigurationError
from rws_operator.log import logger
from rws_operator.resources import kind_of
from rws_operator.testing.recorded_objects import RecordedObjects

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from rws_operator.controller.controller import Controller
    from rws_operator.controller.reads import Reads
    from rws_operator.resources import Kind, KindLike
    from rws_operator.resources.record import ObjectRecord

T = TypeVar("T")

_OPERATOR = "test-operator"
_decode = msgspec.json.Decoder().decode


class RecordedEvent(NamedTuple):
    """An event that a handler recorded."""

    reason: str
    note: str
    warning: bool
    action: str
    regarding: str
    """Kind and name, e.g. ``Backup/nightly``."""


class RecordedDelete(NamedTuple):
    """A deletion that a handler asked for."""

    kind: str
    name: str
    namespace: str


class RecordingContext(Context):
    """A Context that holds objects and records what a handler does to them.

        backup = Backup(metadata={"name": "nightly", "namespace": "test"}, spec=...)
        ctx = RecordingContext(backup, controller=backups)
        await reconcile(backup, ctx)                  # or, of a plain handler: ctx.blocking()
        assert ctx.statuses == [{"ready": True}]

    Objects are held as the API server would: with uid, generation and resource version. Writes
    show in later reads. Those to kinds that are known by their class are checked against its
    schema. What the controller does not declare can't be read, as on a cluster; without a
    controller, any kind may be.

    Args:
        *objects: What there is at first: instances, dicts, kubernetes_asyncio models.
        controller: Whose handler is tested. Its namespaces hold here too, its selectors don't.
        resource: A class or Kind of which there are only dicts, or none at first.

    Attributes:
        applied: The documents of all applies, as they would be sent.
        statuses: An object's whole status after each write that changed it.
        events: The events.
        deleted: What was deleted.

    Raises:
        Invalid: An object breaks its class's schema.
        ConfigurationError: The kind of a dict can't be told.
    """

    def __init__(
        self,
        *objects: Any,
        controller: Controller[Any] | None = None,
        resource: KindLike | None = None,
    ) -> None:
        self.applied: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.events: list[RecordedEvent] = []
        self.deleted: list[RecordedDelete] = []
        self._objects = RecordedObjects([] if resource is None else [resource])
        informers: Any = self._objects
        if controller is not None:
            informers = _declared(controller, self._objects)
        environment: Any = SimpleNamespace(client=_NoClient(), operator=_OPERATOR, recorder=self)
        super().__init__(
            environment=environment,
            informers=informers,
            log=logger("controller", controller=informers.controller),
            attempt=0,
            deadline=math.inf,
            writer=None,
        )
        for each in objects:
            self._objects.add(each, self._reads.resolve(each))

    def blocking(self) -> BlockingContext:
        """This context for a plain handler, also where no event loop runs."""
        return _Blocking(self)

    def record(
        self,
        regarding: Mapping[str, str],
        type: str,  # noqa: A002 (as the recorder's)
        reason: str,
        note: str,
        action: str,
        reporter: str | None = None,
    ) -> None:
        """Note an event; Context calls it."""
        about = f"{regarding['kind']}/{regarding['name']}"
        self.events.append(RecordedEvent(reason, note, type == "Warning", action, about))

    async def _apply(self, obj: T, kind: Kind | None, owner: Any) -> T:
        if isinstance(obj, type):
            raise ConfigurationError(f"{obj!r} is no object", remedy="apply an instance of it")
        self._objects.learn_from(obj)
        return await super()._apply(obj, kind, None if owner is None else self._as_held(owner))

    def _as_held(self, obj: Any) -> Any:
        """An object as it is held: one that a test made has no uid yet."""
        reference = reference_to(obj, self._reads.resolve(obj))
        if reference.uid:
            return obj
        return _decode(self._objects.read(reference).raw)

    def _writes(self) -> Any:
        return _Writes(self, self._objects, self._reads)

    def _status(self) -> StatusWriter:
        return StatusWriter(self._writes(), self._controller)

    def _applier(self) -> Any:
        return self._writes()

    def _deleter(self) -> Deleter:
        return _Deleter(self._writes())


def _declared(controller: Controller[Any], objects: RecordedObjects) -> WatchedInformers:
    """What a controller watches, and no more, as it declares it when it is bound."""
    source: Any = objects
    watched = WatchedInformers(controller.name, controller.namespaces, source)
    for each in (controller.resource, *controller.owns, *controller.reads):
        objects.learn(each)
        watched.declare(kind_of(each))
    for watch in controller.watches:
        objects.learn(watch.kind)
        watched.declare(kind_of(watch.kind), namespaces=watch.namespaces)
    return watched


class _Writes:
    """What StatusWriter, Applier and Deleter write by."""

    manager = _OPERATOR

    def __init__(self, context: RecordingContext, objects: RecordedObjects, reads: Reads) -> None:
        self.context = context
        self.objects = objects
        self.reads = reads

    async def read(self, reference: Reference) -> ObjectRecord:
        """Read an object."""
        return self.objects.read(reference)

    async def patch(self, reference: Reference, patch: Any, _explains: object) -> ObjectRecord:
        """Merge a status."""
        record = self.objects.patch_status(reference, _decode(patch.body))
        self.context.statuses.append(_decode(record.raw).get("status") or {})
        return record

    async def apply(
        self, reference: Reference, document: dict[str, Any], owner: Kind | None = None
    ) -> ObjectRecord:
        """Apply a document."""
        del owner  # what is recorded knows every kind at once
        record = self.objects.apply(reference, document)
        self.context.applied.append(copy.deepcopy(document))
        return record


class _Deleter(Deleter):
    """Deletes among the recorded objects."""

    _writes: Any

    async def _send(self, reference: Reference, propagation: Propagation) -> None:
        kind, key = reference.kind, reference.key
        self._writes.objects.delete(reference)
        self._writes.context.deleted.append(RecordedDelete(kind.kind, key.name, key.namespace))


class _Blocking(BlockingContext):
    """Runs each call where it stands: nothing in a RecordingContext waits."""

    def __init__(self, context: RecordingContext) -> None:
        nowhere: Any = None
        super().__init__(context, nowhere)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            call.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        call.close()
        raise ConfigurationError(
            "something waits, and a RecordingContext has no event loop",
            remedy="test what waits with the fixture running_operator",
        )


class _NoClient:
    """Stands where a Context has its client."""

    def observed(self, observer: object) -> Self:
        """Stand there for the context's own, too."""
        return self

    def __getattr__(self, name: str) -> Never:
        raise ConfigurationError(
            f"client.{name}: a RecordingContext speaks to no API server",
            remedy="test what needs one with the fixture running_operator",
        )
