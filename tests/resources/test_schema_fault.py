"""What of a default breaks the schema that it stands in."""

from typing import Any

import pytest

from rws_operator.resources.schema_fault import schema_fault

INT64 = {"type": "integer", "format": "int64"}
ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "port": {**INT64, "default": 80}},
    "required": ["name"],
}
NAMED = {
    "type": "array",
    "items": ITEM,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name", "port"],
}
SET = {"type": "array", "items": INT64, "x-kubernetes-list-type": "set"}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT64, 2**63 - 1),
        ({"type": "number"}, 1),
        ({"type": "string", "nullable": True}, None),
        (ANYTHING, {"a": [None, 1.5, "x"]}),
        (INT_OR_STRING, 1),
        ({"type": "object", "additionalProperties": INT64}, {"a": 1}),
        ({**ITEM, **ANYTHING}, {"name": "a", "unknown": 1}),
        (NAMED, [{"name": "a"}, {"name": "a", "port": 81}]),
        (SET, [1, 2]),
        ({"type": "string", "format": "date-time"}, "2020-01-01T00:00:00.5+02:00"),
        ({"type": "string", "format": "cidr"}, "10.0.0.1/8"),
        ({"type": "string", "format": "no-such"}, "x"),
        ({"type": "integer", "maximum": 5, "minimum": 5}, 5),
    ],
)
def test_what_fits(schema: dict[str, Any], value: Any) -> None:
    """What the API server takes passes."""
    assert schema_fault(schema, value) is None


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        (INT64, 2**63, "9223372036854775808 does not fit int64"),
        ({"type": "integer", "format": "int32"}, 2**31, "2147483648 does not fit int32"),
        (INT64, True, "True is no integer"),
        (INT64, 1.5, "1.5 is no integer"),
        (INT_OR_STRING, 0.5, "0.5 is no integer or string"),
        (INT64, None, "null is not allowed"),
        ({"type": "number"}, float("nan"), "nan can't be written as JSON"),
        (ANYTHING, [float("inf")], "[0]: inf can't be written as JSON"),
        ({"type": "string"}, "\ud800", "'\\ud800' has half of a character"),
        (ANYTHING, {"\ud800": 1}, "the key '\\ud800' has half of a character"),
        ({"type": "string", "enum": ["a"]}, "b", "'b' is none of its values"),
        ({"type": "string", "maxLength": 1}, "ab", "its length 2 is out of bounds"),
        ({"type": "array", "minItems": 1}, [], "its length 0 is out of bounds"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "1 is below the minimum"),
        ({"type": "integer", "maximum": 1}, 2, "2 is above the maximum"),
        (ITEM, {"name": "a", "other": 1}, "the field 'other' is not known"),
        (ITEM, {}, "'name' is missing"),
        ({"type": "array", "items": ITEM}, [{"name": 1}], "[0].name: 1 is no string"),
        (NAMED, [{"name": "a"}, {"name": "a", "port": 80}],
         "item 1 is there twice, and the list is a map"),
        (SET, [1, 1], "item 1 is there twice, and the list is a set"),
        *(
            ({"type": "string", "format": name}, text, f"{text!r} is not of the format {name!r}")
            for name, text in [
                ("date-time", "2020-01-01T00:00:00"),
                ("date", "2020-13-01"),
                ("ipv4", "not an ip"),
                ("ipv6", "1.2.3.4"),
                ("cidr", "10.0.0.1"),
                ("uuid", "x"),
                ("byte", "-_=="),
                ("mac", "00:00"),
                ("hostname", "a b"),
                ("email", "a"),
                ("uri", "a"),
            ]
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(schema: dict[str, Any], value: Any, fault: str) -> None:
    """What the API server refuses is told, with where it stands."""
    assert schema_fault(schema, value) == fault
