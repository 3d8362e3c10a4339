"""`python -m rws_operator.dev PROGRAM`: as `python -m PROGRAM dev`, whatever is wrong with it.

A program that fails before it calls `Operator.main` can't wait to be mended. This tells its error
as a reload does, and starts over once a file of it is saved.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import runpy
import sys
import time
from pathlib import Path

from rws_operator.dev import frames
from rws_operator.dev.console import tell
from rws_operator.dev.sources import Sources, import_watchfiles, sources_of
from rws_operator.errors import ConfigurationError
from rws_operator.testing.waiting import INTERRUPTED

_LOOK_SECONDS = 0.2


def main() -> None:
    """Run the program's command `dev`, over and over until that could be reached."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.stderr.write("usage: python -m rws_operator.dev PROGRAM [OPTIONS of its dev]\n")
        sys.exit(2)
    _, module, *options = sys.argv
    try:
        sources = _sources_of(module)
        import_watchfiles()  # which the session needs
    except ConfigurationError as error:
        sys.exit(f"error: {error}")
    sys.argv = [module, "dev", *options]
    sys.dont_write_bytecode = True  # two saves of one size within a second: the first one's
    before = _states(sources)
    frames.begin_import()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        frames.end_import()
        tell("the program ended without calling Operator.main()", "red")
    except Exception as error:
        if frames.end_import():
            raise
        frames.tell_error(error, debug="--debug" in options)
    tell("it could not be started; the next save starts it again", "red")
    sources |= sources_of(sys.modules)
    before = _states(sources) | before
    while _states(sources) == before:
        time.sleep(_LOOK_SECONDS)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell wanted


def _states(sources: Sources) -> dict[Path, tuple[int, int]]:
    """What a save changes of each Python file."""
    found = {}
    for folders, pattern in ((sources.packages, "**/*.py"), (sources.folders, "*.py")):
        for path in (path for folder in folders for path in Path(folder).glob(pattern)):
            with contextlib.suppress(OSError):  # it has gone
                status = path.stat()
                found[path] = status.st_mtime_ns, status.st_size
    return found


def _sources_of(module: str) -> Sources:
    """Where a program is, though nothing of it could be imported.

    Raises:
        ConfigurationError: There is none of that name.
    """
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        raise ConfigurationError(
            f"there is no module {module} in {os.getcwd()}",
            remedy="name the package that python -m runs",
        )
    packages = [os.path.abspath(each) for each in spec.submodule_search_locations or ()]
    folders = [os.path.dirname(each) for each in packages or [str(spec.origin)]]
    return Sources(frozenset(packages), frozenset(folders))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
