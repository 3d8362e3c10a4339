"""Cached reads: what a handler sees of the kinds that its controller declared.

`Watched` is what a controller lends its Context: its informers, found by kind and namespace.
`Reads` answers from them with the cache's bytes, which the Context decodes anew each time, so
that no handler can damage the cache. Because the answer to an own write goes into the cache at
once, a read after an own write sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rws_operator.controller.form import Reference, reference_to
from rws_operator.errors import ConfigurationError, UndeclaredKindError
from rws_operator.resources import Kind, KindLike, ObjectKey, kind_of

if TYPE_CHECKING:
    from rws_operator.cache.informer import Informer


class Watched(Protocol):
    """The informers of one controller."""

    @property
    def controller(self) -> str:
        """The controller's name."""
        ...

    def kinds(self) -> Iterable[Kind]:
        """Every kind the controller declared."""
        ...

    def informers(self, kind: Kind, namespace: str | None = None) -> Sequence[Informer]:
        """Those that hold this kind's objects.

        Args:
            kind: The kind; the version counts.
            namespace: Only those that hold this namespace ("" for cluster scope); None for all.
        """
        ...


class Reads:
    """Cached `get` and `list` of one controller.

    Args:
        watched: The controller's informers.
        own: Where the object of the run is cached; only `get` finds in it what the others lack.
    """

    def __init__(self, watched: Watched, own: Informer | None = None) -> None:
        self._watched = watched
        self._own = own

    def get(self, kind: KindLike, name: str, namespace: str | None) -> bytes | None:
        """One object's JSON, or None."""
        reference = self.reference(kind, name, namespace)
        informers = self.informers(reference.kind, reference.key.namespace)
        for informer in self._with_own(reference.kind, informers):
            record = informer.get(reference.key)
            if record is not None:
                return record.raw
        return None

    def list(
        self, kind: KindLike, namespace: str | None, labels: Mapping[str, str] | None
    ) -> list[bytes]:
        """The JSON of a kind's objects, by namespace and name."""
        found: dict[ObjectKey, bytes] = {}
        for informer in self.informers(kind_of(kind), namespace):
            found.update((record.key, record.raw) for record in informer.list(namespace))
        return [found[key] for key in sorted(found) if not labels or _carries(found[key], labels)]

    def reference(self, kind: KindLike, name: str, namespace: str | None) -> Reference:
        """Name an object by its kind, name and namespace."""
        metadata = {"name": name, "namespace": namespace}
        return reference_to({"metadata": metadata}, kind_of(kind))

    def informers(self, kind: Kind, namespace: str | None = None) -> Sequence[Informer]:
        """The informers that hold a kind.

        Raises:
            UndeclaredKindError: There is none; says what to declare.
        """
        found = self._watched.informers(kind, namespace)
        if found:
            return found
        controller = self._watched.controller
        if kind in self._watched.kinds():
            raise UndeclaredKindError(
                f"controller {controller} does not watch {kind.resource} in namespace {namespace}",
                remedy="add the namespace to the controller's namespaces=[...]",
            )
        raise UndeclaredKindError(
            f"controller {controller} does not watch {kind.resource}, so it has no cached objects",
            remedy=f"declare {kind.kind} in owns=, watches= or reads=, or read it with ctx.client",
        )

    def informer(self, kind: Kind, key: ObjectKey) -> Informer | None:
        """The informer that holds an object, or would; None where the kind is not declared."""
        found = self._watched.informers(kind, key.namespace)
        holding = (each for each in self._with_own(kind, found) if each.get(key) is not None)
        # One with a selector takes no object in by the answer to an own write.
        whole = (each for each in found if not each.selection.is_selective)
        return next(chain(holding, whole, found), None)

    def _with_own(self, kind: Kind, informers: Sequence[Informer]) -> Sequence[Informer]:
        own = self._own
        return informers if own is None or own.kind != kind else (*informers, own)

    def resolve(self, thing: Any) -> Kind:
        """The kind of an object; of a dict, the declared kinds are looked at first.

        Raises:
            ConfigurationError: It can't be told.
        """
        if not isinstance(thing, Mapping):
            return kind_of(thing)
        named = thing.get("apiVersion"), thing.get("kind")
        for kind in self._watched.kinds():
            if (kind.api_version, kind.kind) == named:
                return kind
        try:
            return kind_of(thing)
        except ConfigurationError as error:
            raise ConfigurationError(
                error.what,
                remedy="declare Kind('group/version', 'Name', 'plural') in owns=, watches= or "
                "reads=; apply and apply_owned take it as kind=, delete in place of the object",
            ) from error


class _Labelled(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _WithLabels(msgspec.Struct, gc=False):
    metadata: _Labelled


_labels = msgspec.json.Decoder(_WithLabels)


def _carries(raw: bytes, wanted: Mapping[str, str]) -> bool:
    labels = _labels.decode(raw).metadata.labels or {}
    return wanted.items() <= labels.items()
