"""`python -m app dev` as a whole, by one session on a control plane of its own."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from rws_operator.project.command import main
from tests.dev.kit import NOTES, Program, Session, note, notes_path
from tests.testing.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNNING = "is running again"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/note-operator"
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session for all tests of this module."""
    program = Program(tmp_path_factory.mktemp("dev"), NOTES)
    with Session(program) as session:
        yield session.wait_until_running()


@pytest.fixture
def session(shared: Session) -> Iterator[Session]:
    """The session, with the program as it was in the beginning, and running."""
    yield shared
    program = shared.program
    since = shared.mark()
    for other in program.file.parent.iterdir():
        if other.name not in ("__init__.py", "__main__.py", "notes.py", "__pycache__"):
            other.unlink()
    program.file.write_text(NOTES)
    shared.wait_for(RUNNING, since)
    for made in shared.admin.request_json("GET", notes_path())["items"]:
        shared.admin.request("DELETE", f"{notes_path()}/{made['metadata']['name']}")


def answer(session: Session, name: str) -> str | None:
    """What the program made of a Note."""
    status, body = session.admin.request("GET", f"{notes_path()}/{name}")
    assert status == HTTPStatus.OK, body
    found: str | None = json.loads(body).get("status", {}).get("answer")
    return found


def is_answered(session: Session, name: str, expected: str) -> bool:
    """Whether the program made that of a Note."""
    return answer(session, name) == expected


def save(session: Session, old: str, new: str) -> float:
    """Save an edit, wait until it runs, and return the seconds that it took."""
    since, saved = session.mark(), time.monotonic()
    session.program.edit(old, new)
    return session.wait_for(RUNNING, since) - saved


def test_a_save_is_at_work_within_a_second(session: Session):
    """Reconciles follow the edit; the control plane and its objects stay."""
    session.admin.request_json("POST", notes_path(), note("quick", "a"))
    wait_until(lambda: answer(session, "quick") == "a 1")
    took = []
    for number in range(1, 5):
        took.append(save(session, f"text}} {number}", f"text}} {number + 1}"))
        wait_until(partial(is_answered, session, "quick", f"a {number + 1}"))
    seconds = ", ".join(f"{each:.2f} s" for each in took)
    sys.stdout.write(f"from save to running again: {seconds}\n")
    assert min(took) < 1.0


def test_webhooks_are_called_before_and_after_a_reload(session: Session):
    """By the same URL and with the same certificate; the edit decides."""
    before = session.admin.request_json("GET", CONFIGURATION)["webhooks"][0]["clientConfig"]
    status, body = session.admin.request("POST", notes_path(), note("first", "bad"))
    assert (status, b"a bad note" in body) == (403, True)
    save(session, "a bad note", "a terrible note")
    _, body = session.admin.request("POST", notes_path(), note("second", "bad"))
    assert b"a terrible note" in body
    after = session.admin.request_json("GET", CONFIGURATION)["webhooks"][0]["clientConfig"]
    assert after == before
    assert before["url"].startswith("https://127.0.0.1:")


def test_a_changed_schema_is_applied(session: Session):
    """A new field is kept by the API server and seen by the reconcile, in the same edit."""
    since = session.mark()
    text = NOTES.replace("text: str\n", 'text: str\n    mood: str = "calm"\n')
    session.program.file.write_text(text.replace("{note.spec.text} 1", "{note.spec.mood}"))
    session.wait_for(RUNNING, since)
    session.wait_for("applied CustomResourceDefinition notes.dev.test.example.com$", since)
    body = note("moody", "a")
    body["spec"]["mood"] = "cross"
    wait_until(
        lambda: (
            session.admin.request("POST", notes_path(), body)[0] in (201, 409)
            and answer(session, "moody") == "cross"
        )
    )


def test_a_webhook_that_is_taken_away_is_called_no_more(session: Session):
    """Else every write of the kind would fail by a path that nobody answers."""
    since = session.mark()
    session.program.file.write_text(NOTES.partition("@operator.validate")[0])
    session.wait_for(RUNNING, since)
    assert "deleted ValidatingWebhookConfiguration note-operator" in session.text(since)
    assert session.admin.request("GET", CONFIGURATION)[0] == 404
    assert session.admin.request("POST", notes_path(), note("free", "bad"))[0] == 201


def test_a_kind_that_was_deleted_comes_again(session: Session):
    """The usual way to be rid of all objects; a save puts it back."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = "notes.dev.test.example.com"
    session.admin.request("DELETE", f"{crds}/{name}")
    wait_until(lambda: session.admin.request("GET", f"{crds}/{name}")[0] == 404)
    since = session.mark()
    save(session, "text} 1", "text} 2")
    assert f"applied CustomResourceDefinition {name}\n" in session.text(since)
    assert session.admin.request("GET", notes_path())[0] == 200


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("def broken(:\n", r"SyntaxError: invalid syntax"),
        ("import nowhere\n", r"ModuleNotFoundError: No module named 'nowhere'"),
        ("1 / 0\n", r"ZeroDivisionError: division by zero"),
        ('raise SystemExit("no configuration")\n', r"no configuration"),
        ("import os; os._exit(7)\n", r"has ended \(exit code 7\)"),
        ("operator.controller(Note, name='other')\n", r"error: .*other.* has no reconcile"),
        ("operator.controller(Note, owns=['x'])\n", r"error: an object of type str has no kind"),
    ],
)
def test_a_program_that_cannot_run_is_told_and_the_next_save_runs(
    session: Session, edit: str, says: str
):
    """The old run is stopped, the reason shown without our own frames, and nothing hangs."""
    old, since = session.run_process(), session.mark()
    session.program.file.write_text(f"{NOTES}\n{edit}")
    session.wait_for("the next save starts it again", since)
    session.wait_for(says, since)
    assert not old.is_running()
    said = session.text(since)
    assert "runpy" not in said
    assert "/rws_operator/" not in said
    assert ("Traceback" in said) == ("Error: " in said)
    if "an object of type str" in said:
        assert re.search(r'app/notes.py", line \d+, in <module>\n    operator.contr', said)
    since = session.mark()
    session.program.file.write_text(NOTES)
    session.wait_for(RUNNING, since)


def test_a_module_that_comes_later_is_watched(session: Session):
    """A module that the program lacks, beside its package or in it, starts it by being saved."""
    for folder, name in (
        (session.program.file.parent, "app.later"),
        (session.program.folder, "aside"),
    ):
        since = session.mark()
        session.program.file.write_text(f"from {name} import N\n{NOTES}")
        session.wait_for(f"No module named '{name}'", since)
        since = session.mark()
        made = folder / f"{name.rpartition('.')[2]}.py"
        made.write_text("N = 1\n")
        session.wait_for(RUNNING, since)
        since = session.mark()
        made.write_text("N = 2\n")
        session.wait_for(RUNNING, since)
        since = session.mark()
        session.program.file.write_text(NOTES)
        session.wait_for(RUNNING, since)
        made.unlink()


def test_a_package_that_comes_later_is_watched(session: Session):
    """What the program imports by an edit starts it from then on, whatever folder it is in."""
    package = session.program.folder / "aside_too"
    package.mkdir()
    (package / "__init__.py").write_text("N = 1\n")
    since = session.mark()
    session.program.file.write_text(f"import aside_too\n{NOTES}")
    session.wait_for(RUNNING, since)
    since = session.mark()
    (package / "__init__.py").write_text("N = 2\n")
    session.wait_for("aside_too/__init__.py changed", since)
    session.wait_for(RUNNING, since)


def test_a_save_by_rename_and_several_in_a_row(session: Session):
    """Whatever editors do, what runs in the end is what was saved last."""
    session.admin.request_json("POST", notes_path(), note("rows", "a"))
    for number in range(12):
        fresh = session.program.file.with_suffix(".tmp")
        fresh.write_text(NOTES.replace("text} 1", f"text}} x{number}"))
        os.replace(fresh, session.program.file)
        time.sleep(0.03)
    wait_until(lambda: answer(session, "rows") == "a x11")
    time.sleep(0.3)
    assert answer(session, "rows") == "a x11"


def test_a_save_is_told_once(session: Session):
    """What an editor does to the file afterwards, and what a watch tells twice, is no news."""
    save(session, "text} 1", "text} 2")
    since = session.mark()
    session.program.file.chmod(0o600)
    time.sleep(0.3)
    assert "changed" not in session.text(since)
    save(session, "text} 2", "text} 1")
    assert session.text(since).count("changed") == 1


def test_a_run_that_fails_at_once_is_not_called_well(session: Session):
    """Reconciles begin before it is known to be ready: their errors stand above that line."""
    session.admin.request_json("POST", notes_path(), note("failing", "a"))
    wait_until(lambda: answer(session, "failing") == "a 1")
    since = session.mark()
    failing = NOTES.replace(
        "await ctx.apply_owned(", 'raise ValueError("no")\n    await ctx.apply_owned(', 1
    )
    session.program.file.write_text(READY_ONCE_FAILED + failing)
    session.wait_for("is running again, .* after the save, with errors: see above$", since)
    since = session.mark()
    session.program.file.write_text(NOTES)
    session.wait_for(RUNNING, since)
    assert "with errors" not in session.text(since)


READY_ONCE_FAILED = '''
import logging

from rws_operator.dev import child


class Failures(logging.Handler):
    """How a run finds out that it is ready, held up until it has logged an error."""

    missing = staticmethod(child._missing)
    are_there = False

    def emit(self, record: logging.LogRecord) -> None:
        self.are_there = True

    async def __call__(self, *run: object) -> str | None:
        return await self.missing(*run) if self.are_there else "an error"


child._missing = Failures(logging.WARNING)
logging.getLogger().addHandler(child._missing)
'''


def test_a_run_lasts_as_long_as_what_it_gave_to_threads(session: Session):
    """As in production: no run begins beside a thread that the one before gave up on."""
    session.admin.request_json("POST", notes_path(), note("threads", "a"))
    wait_until(lambda: answer(session, "threads") == "a 1")
    since = session.mark()
    begin, end = NOTES.split("@notes.reconcile\n")
    gives_up = begin + GIVES_UP + "@operator.validate" + end.split("@operator.validate")[1]
    session.program.file.write_text(gives_up)
    session.wait_for(RUNNING, since)
    wait_until(lambda: (answer(session, "threads") or "").startswith("4 runs"))
    assert answer(session, "threads") == "4 runs, 1 thread at most"


GIVES_UP = """
import asyncio, contextlib, time
from rws_operator import Action

at_work, most, runs = [], 0, 0


def work() -> None:
    global most
    at_work.append(1)
    most = max(most, len(at_work))
    time.sleep(0.3)
    at_work.pop()


@notes.reconcile
async def reconcile(note: Note, ctx: Context) -> Action | None:
    global runs
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.to_thread(work)
    runs += 1
    if runs < 4:
        return Action.requeue(0.01)
    await ctx.patch_status(note, {"answer": f"{runs} runs, {most} thread at most"})
    return None


"""


def test_a_program_that_writes_into_its_own_package(session: Session):
    """A log there does not start it for ever: what only the program changes is let be."""
    own = "from pathlib import Path\nwith open(Path(__file__).with_name('own.log'), 'a') as own:\n"
    since = session.mark()
    session.program.file.write_text(f"{own}    own.write('started')\n{NOTES}")
    session.wait_for("own.log changed at each start: the program itself", since, seconds=30)
    starts = session.text(since).count("own.log changed\n")
    save(session, "text} 1", "text} 2")
    assert session.text(since).count("own.log changed\n") == starts


def test_a_run_that_dies_is_told(session: Session):
    """A kill from outside ends neither the session nor the next run."""
    since = session.mark()
    session.run_process().kill()
    session.wait_for(r"has ended \(signal 9\); the next save", since)
    save(session, "text} 1", "text} 2")


EXITS_IN_A_TASK = """
    async def leave():
        raise SystemExit(0)
    await asyncio.wait([asyncio.create_task(leave(), name="leaving")])
    await ctx.apply_owned("""

EXITS_AT_THE_START = """

class Leaves:
    name = "leaves"
    def rules(self): return []
    def kinds(self): return []
    def bind(self, environment): raise SystemExit(0)
    async def run(self): ...

operator.add(Leaves())
"""


def test_a_task_that_exits_ends_no_run(session: Session):
    """As where the program serves: it is told, and the same process goes on."""
    since = session.mark()
    text = NOTES.replace("\n    await ctx.apply_owned(", EXITS_IN_A_TASK, 1)
    session.program.file.write_text(f"import asyncio\n{text}")
    session.wait_for(RUNNING, since)
    running = session.run_process()
    for name in ("left", "left-again"):
        session.admin.request_json("POST", notes_path(), note(name, "a"))
        wait_until(partial(is_answered, session, name, "a 1"))
    assert session.run_process() == running
    session.wait_for("a task raised SystemExit; .*task=leaving", since)


def test_a_start_that_exits_is_told_as_a_failure(session: Session):
    """Whatever its exit code: what does not run looks like nothing at all otherwise."""
    since = session.mark()
    session.program.file.write_text(NOTES + EXITS_AT_THE_START)
    session.wait_for("^SystemExit: 0$", since)
    session.wait_for("the next save starts it again", since)


def test_an_import_that_hangs_is_told_with_its_line(session: Session):
    """A connection that nobody answers looks like nothing at all otherwise."""
    since = session.mark()
    session.program.file.write_text(f"import threading\n\nthreading.Event().wait()\n{NOTES}")
    session.wait_for(
        r"still being imported after 5 s: it is at app/notes.py:3, threading.Event", since
    )
    save(session, "threading.Event", "# threading")


def test_a_run_that_hangs_does_not_hang_the_session(session: Session):
    """Neither an import without end nor a handler that stops for nobody keeps a save waiting."""
    since = session.mark()
    session.program.file.write_text(
        f"import time; print('hanging', flush=True)\ntime.sleep(60)\n{NOTES}"
    )
    session.wait_for("hanging", since)
    since = session.mark()
    stubborn = (
        "import signal, time\n    signal.pthread_sigmask(signal.SIG_BLOCK, [15]); time.sleep(60)"
    )
    session.program.file.write_text(
        NOTES.replace(
            "    await ctx.apply_owned(", f"    {stubborn}\n    await ctx.apply_owned(", 1
        )
    )
    session.wait_for(RUNNING, since)
    session.admin.request("POST", notes_path(), note("stuck", "a"))
    time.sleep(0.3)
    assert save(session, "sleep(60)", "sleep(0)") < 3


def test_the_fork_server_may_die(session: Session):
    """The next save starts another."""
    since, run = session.mark(), session.run_process()
    session.server_process().kill()
    session.wait_for("has ended", since)
    wait_until(lambda: not run.is_running())
    save(session, "text} 1", "text} 2")


@pytest.mark.parametrize(
    "listed",
    [
        "    await ctx.client.list(kinds.Secret, 'default')\n",
        "    from rws_operator.client import client\n"
        "    async with await client() as own:\n"
        "        await own.list(kinds.Secret, 'default')\n",
    ],
)
def test_a_permission_that_is_missing_shows(session: Session, listed: str):
    """The program may do what its manifests say, also by a client that it makes itself."""
    since = session.mark()
    session.program.file.write_text(
        NOTES.replace("    await ctx.apply_owned(", f"{listed}    await ctx.apply_owned(", 1)
    )
    # Until the reload is over, nobody answers the webhook.
    wait_until(lambda: session.admin.request("POST", notes_path(), note("nosy", "a"))[0] == 201)
    session.wait_for(r"serviceaccount:note-operator:note-operator.* cannot list .*secrets", since)
    since = session.mark()
    rule = 'operator.rule(PolicyRule("", ("secrets",), ("list",)))\n'
    session.program.edit("notes = operator", f"{rule}notes = operator")
    session.wait_for("applied ClusterRole note-operator", since)
    wait_until(lambda: answer(session, "nosy") == "a 1")


def test_the_token_of_a_run_is_renewed(session: Session):
    """A run that lasts longer than its token has another one by then."""
    since = session.mark()
    session.program.file.write_text(AGEING + NOTES)
    session.wait_for(RUNNING, since)
    (token,) = session.temporary.glob("*/operator.token")
    first = token.read_text()
    wait_until(lambda: token.read_text() != first)


AGEING = """
import itertools
from types import SimpleNamespace

from rws_operator.dev import account

hours = itertools.count(step=12 * 3600)
account.time = SimpleNamespace(time=lambda: next(hours))
account._LOOK_SECONDS = 0.05
"""


def test_no_lease_is_taken_and_no_pod_asked_for(session: Session):
    """One process is all there is: neither an election's wait nor a second replica."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/note-operator/leases/note-operator"
    assert session.admin.request("GET", lease)[0] == 404
    deployments = session.admin.request_json("GET", "/apis/apps/v1/deployments")
    assert deployments["items"] == []


def test_env_tells_of_it(session: Session, monkeypatch: pytest.MonkeyPatch):
    """Another shell finds the control plane without a look at the terminal."""
    monkeypatch.setattr("tempfile.tempdir", str(session.temporary))
    told = CliRunner().invoke(main, ["controlplane", "env"])
    assert told.output == f"export KUBECONFIG={session.kubeconfig}\n"


def test_what_is_not_coloured(session: Session):
    """What goes to a file has no marks of colours."""
    assert "\x1b[" not in session.text()
    assert "watchfiles" not in session.text()
