"""Where an import goes in a program that is somebody else's."""

import subprocess
import sys
from pathlib import Path

import pytest

from rws_operator.project.add_import import with_import

PROGRAM = (
    b'"""Doc."""\n\nimport sys\n\nimport app.b\nimport app.d  # mine\nfrom app import operator\n'
)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("app.a", b"import app.b\n"),
        ("app.b2", b"import app.d  # mine\n"),
        ("app.c", b"import app.d  # mine\n"),
        ("app.e", b"from app import operator\n"),
    ],
)
def test_the_line_goes_to_its_sorted_place(module: str, line: bytes):
    """All others stay, comments included."""
    edited = with_import(PROGRAM, module)
    assert edited == PROGRAM.replace(line, f"import {module}\n".encode() + line)


NAMES = ["a", "a_b", "ab", "a1", "a1_b", "a2", "a10", "a_1", "a_10", "a_2", "b", "a.b", "a.b2"]


@pytest.mark.parametrize("name", NAMES)
def test_the_place_is_that_of_the_linter(name: str, tmp_path: Path):
    """What ruff has sorted stays sorted."""
    program = tmp_path / "program.py"
    lines = [f"import app.{each}\n" for each in NAMES if each != name]
    program.write_text("".join(lines))
    select = ["check", "--isolated", "--quiet", "--no-cache", "--select", "I"]
    ruff = [sys.executable, "-m", "ruff", *select]
    subprocess.run([*ruff, "--fix", str(program)], check=True)
    edited = with_import(program.read_bytes(), f"app.{name}")
    assert edited is not None
    assert edited != program.read_bytes()
    program.write_bytes(edited)
    subprocess.run([*ruff, str(program)], check=True)


@pytest.mark.parametrize(
    "line",
    [
        b"import app.c",
        b"import sys, app.c",
        b"import app.c as c",
        b"from app import c",
        b"from app import (\n    c,\n)",
        b"from app.c import Thing",
        b"from . import c",
        b"from .c import Thing",
    ],
)
def test_what_is_imported_already_is_left(line: bytes):
    """However that is written."""
    source = PROGRAM + line + b"\n"
    assert with_import(source, "app.c") is source


@pytest.mark.parametrize(
    ("source", "edited"),
    [
        (b"import app.b\r\nx = 1\r\n", b"import app.b\r\nimport app.c\r\nx = 1\r\n"),
        (b"import app.d\r\nx = 1\n", b"import app.c\r\nimport app.d\r\nx = 1\n"),
        (b"import app.b", b"import app.b\nimport app.c"),
        (b"import app.d", b"import app.c\nimport app.d"),
        (b"import \\\n  app.b\nx = 1", b"import \\\n  app.b\nimport app.c\nx = 1"),
        (b"\xef\xbb\xbfx=1\nimport app.d\n", b"\xef\xbb\xbfx=1\nimport app.c\nimport app.d\n"),
        (
            b"# coding: latin-1\nx = '\xe9\x0c'\nimport app.b\n",
            b"# coding: latin-1\nx = '\xe9\x0c'\nimport app.b\nimport app.c\n",
        ),
        (
            b"import app.b\n# of d\nimport app.d\n",
            b"import app.b\nimport app.c\n# of d\nimport app.d\n",
        ),
        (
            b"if x:\n    import app.c\nimport app.b\n",
            b"if x:\n    import app.c\nimport app.b\nimport app.c\n",
        ),
    ],
)
def test_every_byte_of_the_rest_is_kept(source: bytes, edited: bytes):
    """Line ends, encodings, a missing last one, and comments that belong to another line."""
    assert with_import(source, "app.c") == edited


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"from app import b, operator\n",
        b"import app.b as b\n",
        b"import app.d\nimport app.b\n",  # in an order of its own
        b"# of all, or of d?\nimport app.d\n",
        b"def load():\n    import app.b\n",
        b"import app.b; x = (\n    1,\n)\n",
        b"\xef\xbb\xbfimport app.d\n",  # nothing goes before a byte order mark
        b"import app.b\nclass\n",
        b"# coding: nonesuch\nimport app.b\n",
        b"import app.b\n\x00",
    ],
)
def test_where_there_is_no_clear_place_there_is_no_guess(source: bytes):
    """It is for the user to say."""
    assert with_import(source, "app.c") is None
