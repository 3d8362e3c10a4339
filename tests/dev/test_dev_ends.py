"""How a session begins and ends: nothing is left of it, however it goes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest

from rws_operator.dev.sources import import_watchfiles
from rws_operator.errors import ConfigurationError
from tests.dev.kit import (
    GREEN,
    NOTES,
    PRODUCTION,
    RED,
    ROOT,
    Program,
    Session,
    assert_nothing_is_left,
    note,
    notes_path,
)
from tests.testing.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path


class Terminal:
    """A terminal that a session runs on, seen from the user's side."""

    def __init__(self) -> None:
        self.screen, self.theirs = pty.openpty()
        self.text = ""

    def wait_for(self, pattern: str, seconds: float = 60.0) -> None:
        """Wait for something to be shown."""
        give_up = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < give_up, self.text
            if select.select([self.screen], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.screen, 65_536).decode()
                except OSError:  # nobody has it open any more
                    return

    def wait_until_closed(self) -> None:
        """Read on: who writes to a terminal that nobody reads would hang."""
        os.close(self.theirs)
        self.theirs = -1
        self.wait_for("(?!)", 20)

    def close(self) -> None:
        """Close both sides."""
        os.close(self.screen)
        if self.theirs >= 0:
            os.close(self.theirs)


def on_terminal(
    program: Program, terminal: Terminal, **environment: str
) -> subprocess.Popen[bytes]:
    """Start a session whose controlling terminal it is, as a shell does."""
    starting = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    temporary = program.folder / "tmp"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", starting, "-m", "app", "dev", "--http-port=0", "--webhook-port=0"],
        cwd=program.folder,
        env={**os.environ, "TMPDIR": str(temporary), "TERM": "xterm", **environment},
        stdin=terminal.theirs,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
    )


def test_ctrl_c_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Colours while it runs, red for what is broken; Ctrl-C ends all of it with exit code 0."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    program = Program(tmp_path, NOTES)
    with closing(Terminal()) as terminal, on_terminal(program, terminal) as process:
        terminal.wait_for("note-operator is running")
        program.edit("from rws_operator import", "from from rws_operator import")
        terminal.wait_for("the next save starts it again")
        own = psutil.Process(process.pid)
        family = [own, *own.children(recursive=True)]
        os.write(terminal.screen, b"\x03")
        terminal.wait_until_closed()
        assert process.wait(20) == 0
        assert_nothing_is_left(family[1:], program.folder / "tmp")
    assert f"{GREEN}INFO " in terminal.text
    assert f"{GREEN}▸ note-operator is running" in terminal.text
    assert re.search(rf"{re.escape(RED)}[^\x1b]*SyntaxError", terminal.text)
    assert "KeyboardInterrupt" not in terminal.text


@pytest.mark.parametrize("moment", [0.0, 0.6, 1.2, 2.0, 4.0])
def test_ctrl_c_during_the_start(tmp_path: Path, moment: float):
    """At any moment of it: exit code 130 before there is a control plane, and nothing is left."""
    session = Session(Program(tmp_path, NOTES))
    with session:
        wait_until(lambda: any(session.temporary.iterdir()))
        time.sleep(moment)
        family = session.family()
        session.process.send_signal(signal.SIGINT)
        code = session.process.wait(20)
        assert code == (0 if "export" in session.text() else 130)
        assert_nothing_is_left(family, session.temporary)
    assert "Traceback" not in session.text()


def test_ctrl_c_during_a_build(tmp_path: Path):
    """The compiler is ended, what was built is kept, and one line says so."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text('#!/bin/sh\nif [ "$1" = env ]; then echo go1.99.0; exit; fi\nsleep 60\n')
    go.chmod(0o755)
    environment = {"PATH": f"{go.parent}:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    session = Session(Program(tmp_path / "program", NOTES), environment=environment)
    with session:
        session.wait_for("building etcd", seconds=20)
        wait_until(lambda: any("sleep" in each.name() for each in session.family()))
        family = session.family()
        session.process.send_signal(signal.SIGINT)
        assert session.process.wait(20) == 130
        assert_nothing_is_left(family, session.temporary)
    assert session.text().splitlines()[-1] == "rws-operator: stopped; what was built is kept"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(tmp_path: Path, number: signal.Signals):
    """A closed terminal, a kill and a crash of the session take run, control plane and files."""
    session = Session(Program(tmp_path, NOTES))
    with session:
        session.wait_until_running()
        family = session.family()
        assert len(family) == 1 + 2 + 6  # fork server and run; three programs, three supervisors
        session.process.send_signal(number)
        assert session.process.wait(20) == (-9 if number == signal.SIGKILL else 0)
        assert_nothing_is_left(family, session.temporary)


def test_a_second_ctrl_c_changes_nothing(tmp_path: Path):
    """Whoever is impatient learns what is waited for, and leaves nothing behind, either."""
    session = Session(Program(tmp_path, NOTES))
    with session:
        session.wait_until_running()
        family = session.family()
        until = time.monotonic() + 20
        while session.process.poll() is None and time.monotonic() < until:
            session.process.send_signal(signal.SIGINT)  # to Python's own end, too
            time.sleep(0.01)
        assert session.process.returncode == 0
        assert_nothing_is_left(family, session.temporary)
    assert "Traceback" not in session.text()
    assert "ends as soon as the " in session.text()  # run has ended, or control plane


@pytest.mark.parametrize("flag", ["--http-port", "--webhook-port"])
def test_a_port_that_is_taken(tmp_path: Path, flag: str):
    """It is told by its option, before anything starts."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with Session(Program(tmp_path, NOTES), flag, str(port)) as session:
            assert session.process.wait(20) == 1
    (line,) = session.text().splitlines()
    assert line.startswith(f"error: {flag} {port} can't be listened on: Address already in use")
    assert list(session.temporary.iterdir()) == []


def test_all_ports_that_are_taken(tmp_path: Path):
    """Whoever named two of them learns of both at once."""
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as two:
        ports = [each.getsockname()[1] for each in (one, two)]
        options = "--http-port", str(ports[0]), "--webhook-port", str(ports[1])
        with Session(Program(tmp_path, NOTES), *options) as session:
            assert session.process.wait(20) == 1
    assert f"--http-port {ports[0]} can't be listened on: Address" in session.text()
    assert f"; --webhook-port {ports[1]} can't be listened on: Address" in session.text()


def test_without_a_standard_input(tmp_path: Path):
    """Nobody can be asked then, either: one line, as where it is no terminal."""
    (tmp_path / "config").write_text(PRODUCTION)
    command = f'"{sys.executable}" -m app dev --kubeconfig config <&-'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=Program(tmp_path, NOTES).folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "does not look like a throwaway cluster" in line


@pytest.mark.parametrize("host", ["https://me", "me:9443", "two words", "*.example.com", "[me]"])
def test_a_webhook_host_that_is_none(tmp_path: Path, host: str):
    """It is told once, by its option, before anything starts; not by each run."""
    with Session(Program(tmp_path, NOTES), f"--webhook-host={host}") as session:
        assert session.process.wait(20) == 1
    (line,) = session.text().splitlines()
    assert line.startswith(f"error: --webhook-host {host} is neither a DNS name nor")
    assert list(session.temporary.iterdir()) == []


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_webhooks_at_an_ipv6_address(tmp_path: Path, host: str):
    """Named alone or as in a URL, it is where the API server calls."""
    with Session(Program(tmp_path, NOTES), "--webhook-host", host) as session:
        session.wait_until_running()
        status, body = session.admin.request("POST", notes_path(), note("one", "bad"))
    assert (status, b"a bad note" in body) == (403, True)


def test_a_program_from_no_file(tmp_path: Path):
    """What can't be started again is told so."""
    Program(tmp_path, NOTES)
    code = "import sys; sys.argv[1:] = ['dev']; import app.notes; app.notes.operator.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "start it by python -m app dev" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("def broken(:\n", r"app/notes.py.*\n.*\n.*\n.*SyntaxError"),
        ("operator.controller(Note, owns=['x'])\n", "error: an object of type str has no kind"),
    ],
)
def test_a_program_that_is_broken_from_the_start(tmp_path: Path, broken: str, says: str):
    """Its error is shown without our own frames, and the save that mends it starts it."""
    program = Program(tmp_path, f"{NOTES}\n{broken}")
    session = Session(program, command=["-m", "rws_operator.dev", "app"])
    with session:
        session.wait_for("could not be started; the next save starts it again", seconds=20)
        said = session.text()
        assert re.search(says, said)
        assert "runpy" not in said
        assert "/rws_operator/" not in said
        program.file.write_text(NOTES)
        session.wait_until_running()
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("is running again", since)


def test_a_program_that_is_broken_before_its_package_is(tmp_path: Path):
    """There is nothing of it to be imported, and yet its files are watched."""
    program = Program(tmp_path, NOTES)
    package = program.folder / "app" / "__init__.py"
    package.write_text("import time\ntime.sleep(5.5)\n1 / 0\n")
    session = Session(program, command=["-m", "rws_operator.dev", "app"])
    with session:
        session.wait_for("still being imported after 5 s: it is at app/__init__.py:2", seconds=20)
        session.wait_for("the next save starts it again")
        package.write_text("1 / 0  # again\n")
        session.wait_for("1 / 0  # again")
        session.process.send_signal(signal.SIGINT)
        assert session.process.wait(20) == 130


def test_a_program_that_is_not_there(tmp_path: Path):
    """No save would mend the command line: one line, exit code 1."""
    session = Session(Program(tmp_path, NOTES), command=["-m", "rws_operator.dev", "nowhere"])
    with session:
        assert session.process.wait(20) == 1
    (line,) = session.text().splitlines()
    assert line.startswith(f"error: there is no module nowhere in {tmp_path}")


def test_without_watchfiles(monkeypatch: pytest.MonkeyPatch):
    """Who runs only operators has no need of it; who develops is told how to have it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'rws-operator\[dev\]'"):
        import_watchfiles()


def test_a_script_without_a_package(tmp_path: Path):
    """One file is a program, too: neither webhooks nor a module to name."""
    program = Program(tmp_path, NOTES)
    script = tmp_path / "one file.py"
    script.write_text(NOTES.partition("@operator.validate")[0] + "\n\noperator.main()\n")
    session = Session(program, command=[str(script), "dev"])
    with session:
        session.wait_until_running()
        since = session.mark()
        script.write_text(script.read_text().replace("text} 1", "text} 2"))
        session.wait_for("one file.py changed", since)
        session.wait_for("is running again", since)
