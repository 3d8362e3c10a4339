"""Quantities and durations: values, order, text."""

import datetime
import json
import re
from decimal import Decimal
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rws_operator.resources import Duration, Model, Quantity
from rws_operator.resources.model import wire_form
from rws_operator.resources.quantity import DURATION_PATTERN, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("100m", Decimal("0.1")),
        ("1.5Gi", 3 * 2**29),
        ("-1k", -1000),
        ("+.5", Decimal("0.5")),
        ("1.", 1),
        ("5n", Decimal("5e-9")),
        ("3u", Decimal("3e-6")),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E-2", Decimal("0.01")),
        (7, 7),
    ],
)
def test_value_of_a_quantity(text: str | int, value: int | Decimal) -> None:
    """Every suffix of Kubernetes counts as there."""
    assert Quantity(text).value == value


@pytest.mark.parametrize("text", ["", "much", "1 Gi", "1K", "1gi", "1Gi\n", "1e", "NaN", True])
def test_what_is_no_quantity(text: Any) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(ValueError, match="is not a quantity: write a number and a suffix"):
        Quantity(text)


def test_quantities_compare_by_value() -> None:
    """Text doesn't matter for equality, hash and order."""
    assert Quantity("1Gi") == Quantity("1024Mi")
    assert hash(Quantity("1Gi")) == hash(Quantity("1024Mi"))
    assert Quantity("900m") < Quantity("1")
    assert Quantity("1Gi") != "1Gi"
    assert max(Quantity("1M"), Quantity("1Mi")) == Quantity("1Mi")
    assert str(Quantity("1Mi")) == "1Mi"


class Sized(Model):
    """A model of both."""

    memory: Quantity = Quantity("1Gi")
    wait: Duration = datetime.timedelta(0)


@pytest.mark.parametrize("text", ["0.5Gi", 3, "1e3"])
def test_a_quantity_keeps_its_text(text: str | int) -> None:
    """What was read is written, a number as a number."""
    assert wire_form(Sized.model_validate({"memory": text})) == {"memory": text}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("-2m", -120),
        ("250ms", 0.25),
        ("1h0m0.5s", 3600.5),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """Go's form is understood."""
    assert Sized.model_validate({"wait": text}).wait == datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "1", "1d", "PT1H", "1h ", "h", "1h\n"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(ValueError, match="is not a duration: write numbers and units"):
        parse_duration(text)


def test_what_is_no_duration_is_refused_quickly() -> None:
    """Others write these texts: one of a megabyte must not take a time that is quadratic."""
    began = process_time()
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration("1" * 300_000)
    assert process_time() - began < 10


@given(st.timedeltas(datetime.timedelta(days=-9999), datetime.timedelta(days=9999)))
def test_a_duration_survives_its_text(value: datetime.timedelta) -> None:
    """Writing and reading gives the same, in a form that the schema takes."""
    text = format_duration(value)
    assert re.fullmatch(DURATION_PATTERN, text)
    assert parse_duration(text) == value


@pytest.mark.parametrize("text", ["100ns", "1h", "1.5h", "-1s", "0", "1h0m0s"])
def test_a_duration_keeps_its_text(text: str) -> None:
    """What was read is written, a nanosecond too, and after a copy."""
    read = Sized.model_validate_json(json.dumps({"wait": text}))
    assert wire_form(read) == {"wait": text}
    assert wire_form(read.model_copy(deep=True)) == {"wait": text}
    assert wire_form(Sized(wait=datetime.timedelta(hours=1))) == {"wait": "1h0m0s"}


@pytest.mark.parametrize("wire", [{"wait": "9" * 30 + "h"}, {"memory": "1e.5"}])
def test_values_beyond_what_python_counts(wire: dict[str, str]) -> None:
    """They are refused as any other value that doesn't fit."""
    with pytest.raises(ValueError, match=r"longer than|can't be counted"):
        Sized.model_validate(wire)
