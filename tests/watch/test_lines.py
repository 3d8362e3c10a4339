import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rws_operator.watch.lines import LineSplitter


@given(st.lists(st.binary(max_size=6)), st.integers(1, 7))
def test_lines_are_whole_however_they_are_cut(parts: list[bytes], size: int) -> None:
    """Chunk borders never show: the lines are those of the whole."""
    whole = b"\n".join(parts) + b"\n"
    splitter = LineSplitter()
    lines = []
    for start in range(0, len(whole), size):
        lines += splitter.feed(whole[start : start + size])
    assert lines == [line for line in whole.split(b"\n") if line]


def test_an_unfinished_line_is_kept_back() -> None:
    """What has no line feed yet is no line."""
    splitter = LineSplitter()
    assert splitter.feed(b"ab") == []
    assert splitter.feed(b"c\nd") == [b"abc"]


@pytest.mark.parametrize("megabytes", [64])
def test_a_long_line_costs_no_more_per_byte(megabytes: int) -> None:
    """A line of 64 MB in chunks of 16 kB takes a moment; quadratic copying would take minutes."""
    chunk = b"x" * 16384
    splitter = LineSplitter()
    began = time.process_time()
    for _ in range(megabytes * 64):
        assert splitter.feed(chunk) == []
    assert len(splitter.feed(b"\n")[0]) == megabytes << 20
    assert time.process_time() - began < 5
