"""Patterns that Go's engine lacks."""

import pytest

from rws_operator.resources.go_pattern import go_fault


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$", r"(?P<n>x)", r"(?<n>x)", r"(?i)x", r"(?:x){1,1000}",
        r"\x{41}\pL\p{L}\.\-", r"[[:alpha:]\]&]", r"\{2000\}", r"[]a]", r"\\u", r"[{2000}]",
    ],
)  # fmt: skip
def test_patterns_of_both(pattern: str) -> None:
    """What both engines take passes."""
    assert go_fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"x{1,2000}", "more than 1000 repeats"),
        (r"x{1001}", "more than 1000 repeats"),
        (r"(?x) x # c", "the flags 'x'"),
        (r"\u{41}", r"the escape \u"),
        (r"[\u0041]", r"the escape \u"),
        (r"x\Z", r"the escape \Z"),
        (r"(a)\1", r"the escape \1"),
        (r"(?!x)", "look-around"),
        (r"(?<=x)", "look-around"),
        (r"[a-z&&[^y]]", "'&&' inside [ ]"),
        (r"[a[bc]]", "'[' inside [ ]"),
    ],
)
def test_patterns_of_rust_alone(pattern: str, fault: str) -> None:
    """What Go lacks is named."""
    assert go_fault(pattern) == fault
