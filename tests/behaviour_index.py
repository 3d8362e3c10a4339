"""Writes tests/BEHAVIOURS.md: the catalogue, with the tests that carry the id of each behaviour.

Run as ``ci/behaviours``, or ``ci/behaviours --check``, which writes nothing and fails if the file
is out of date. Either fails if a behaviour has no test on the real API server, or if a test that
shows one may be skipped or fail. Tests are found by pytest's own collection, so marks of modules
and parameters count; a test is on the real API server if it, or a fixture that it uses, has a
control plane.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.behaviours import AREAS, BEHAVIOURS, Behaviour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "tests/BEHAVIOURS.md"
LIVE = "API server"
VIRTUAL = "virtual time"
IN_PROCESS = "in process"
EXCUSES = ("skip", "skipif", "xfail")
HEADER = """\
# Behaviours

What the runtime promises, and the tests that show it. Written by `ci/behaviours` from
`tests/behaviours.py` and the tests' `behaviour` marks; not to be edited. Behind each test stands
what it runs on: the real API server; virtual time; or only this process, e.g. a scripted server.
"""


class Shown(NamedTuple):
    """A test that shows a behaviour."""

    test: str
    on: str


class _Collector:
    """The pytest plugin that looks at the collected tests.

    Attributes:
        shown: The tests of each behaviour.
        excused: Tests that show one, but are marked to be skipped or to fail.
    """

    def __init__(self) -> None:
        self.shown: dict[str, set[Shown]] = {}
        self.excused: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if not item.get_closest_marker("behaviour"):
                continue
            self.excused += [
                f"{item.nodeid}: {excuse}" for excuse in EXCUSES if item.get_closest_marker(excuse)
            ]
            for mark in item.iter_markers("behaviour"):
                shown = Shown(item.nodeid.partition("[")[0], _runs_on(item))
                for key in mark.args:
                    self.shown.setdefault(key, set()).add(shown)


def _runs_on(item: pytest.Item) -> str:
    if item.get_closest_marker("virtual_time"):
        return VIRTUAL
    return LIVE if any(map(_starts_one, _functions(item))) else IN_PROCESS


def _functions(item: Any) -> Iterator[Callable[..., object]]:
    """The test and its fixtures, as far as they are functions."""
    yield item.function
    for name in item.fixturenames:
        for fixture in item._fixtureinfo.name2fixturedefs.get(name, ()):
            if inspect.isfunction(fixture.func):
                yield fixture.func


@functools.cache
def _starts_one(function: Callable[..., object]) -> bool:
    """Whether a function makes a control plane, rather than only naming one."""
    return "ControlPlane(" in inspect.getsource(function)


def collect() -> dict[str, list[Shown]]:
    """Return the tests of each behaviour.

    Raises:
        RuntimeError: The tests can't be collected, or may show nothing.
    """
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.behaviour" in path.read_text()
    ]
    if not files:
        return {}
    collector, output = _Collector(), io.StringIO()
    options = ["--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    with contextlib.redirect_stdout(output):
        code = pytest.main([*options, *map(str, sorted(files))], plugins=[collector])
    if code:
        _, begin, why = output.getvalue().partition("= ERRORS =")
        raise RuntimeError(begin + why or output.getvalue())
    if collector.excused:
        excused = "\n".join(collector.excused)
        raise RuntimeError(f"what shows a behaviour may neither be skipped nor fail:\n{excused}")
    return {key: sorted(tests) for key, tests in collector.shown.items()}


def missing(shown: dict[str, list[Shown]]) -> list[str]:
    """The behaviours that no test shows on the real API server, though they are kept."""
    live = {key for key, tests in shown.items() if any(test.on == LIVE for test in tests)}
    return [key for key, each in BEHAVIOURS.items() if not each.not_yet and key not in live]


def index(shown: dict[str, list[Shown]]) -> str:
    """The whole file."""
    lines = [HEADER]
    for area, behaviours in AREAS.items():
        lines += [f"## {area}", ""]
        for key, behaviour in behaviours.items():
            if not behaviour.not_yet:
                lines += _entry(key, behaviour, shown.get(key, []))
        lines.append("")
    lines += ["## Not yet", ""]
    lines += [
        f"- **{key}** {b.sentence} *{b.not_yet}*" for key, b in BEHAVIOURS.items() if b.not_yet
    ]
    return "\n".join(lines) + "\n"


def _entry(key: str, behaviour: Behaviour, tests: Iterable[Shown]) -> Iterator[str]:
    yield f"- **{key}** {behaviour.sentence}"
    for test, on in tests:
        yield f"  - `{test}` ({on})"


def main() -> int:
    """Write the file, or check it."""
    shown = collect()
    faults = [f"no test on the real API server shows {key}" for key in missing(shown)]
    wanted = index(shown)
    if sys.argv[1:] != ["--check"]:
        INDEX.write_text(wanted)
    elif not INDEX.exists() or INDEX.read_text() != wanted:
        faults.append(f"{INDEX.relative_to(ROOT)} is out of date: run ci/behaviours")
    for fault in faults:
        print(fault, file=sys.stderr)  # noqa: T201
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
