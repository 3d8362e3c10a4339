"""The command line: what it prints, what it exits with, and that it always ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.cli import main
from rws_operator.errors import ConfigurationError
from rws_operator.guard import EXIT_SECONDS, LOST_SECONDS
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator


class Program:
    """Stands for an Operator; notes what it was asked."""

    name = "app"
    default_image = "app:latest"
    http_port = None
    stop_seconds = 30.0
    blocked_seconds = 0.0

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: dict[str, Any] = {}
        self._error = error

    def check_complete(self) -> None:
        """It is complete."""

    def manifests(self, **arguments: Any) -> list[dict[str, Any]]:
        """Answer one document, or raise."""
        self.asked = arguments
        if self._error:
            raise self._error
        return [{"kind": "Namespace"}]

    def unnamed_host(self, webhook_url: str, namespace: str | None) -> str | None:
        """Its certificate names one host."""
        return None if webhook_url == "https://h:1" else "other"

    def converts(self, crd: Any, namespace: str | None) -> bool:
        """It converts nothing."""
        return False

    def finalizers(self) -> dict[Any, list[str]]:
        """It puts none on objects."""
        return {}

    def for_development(self, client: Any, *, alone: bool) -> Program:
        """It has no copy."""
        return self

    def is_leading(self) -> bool:
        """It needs no Lease."""
        return True

    async def run(self, **arguments: Any) -> None:
        """End at once."""
        self.asked = arguments
        if self._error:
            raise self._error

    def stop(self) -> None:
        """Nothing runs."""

    def expires_in(self) -> float | None:
        """There is no Lease."""
        return None

    def is_at_work(self) -> bool:
        """Nothing is done."""
        return False


def test_a_bare_call_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who types the program's name learns what it can do."""
    assert main(Program(), []) == 0
    printed = capsys.readouterr().out
    assert "--manifests" in printed
    assert "serve" in printed
    assert "RWS_CONFIG_IMAGE" in printed


def test_manifests_go_to_stdout_and_notes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """What is piped to kubectl is YAML and nothing else; the default image is pointed out."""
    program = Program()
    assert main(program, ["--manifests", "--namespace", "n", "--replicas", "3"]) == 0
    printed = capsys.readouterr()
    assert list(yaml.safe_load_all(printed.out)) == [{"kind": "Namespace"}]
    assert printed.err == "note: no --image was given: the Deployment names app:latest\n"
    assert program.asked == {
        "namespace": "n",
        "image": None,
        "replicas": 3,
        "webhook_url": None,
    }


def test_a_host_that_no_certificate_names_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """Every call there would fail; what is printed would not show why."""
    arguments = ["--manifests", "--image", "i:1", "--webhook-url"]
    assert main(Program(), [*arguments, "https://h:1"]) == 0
    assert capsys.readouterr().err == ""
    assert main(Program(), [*arguments, "https://other:1"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("note: the API server will trust no certificate of the operator's at ")
    assert 'operator.certificate(names=["other"])' in told


def test_options_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Deployment sets variables, and no arguments."""
    monkeypatch.setenv("RWS_CONFIG_IMAGE", "i:1")
    monkeypatch.setenv("RWS_CONFIG_HTTP_PORT", "0")
    monkeypatch.setenv("RWS_CONFIG_KUBECONFIG", "k")
    program = Program()
    assert main(program, ["--manifests"]) == 0
    assert program.asked["image"] == "i:1"
    monkeypatch.setenv("RWS_CONFIG_WEBHOOK_URL", "https://h:1")
    assert main(program, ["--manifests"]) == 0
    assert program.asked["webhook_url"] == "https://h:1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--manifests", "--image", "i"],
        ["--debug", "--manifests"],
        ["uninstall"],
        ["uninstall", "--debug"],
        ["--debug", "uninstall"],
    ],
)
def test_an_error_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What, where and remedy stand in one line; a traceback only comes with --debug."""
    error = ConfigurationError("Backup.spec:\n  no such field", remedy="name it")
    assert main(Program(error), arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == "error: Backup.spec: no such field: name it"
    assert ("Traceback" in printed.err) == ("--debug" in arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--image", "i"], "--image is for --manifests only"),
        (["--replicas", "2", "serve"], "--replicas is for --manifests only"),
        (["--manifests", "serve"], "--manifests and serve exclude each other"),
        (["--webhook-url", "https://h", "serve"], "--webhook-url is for --manifests only"),
        (["--namespace", "n", "uninstall"], "--namespace stands behind uninstall"),
        (["serve", "--tls-cert-file", "c"], "go together: the key is missing"),
        (["serve", "--tls-key-file", "k"], "go together: the certificate is missing"),
    ],
)
def test_what_would_be_ignored_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who types an option that does nothing learns it before anything starts."""
    assert main(Program(), arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_a_kubeconfig_that_is_not_there_is_told_by_its_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who named one is not told to set KUBECONFIG."""
    assert main(Program(), ["serve", "--kubeconfig", "/none"]) == 1
    told = capsys.readouterr().err
    assert told == "error: --kubeconfig: there is no /none: name a file that exists\n"


@pytest.mark.parametrize("command", ["serve", "dev", "uninstall"])
@pytest.mark.parametrize("flag", ["--kubeconfig", "--context"])
def test_an_empty_option_names_no_cluster(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that is not set must not lead to whatever cluster is the current one."""
    assert main(Program(), [command, flag, ""]) == 2
    assert capsys.readouterr().err == f"error: {flag} is empty: see --help\n"


@pytest.mark.parametrize("arguments", [["--manifests"], ["uninstall", "--yes"]])
def test_a_namespace_that_is_none_is_told_by_its_option(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said of the parts that the name would have been used for."""
    assert main(Program(), [*arguments, "--namespace", "Bad_Name"]) == 1
    assert capsys.readouterr().err.startswith("error: --namespace 'Bad_Name' is not a DNS label")


def test_the_environment_may_hold_more_than_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod's variables are for all of the program's commands."""
    monkeypatch.setenv("RWS_CONFIG_IMAGE", "i:1")
    assert main(Program(), []) == 0


@pytest.mark.parametrize("arguments", [["--manifests"], ["serve", "--http-port", "0"]])
def test_a_program_that_is_not_complete_says_so(arguments: list[str]) -> None:
    """Neither is an operator installed that can't run, nor is a cluster asked for first."""
    source = """
        from rws_operator import Operator, kinds
        operator = Operator("app")
        operator.controller(kinds.ConfigMap)
        operator.main()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        env={**os.environ, "KUBECONFIG": "/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: controller ConfigMap has no reconcile: decorate a")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("level", ["info", "INFO", "Debug"])
def test_a_log_level_is_read_in_any_case(level: str) -> None:
    """Many tools write levels in capitals."""
    process = Process("print('running on')", RWS_CONFIG_LOG_LEVEL=level)
    assert process.end()[0] == 0


def test_the_pods_settings_say_where_webhooks_are_served() -> None:
    """Port and mounted certificate come from the environment, as a Deployment sets them."""
    process = Process(
        "pass",
        serves="0 ('/tls/tls.crt', '/tls/tls.key') None",
        RWS_CONFIG_WEBHOOK_PORT="0",
        RWS_CONFIG_TLS_CERT_FILE="/tls/tls.crt",
        RWS_CONFIG_TLS_KEY_FILE="/tls/tls.key",
    )
    assert process.end()[0] == 0


@pytest.mark.parametrize("arguments", [["--nonsense"], ["serve", "--http-port", "99999"]])
def test_a_wrong_option_is_one_line_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option and where to look; the exit code is the usual 2."""
    assert main(Program(), arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.endswith(": see --help\n")
    assert message.count("\n") == 1
    assert next(word for word in arguments if word.startswith("--")) in message


# What follows ends its process from a thread, so each runs in one of its own.

PROGRAM = """
import _thread, asyncio, ctypes, os, signal, sys, threading, time
from rws_operator import guard
from rws_operator.cli import main
from rws_operator.errors import ConfigurationError, LeadershipLost
from rws_operator.guard import AFTER_DRAIN_SECONDS

class Program:
    name = "app"
    default_image = "app:latest"
    stop_seconds = 30.0
    blocked_seconds = 0.0
    lost, expires, works = False, 5.0, True
    def __init__(self):
        self.stopped = asyncio.Event()
    def check_complete(self):
        pass
    def manifests(self, **_):
        return []
    def stop(self):
        self.stopped.set()
    def expires_in(self):
        return self.expires - time.monotonic() + self.began if self.lost else None
    def is_at_work(self):
        return self.works
    def finalizers(self):
        return {{}}
    async def run(self, *, http_port, webhook_port, tls_files, kubeconfig, context):
        self.began = time.monotonic()
        print("running", http_port, webhook_port, tls_files, kubeconfig)
        print(self.began, flush=True)
{body}

sys.exit(main(Program(), ["serve", "--http-port", "0"]))
"""


PATIENCE = 2.0
"""What a busy machine may add to what takes no time."""


started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _processes_end() -> Iterator[None]:
    """No process outlives its test."""
    yield
    while started:
        with started.pop() as popen:
            popen.kill()


class Process:
    """A program whose `run` is the given body."""

    def __init__(self, body: str, serves: str = "9443 None None", **environ: str) -> None:
        source = PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), " " * 8))
        self.popen = subprocess.Popen(
            [sys.executable, "-c", source],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("RWS_CONFIG_")} | environ,
            preexec_fn=die_with_parent,
        )
        started.append(self.popen)
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == f"running 0 {serves}\n"
        self.since = float(self.popen.stdout.readline())  # the machine's monotonic clock

    def end(self, seconds: float = 10.0) -> tuple[int, str, float]:
        """Wait for the end; return exit code, standard error and how long it took."""
        _, errors = self.popen.communicate(timeout=seconds)
        return self.popen.returncode, errors, time.monotonic() - self.since

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, from when on time counts."""
        self.since = time.monotonic()
        self.popen.send_signal(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_clean_stop(number: signal.Signals) -> None:
    """The first signal stops the operator, which ends as it likes; the exit code is 0."""
    process = Process("await self.stopped.wait(); await asyncio.sleep(0.5); print('clean')")
    process.signal(number)
    code, errors, took = process.end()
    assert (code, "Traceback" in errors) == (0, False)
    assert took >= 0.5


def test_a_second_signal_ends_the_process_at_once() -> None:
    """Even a part that swallows cancellation can't hold it for long."""
    process = Process("""
        await self.stopped.wait()
        print("stopping", flush=True)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    """)
    process.signal(signal.SIGTERM)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "stopping\n"
    process.signal(signal.SIGTERM)
    code, _, took = process.end()
    assert code == 1
    assert took < 4


@pytest.mark.parametrize(
    "hang",
    [
        "time.sleep(60)",
        "while True: pass",
        "threading.Lock().__enter__(); threading.Event().wait()",
        "await asyncio.to_thread(time.sleep, 60)",
        "threading.Thread(target=time.sleep, args=(60,)).start(); await asyncio.sleep(60)",
        "lock = ctypes.CDLL(None).pthread_mutex_lock; m = (ctypes.c_char * 64)(); lock(m); lock(m)",
    ],
    ids=["sleep", "python code", "lock", "executor", "thread", "C code"],
)
def test_a_second_signal_ends_what_hangs_at_once(hang: str) -> None:
    """The loop may be blocked and threads may never return; the last line says where it stood."""
    process = Process(f"""
        print("hangs", flush=True)
        {hang}
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "hangs\n"
    process.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.popen.poll() is None
    process.signal(signal.SIGINT)
    code, errors, took = process.end()
    assert code == 1
    assert took < 1.5 + PATIENCE
    assert "ending the process: it has not ended 0.5 s after SIGINT, the second signal" in errors


NO_THREADS = """
def no_threads(*_): raise RuntimeError("can't start new thread")
_thread.start_new_thread = no_threads
"""


def test_a_process_that_can_start_no_thread_is_ended_with_a_word() -> None:
    """Its handlers may have used up what the pod may have."""
    process = Process(f"""
        {textwrap.indent(NO_THREADS, " " * 8).strip()}
        print("ready", flush=True)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "ready\n"
    process.signal(signal.SIGTERM)
    time.sleep(0.3)
    process.signal(signal.SIGINT)  # a second SIGTERM might be merged with the first
    code, errors, took = process.end()
    assert code == 1
    assert took < 0.5 + PATIENCE
    assert "ending the process: it has not ended 0.5 s after SIGINT, the second signal" in errors


def test_an_error_in_the_guard_does_not_end_it() -> None:
    """It is told once, and the process ended in time."""
    process = Process("""
        def is_at_work():
            raise KeyError("a bug")
        self.is_at_work = is_at_work
        self.expires, self.lost = 2.5, True
        await asyncio.sleep(60)
    """)
    code, errors, took = process.end()
    assert code == 1
    assert LOST_SECONDS < took < 2.5 + PATIENCE
    assert errors.count("the guard of the process failed, and goes on") == 1
    assert "ending the process: its Lease is lost, and expires" in errors


def test_who_takes_the_wake_up_descriptor_does_not_take_the_signals() -> None:
    """A handler may use the event loop's own way to hear of others."""
    process = Process("""
        hear = lambda: print("heard", flush=True)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, hear)
        os.kill(os.getpid(), signal.SIGUSR1)
        await self.stopped.wait()
        time.sleep(60)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "heard\n"
    process.signal(signal.SIGTERM)
    time.sleep(0.5)
    process.signal(signal.SIGINT)
    code, errors, took = process.end()
    assert code == 1
    assert took < 0.5 + PATIENCE
    assert "the second signal" in errors


@pytest.mark.parametrize(
    ("handler", "status"), [("", 15), ("signal.signal(15, lambda *_: os._exit(3))", 3 << 8)]
)
def test_a_forked_childs_signals_are_its_own(handler: str, status: int) -> None:
    """Its end by SIGTERM does not stop the operator, nor does what it makes of one."""
    process = Process(f"""
        heard, told = os.pipe()
        if (child := os.fork()) == 0:
            {handler}
            os.write(told, b"x")
            time.sleep(5)
            os._exit(1)
        os.read(heard, 1)
        os.kill(child, signal.SIGTERM)
        print(os.waitpid(child, 0)[1], flush=True)
        await asyncio.sleep(0.5)
        print("stopped" if self.stopped.is_set() else "works on", flush=True)
        await self.stopped.wait()
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == f"{status}\n"
    assert process.popen.stdout.readline() == "works on\n"
    process.signal(signal.SIGTERM)
    assert process.end()[0] == 0


def test_a_forked_childs_own_handler_stands_in_what_it_forks() -> None:
    """The operator's signals are no business of a grandchild's."""
    process = Process("""
        if (child := os.fork()) == 0:
            signal.signal(15, lambda *_: os._exit(3))
            if (grandchild := os.fork()) == 0:
                os.kill(os.getpid(), 15)
                os._exit(1)
            os._exit(os.waitpid(grandchild, 0)[1] >> 8)
        print(os.waitpid(child, 0)[1] >> 8, flush=True)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "3\n"
    assert process.end()[0] == 0


def test_a_signal_ends_a_process_whose_work_is_over_at_once() -> None:
    """Its work was done well; what hangs in it does not keep it for the time it would have."""
    process = Process("""
        def outlast():
            threading.main_thread().join()
            print("over", flush=True)
            time.sleep(60)
        guard.EXIT_SECONDS = 30.0
        threading.Thread(target=outlast).start()
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "over\n"
    process.signal(signal.SIGTERM)
    code, errors, took = process.end()
    assert code == 0
    assert took < PATIENCE
    assert "ending the process: SIGTERM was received" in errors


def test_a_clean_end_that_takes_long_is_no_error() -> None:
    """It may free or flush much; what is said is how long it had."""
    process = Process("threading.Thread(target=time.sleep, args=(60,)).start()")
    code, errors, took = process.end()
    assert code == 0
    assert took > EXIT_SECONDS - 0.1
    (line,) = [line for line in errors.splitlines() if "ending the process" in line]
    assert " WARNING " in line
    assert "its work is over, and it has not ended 2 s later" in line


def test_a_stop_of_a_blocked_loop_is_bounded_by_the_drain() -> None:
    """It can't even be asked to stop."""
    process = Process("""
        self.stop_seconds = 0.3 - AFTER_DRAIN_SECONDS
        print("ready", flush=True)
        time.sleep(60)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "ready\n"
    process.signal(signal.SIGTERM)
    code, errors, took = process.end()
    assert code == 1
    assert 0.3 <= took < 1 + PATIENCE
    assert "it has not stopped 0.3 s after SIGTERM" in errors


def test_a_dead_loop_ends_the_process_and_the_last_line_says_where_it_stood() -> None:
    """Not before it is dead."""
    process = Process("""
        def stand_still():
            time.sleep(0.5)
            type(self).blocked_seconds = 19.6
            time.sleep(60)
        type(self).blocked_seconds = 19.4
        stand_still()
    """)
    code, errors, took = process.end()
    assert code == 1
    assert 0.4 < took < 1.2 + PATIENCE
    last = errors[errors.rindex("ending the process: its event loop is dead") :]
    assert "in stand_still\n" in last


KEEP_THE_LOCK = """
        sleep = ctypes.PyDLL(None).usleep  # it keeps the interpreter's lock
        def stand_still():
            while True:
                sleep(600_000)
"""


def test_what_keeps_the_interpreters_lock_does_not_silence_the_last_words() -> None:
    """The thread that ends the process says them itself where no other gets to run."""
    process = Process(f"""
        {KEEP_THE_LOCK.strip()}
        type(self).blocked_seconds = 19.6
        stand_still()
    """)
    code, errors, took = process.end(20)
    assert code == 1
    assert took < 3.5 + PATIENCE
    last = errors[errors.rindex("ending the process: its event loop is dead") :]
    assert ", in stand_still\n" in last


def test_what_keeps_the_interpreters_lock_does_not_outlive_a_lost_lease() -> None:
    """The process ends, with its last words."""
    process = Process(f"""
        {KEEP_THE_LOCK.strip().replace("600_000", "400_000")}
        self.expires = 12.0
        self.lost = True
        stand_still()
    """)
    code, errors, took = process.end(20)
    assert code == 1
    assert took < 12
    assert "ending the process: its Lease is lost, and a handler hangs in it" in errors


@pytest.mark.parametrize(("expires", "says"), [(2.5, False), (60.0, True)])
def test_last_words_are_left_out_where_they_might_outlive_a_lease(
    expires: float, says: bool
) -> None:
    """How long they take is told by how long a thread took that should have said them."""
    process = Process(f"""
        guard.Line.handle = lambda _: time.sleep(1)  # as if it waited for the interpreter's lock
        guard.Line.write = lambda _: os.write(2, b"last words")
        self.expires = {expires}
        self.lost = True
        await asyncio.sleep(60)
    """)
    code, errors, _ = process.end()
    assert code == 1
    assert ("last words" in errors) == says


def test_a_stop_is_bounded_by_the_drain() -> None:
    """What hangs longer than the drain and what follows it is ended, with 1."""
    process = Process("""
        self.stop_seconds = 0.3 - AFTER_DRAIN_SECONDS
        print("ready", flush=True)
        await asyncio.sleep(60)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "ready\n"
    process.signal(signal.SIGTERM)
    code, _, took = process.end()
    assert code == 1
    assert 0.3 <= took < 3


def test_errors_of_several_parts_are_a_line_each() -> None:
    """A group is unfolded; the exit code is 1, without a traceback."""
    process = Process("""
        errors = [LeadershipLost("lost it"), ConfigurationError("bad", remedy="x")]
        raise ExceptionGroup("several", errors)
    """)
    code, errors, _ = process.end()
    assert code == 1
    assert errors.splitlines() == ["error: lost it", "error: bad: x"]


@pytest.mark.parametrize(
    "hang",
    ["await asyncio.to_thread(time.sleep, 60)", "time.sleep(60)"],
    ids=["stuck thread", "blocked loop"],
)
def test_a_lost_lease_ends_the_process_whatever_hangs(hang: str) -> None:
    """Neither a thread that can't be cancelled nor a blocked loop keeps the process alive."""
    process = Process(f"""
        self.lost = True
        {hang}
    """)
    code, _, took = process.end()
    assert code == 1
    assert took < LOST_SECONDS + PATIENCE


def test_a_lost_lease_leaves_time_for_all_that_needs_none() -> None:
    """The work has ended; webhooks are answered for a while, as a follower does, and then it ends.

    Before the Lease expires, whatever else hangs or was left, e.g. a handler's own thread.
    """
    process = Process("""
        self.lost = True
        await asyncio.sleep(0.3)
        self.works = False
        await asyncio.sleep(1.2)
        raise LeadershipLost("lost it")
    """)
    code, errors, took = process.end()
    assert (code, errors.strip()) == (1, "error: lost it")
    assert took > 1.4
    process = Process("""
        self.expires = 1.5
        self.lost, self.works = True, False
        await asyncio.sleep(60)
    """)
    code, _, took = process.end()
    assert code == 1
    assert 0.5 < took < 1.5 + PATIENCE


def test_a_lease_that_has_expired_ends_the_process_at_once() -> None:
    """Who was stopped for longer than that may meet the next leader, with all that it left."""
    process = Process("""
        self.expires = -3600
        self.lost, self.works = True, False
        await asyncio.sleep(60)
    """)
    code, errors, took = process.end()
    assert code == 1
    assert took < PATIENCE
    assert "ending the process: its Lease is lost, and expires" in errors


def test_what_a_debugger_holds_may_lose_its_lease() -> None:
    """Somebody looks at it; once they let go it ends."""
    process = Process("""
        debugger = {"__name__": "bdb", "time": time}
        exec("def prompt(): time.sleep(1.5)", debugger)
        self.expires = -1
        self.lost = True
        debugger["prompt"]()
        print("let go", flush=True)
        await asyncio.sleep(60)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "let go\n"
    code, errors, _ = process.end()
    assert code == 1
    assert "its Lease is lost" in errors


def test_a_log_that_nobody_reads_does_not_keep_the_process_alive() -> None:
    """A full pipe blocks whoever writes to it, but not the end."""
    process = Process("""
        import logging
        self.lost = True
        while True:
            logging.error("x" * 1000)
    """)
    assert process.popen.wait(10) == 1
    assert time.monotonic() - process.since < LOST_SECONDS + PATIENCE
    process.end()


def test_a_bug_shows_its_traceback_even_if_something_hangs() -> None:
    """What nobody can mend by reading one line is shown whole, before the process is ended."""
    process = Process("""
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
        raise KeyError("a bug")
    """)
    code, errors, _ = process.end()
    assert code == 1
    assert "Traceback" in errors
    assert "KeyError: 'a bug'" in errors


def test_threads_of_to_thread_are_noted_for_the_run_that_they_work_for() -> None:
    """The process's default executor does it."""
    process = Process("""
        from contextlib import suppress
        from rws_operator.controller.threads import HandlerThreads
        from rws_operator.controller.work import Work
        work, slept = Work(), []

        async def run():
            with work.takes(HandlerThreads(), "handler"), suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await asyncio.to_thread(lambda: slept.append(time.sleep(0.5)))

        work.start(run(), "run")
        await work.over
        print("ended", len(slept), flush=True)
    """)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "ended 1\n"
    assert process.end()[0] == 0


def test_a_hanging_thread_does_not_delay_the_end() -> None:
    """After the operator has ended, a thread that still works is left behind."""
    process = Process("""
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
        raise LeadershipLost("lost it")
    """)
    code, errors, took = process.end()
    assert code == 1
    assert "error: lost it" in errors
    assert took < 5
