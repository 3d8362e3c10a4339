"""Which item of a list, after a conversion, is which of those before.

What the models don't know of an item goes with it in a conversion, see `conversion_carry`. The
author's functions make new items, which they may sort, leave out or add to, and of which fields
may have other names. So an item is known by its ``name``, which is what tells items apart by the
API's own conventions; where items have none, by its content; where that tells nothing, by its
place in a list of the same length.

Invariant: no item stands for two. One that nothing tells apart from others stands for none: its
unknown keys are lost, which is better than that another gets them, or that the object can't be
read, and with it no list of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_sorted_text = msgspec.json.Encoder(order="deterministic").encode


def same_items(
    was: Sequence[Any], unknown: Sequence[Any], now: Sequence[Any]
) -> Sequence[int | None]:
    """For each item now, which of those before it is; None for one that is none of them.

    Args:
        was: The items before.
        unknown: For each of those, what the models don't know of it.
        now: The items after.
    """
    names = [_names(was), _names(now)]
    if all(None not in each and len(set(each)) == len(each) for each in names):
        named = _paired(*names)
        if any(at is not None for at in named):
            return named
    known = _keys(was) - _keys(unknown)
    alike = _paired(*([_content(item, known) for item in items] for items in (was, now)))
    if len(was) == len(now) and all(at in (None, place) for place, at in enumerate(alike)):
        return range(len(was))
    return alike


def _paired(was: Sequence[Any], now: Sequence[Any]) -> list[int | None]:
    """Pair what is the same, in order; nothing of which there are more or fewer now."""
    before, after = _places(was), _places(now)
    found: list[int | None] = [None] * len(now)
    for mark, places in after.items():
        origins = before.get(mark, ())
        if mark is not None and len(origins) == len(places):
            for place, origin in zip(places, origins, strict=True):
                found[place] = origin
    return found


def _places(marks: Sequence[Any]) -> dict[Any, list[int]]:
    places: dict[Any, list[int]] = {}
    for place, mark in enumerate(marks):
        places.setdefault(mark, []).append(place)
    return places


def _names(items: Sequence[Any]) -> list[str | None]:
    names = (item.get("name") if isinstance(item, dict) else None for item in items)
    return [name if isinstance(name, str) else None for name in names]


def _keys(items: Sequence[Any]) -> set[str]:
    return {key for item in items if isinstance(item, dict) for key in item}


def _content(item: Any, known: Collection[str]) -> bytes | None:
    """An item's text, of these keys alone; what is empty may as well not be there."""
    if not isinstance(item, dict):
        return _sorted_text(item)
    content = {key: value for key, value in item.items() if value and key in known}
    return _sorted_text(content) if content else None
