"""What the written forms of an installation share: file names, and where a namespace stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Place = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

HEADER = "# Written by the operator's --manifests --output, which overwrites it.\n"
"""The first line of a written file, by which it is known later."""

MARK = "rws-operator-marks-a-namespace"
"""A namespace that no cluster has: where it stands, a namespace belongs."""


def file_name(document: Mapping[str, Any], namespace: str) -> str:
    """The name of a document's own file.

    Args:
        document: The document.
        namespace: Where the operator runs; what is in another one is named after that, too.
    """
    metadata = document["metadata"]
    where = metadata.get("namespace", namespace)
    prefix = "" if where == namespace else f"{where}-"
    return f"{document['kind'].lower()}-{prefix}{metadata['name']}.yaml"


def places_of(document: Any, value: str, place: Place = ()) -> Iterator[Place]:
    """The places in a document at which a text stands."""
    if isinstance(document, dict):
        for key, each in document.items():
            yield from places_of(each, value, (*place, key))
    elif isinstance(document, list):
        for index, each in enumerate(document):
            yield from places_of(each, value, (*place, index))
    elif document == value:
        yield place
