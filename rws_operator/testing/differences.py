"""Where two objects of a kind differ, by value: ``24h`` and ``24h0m0s`` are one duration.

The structural schema says what a text means.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rws_operator.resources.quantity import QUANTITY_PATTERN, Quantity, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_READERS: dict[Any, Callable[[str], Any]] = {
    "date-time": datetime.fromisoformat,
    "duration": parse_duration,
}


def differences(
    before: Any, after: Any, schema: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The paths where two values differ, with both; null and absent are one.

    Args:
        before: JSON data.
        after: JSON data.
        schema: The structural schema of both.
        path: Where they are.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            pair = (before.get(key), after.get(key))
            yield from differences(*pair, inner or {}, f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, schema.get("items", {}), f"{path}[{index}]")
    elif isinstance(before, bool) != isinstance(after, bool) or not _are_equal(
        before, after, schema
    ):
        yield path, before, after


def _are_equal(before: Any, after: Any, schema: Mapping[str, Any]) -> bool:
    if before == after:
        return True
    is_quantity = schema.get("pattern") == QUANTITY_PATTERN
    read = Quantity if is_quantity else _READERS.get(schema.get("format"))
    if read is None or None in (before, after):
        return False
    return bool(read(before) == read(after))
