"""JSON merge patches, by the examples of RFC 7386."""

from __future__ import annotations

from typing import Any

import pytest

from rws_operator.controller.merge_patch import merged, pruned_paths


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merged(target: Any, patch: Any, expected: Any) -> None:
    """The server's own rules, so that what would change nothing is known."""
    assert merged(target, patch) == expected


@pytest.mark.parametrize(
    ("sent", "held", "zeros", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {}}, False, ["status.b.c"]),
        ({"a": None, "b": 0, "c": []}, {}, False, []),
        ({"a": None, "b": 0, "c": []}, {}, True, ["status.b", "status.c"]),
        ({"a": [{"b": 1}, {"c": 1}]}, {"a": [{"b": 1}, {}]}, True, ["status.a[1].c"]),
        ({"a": 1}, {"a": 2}, True, []),
    ],
)
def test_pruned_paths(sent: Any, held: Any, zeros: bool, expected: list[str]) -> None:
    """What was dropped is named by its path; another value is no dropped field."""
    assert pruned_paths(sent, held, "status", zeros=zeros) == expected
