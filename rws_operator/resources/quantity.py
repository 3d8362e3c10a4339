"""Values that Kubernetes writes in a form of its own: quantities, durations, int-or-string.

Each keeps what the wire said: a quantity read as ``"0.5Gi"`` is written as ``"0.5Gi"``.
"""

from __future__ import annotations

import functools
import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

IntOrString = int | str
"""An integer or a string, e.g. a port or ``"25%"``."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(.*)", re.ASCII)
_SUFFIXES = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


@functools.total_ordering
class Quantity:
    """An amount such as ``500m`` or ``1Gi``; compares by value, keeps its text.

    Args:
        text: The amount as on the wire, a string or an integer; a float is written as text.

    Raises:
        ValueError: It is not a quantity.
    """

    __slots__ = ("text", "value")

    def __init__(self, text: str | int | float) -> None:
        # The wire has integers and strings alone.
        self.text = str(text) if isinstance(text, float) else text
        self.value = _parse_quantity(str(text))

    def __str__(self) -> str:
        return str(self.text)

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Quantity) else Quantity(value),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda q: q.text),
        )


def _parse_quantity(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text) if re.fullmatch(QUANTITY_PATTERN, text) else None
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: write a number and a suffix, e.g. 500m, 1Gi")
    number, suffix = match.groups()
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    try:
        return Decimal(number + suffix)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} has an exponent that can't be counted with") from error


_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
DURATION_PATTERN = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
_UNIT_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600,
}  # fmt: skip


class _Read(timedelta):
    """A duration as read: it is written as it was, ``100ns`` and ``1h`` too."""

    text: str

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_duration, (self.text,)


def parse_duration(value: str | timedelta) -> timedelta:
    """Read a duration as Go writes it, e.g. ``1h30m``.

    Raises:
        ValueError: It is not one.
    """
    if isinstance(value, timedelta):
        return value
    if not re.fullmatch(DURATION_PATTERN, value):
        raise ValueError(f"{value!r} is not a duration: write numbers and units, e.g. 1h30m")
    parts = _DURATION_PART.findall(value)
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    try:
        read = _Read(seconds=-seconds if value.startswith("-") else seconds)
    except OverflowError as error:
        raise ValueError(f"{value!r} is longer than a timedelta can be") from error
    read.text = value
    return read


def format_duration(value: timedelta) -> str:
    """Write a duration as Go does, e.g. ``1h30m0s``; one that was read, as it was."""
    if isinstance(value, _Read):
        return value.text
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    minutes, micros = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{Decimal(micros) / 1_000_000:f}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


Duration = Annotated[
    timedelta,
    PlainValidator(parse_duration),
    PlainSerializer(format_duration, when_used="json"),
    # The server's format alone takes more than Go writes, e.g. PT1H.
    WithJsonSchema({"type": "string", "format": "duration", "pattern": DURATION_PATTERN}),
]
"""A timedelta, written ``1h30m0s`` on the wire, or as it was read."""
