"""The informers of one controller, and what each of them triggers.

A controller declares kinds; this turns them into informers (shared with whoever else declares the
same) and finds them again by kind and namespace, for the loop and for cached reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rws_operator.watch.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rws_operator.cache.informer import Informer
    from rws_operator.cache.informers import Informers
    from rws_operator.resources import Kind


class WatchedInformers:
    """The informers of one controller.

    Args:
        controller: The controller's name.
        namespaces: Where it watches namespaced kinds; None for all namespaces.
        source: Where informers come from.
    """

    def __init__(
        self, controller: str, namespaces: Sequence[str] | None, source: Informers
    ) -> None:
        self.controller = controller
        self._namespaces = namespaces
        self._source = source
        self._informers: dict[Kind, list[Informer]] = {}

    def __iter__(self) -> Iterator[Informer]:
        return (each for informers in self._informers.values() for each in informers)

    def declare(
        self,
        kind: Kind,
        *,
        namespaces: Sequence[str] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        keep_own_fields: bool = False,
    ) -> list[Informer]:
        """Have a kind watched and return its informers, one per namespace.

        Args:
            kind: The kind.
            namespaces: Where, if not where the controller does.
            label_selector: Which of its objects.
            field_selector: Which of its objects.
            keep_own_fields: Keep which fields we own, for the no-op proof of an apply.
        """
        places: Sequence[str | None] = namespaces or self._namespaces or [None]
        selections = [
            Selection(place if kind.namespaced else None, label_selector, field_selector)
            for place in places
        ]
        declared = [
            self._source.informer(kind, selection, keep_own_fields=keep_own_fields)
            for selection in dict.fromkeys(selections)
        ]
        known = self._informers.setdefault(kind, [])
        known += [each for each in declared if each not in known]
        return declared

    def kinds(self) -> Iterable[Kind]:
        """Every kind the controller declared."""
        return self._informers.keys()

    def informers(self, kind: Kind, namespace: str | None = None) -> Sequence[Informer]:
        """Those that hold a kind's objects, of one namespace or of all."""
        known = self._informers.get(kind, [])
        if namespace is None:
            return known
        return [each for each in known if each.selection.namespace in (None, namespace)]
