"""Credential plugins: real programs, run, renewed and ended."""

import asyncio
import gc
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rws_operator.client import client as connect
from rws_operator.client import exec_plugin, load_config
from rws_operator.client.credentials import Credential, RenewedCredentials
from rws_operator.client.exec_plugin import ExecPlugin
from rws_operator.client.program import Program
from rws_operator.errors import ConfigurationError, DeadlineExceeded, KubeconfigError
from rws_operator.testing.eventually import eventually
from tests.client.scripted import ScriptedServer, ok, status
from tests.client.test_kubeconfig import PLUGIN, write


def script(path: Path, text: str) -> str:
    """Write a shell script and return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def credential(**status: Any) -> str:
    """Return an ExecCredential in JSON."""
    version = "client.authentication.k8s.io/v1"
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


async def test_a_token(tmp_path: Path) -> None:
    """The program runs with its arguments and variables, and is told of the cluster."""
    program = script(
        tmp_path / "login",
        f'echo "$1 $COLOUR" > {tmp_path}/seen\n'
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
        f"echo '{credential(token='t0')}'",
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": f"./{Path(program).name}",
        "interactiveMode": "Never",
        "args": ["--now"],
        "env": [{"name": "COLOUR", "value": "blue"}],
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    config = load_config(
        write(tmp_path / "config", user={"exec": plugin}, cluster={"extensions": [extension]})
    )
    assert await config.credentials.authorization() == "Bearer t0"
    assert (tmp_path / "seen").read_text() == "--now blue\n"
    info = json.loads((tmp_path / "info").read_text())
    assert info["kind"] == "ExecCredential"
    assert info["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://127.0.0.1:6443", "config": {"audience": "x"}},
    }


async def test_the_life_of_a_token(tmp_path: Path) -> None:
    """It is renewed shortly before it expires; one always about to expire not at each request."""
    for seconds, low, high in ((3600, 3580, 3591), (1, 10, 10), (-5, 10, 10)):
        expires = datetime.now(UTC) + timedelta(seconds=seconds)
        answer = credential(token="t", expirationTimestamp=expires.isoformat())
        program = script(tmp_path / "login", f"echo '{answer}'")
        assert low <= (await ExecPlugin(program).renew(refused=False)).seconds <= high


async def test_it_runs_again_after_a_401(server: ScriptedServer, tmp_path: Path) -> None:
    """A token that is refused is fetched anew, and the request goes through."""
    program = script(
        tmp_path / "login",
        f"echo x >> {tmp_path}/runs\n"
        f"n=$(wc -l < {tmp_path}/runs)\n"
        f"echo '{credential(token='NUMBER')}' | sed \"s/NUMBER/t$n/\"",
    )
    user = {"exec": PLUGIN | {"command": program}}
    path = write(tmp_path / "config", user=user, cluster={"server": server.address})
    config = load_config(path)
    server.answer(ok(), status(401, "Unauthorized"), ok())
    async with server.client(config.credentials) as client:
        await client.request("GET", "/x")
        config.credentials._hear_refusals_at = 0.0  # type: ignore[attr-defined]
        await client.request("GET", "/x")
    assert [one.headers["Authorization"][-2:] for one in server.seen] == ["t1", "t1", "t2"]


ENDINGS = {
    "a code": ("echo 'token: secret' >&2; exit 3", "ended with code 3: log in again, or run it"),
    "no JSON": ("echo secret-token", "printed no ExecCredential: run it by hand"),
    "another kind": ('echo \'{"apiVersion": "v1", "kind": "Secret"}\'', "no ExecCredential with"),
    "another version": (
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1beta1", '
        '"kind": "ExecCredential", "status": {"token": "secret"}}\'',
        "answered in client.authentication.k8s.io/v1beta1, not in",
    ),
    "no token": (f"echo '{credential(clientCertificateData='x')}'", "neither a token nor"),
    "deep nesting": (
        "printf '{\"x\":'; printf '%0100000d' 0 | tr 0 '['",
        "printed no ExecCredential: run it",
    ),
    "an expiry without a time zone": (
        f"echo '{credential(token='secret', expirationTimestamp='2030-01-01T00:00:00')}'",
        "printed no ExecCredential: run it",
    ),
    "a certificate without its key": (
        f"echo '{credential(token='secret', clientCertificateData='x')}'",
        "neither a token nor a certificate with its key",
    ),
    "a certificate that is none": (
        f"echo '{credential(clientCertificateData='secret', clientKeyData='secret')}'",
        r"login gave what can't be used: client certificate inline data and key inline data",
    ),
    "a token of two words": (f"echo '{credential(token='secret x')}'", "not one line"),
}


@pytest.mark.parametrize(("text", "expected"), ENDINGS.values(), ids=ENDINGS.keys())
async def test_a_program_that_fails(tmp_path: Path, text: str, expected: str) -> None:
    """The error is one line with the program, and shows nothing of what it printed."""
    program = script(tmp_path / "login", text)
    with pytest.raises(KubeconfigError, match=expected) as caught:
        await ExecPlugin(program, source="users[u].exec").renew(refused=False)
    message = str(caught.value)
    assert "users[u].exec" in message
    assert "\n" not in message
    assert "secret" not in message.replace("Secret", "")


async def test_a_missing_program() -> None:
    """The kubeconfig's own hint is the remedy."""
    plugin = ExecPlugin("no-such-login", install_hint="brew install login")
    with pytest.raises(KubeconfigError, match=r"can't be run \(No such file.*: brew install login"):
        await plugin.renew(refused=False)


async def test_a_program_that_does_not_stop_printing_is_killed(tmp_path: Path) -> None:
    """Long before the deadline, and before it has filled our memory; its child, too."""
    text = f"yes secret & echo $! $$ > {tmp_path}/pids; wait"
    async with asyncio.timeout(5):
        with pytest.raises(KubeconfigError, match="printed more than an ExecCredential: run it"):
            await ExecPlugin(script(tmp_path / "login", text)).renew(refused=False)
    assert_gone(tmp_path / "pids")


async def test_a_program_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the deadline the program ends, and what it started too."""
    monkeypatch.setattr(exec_plugin, "_DEADLINE_SECONDS", 0.3)
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    async with asyncio.timeout(5):
        with pytest.raises(KubeconfigError, match=r"was not done after 0\.3 s"):
            await ExecPlugin(program).renew(refused=False)
    assert_gone(tmp_path / "pids")


async def test_a_child_that_holds_the_output_open(tmp_path: Path) -> None:
    """What the program printed counts once it has ended; the child is killed soon."""
    text = f"sleep 60 & echo $! > {tmp_path}/pids; echo '{credential(token='t')}'"
    async with asyncio.timeout(10):
        found = await ExecPlugin(script(tmp_path / "login", text)).renew(refused=False)
    assert found.authorization == "Bearer t"
    assert_gone(tmp_path / "pids")


async def test_a_child_of_a_program_that_failed(tmp_path: Path) -> None:
    """The code is told, not that something holds the output open."""
    text = f"sleep 60 & echo $! > {tmp_path}/pids; exit 3"
    async with asyncio.timeout(10):
        with pytest.raises(KubeconfigError, match="ended with code 3"):
            await ExecPlugin(script(tmp_path / "login", text)).renew(refused=False)
    assert_gone(tmp_path / "pids")


async def test_a_child_that_prints(tmp_path: Path) -> None:
    """A program may leave the printing to a child that ends after it."""
    text = f"(sleep 1.2; echo '{credential(token='t')}') &"
    found = await ExecPlugin(script(tmp_path / "login", text)).renew(refused=False)
    assert found.authorization == "Bearer t"


async def test_a_child_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not spared at the deadline since its parent has ended."""
    monkeypatch.setattr(exec_plugin, "_DEADLINE_SECONDS", 0.3)
    program = script(tmp_path / "login", f"sleep 60 & echo $! > {tmp_path}/pids")
    with pytest.raises(KubeconfigError, match=r"was not done after 0\.3 s"):
        await ExecPlugin(program).renew(refused=False)
    assert_gone(tmp_path / "pids")


def test_a_child_beyond_reach_leaves_nothing_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """One that left the session holds the output open for ever; the loop can be closed."""
    monkeypatch.setattr(exec_plugin, "_DEADLINE_SECONDS", 0.3)
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    program = script(tmp_path / "login", f"setsid sleep 60 & echo $! > {tmp_path}/pids; wait")
    with pytest.raises(KubeconfigError, match="was not done after"):
        asyncio.run(ExecPlugin(program).renew(refused=False))
    gc.collect()
    os.kill(int((tmp_path / "pids").read_text()), signal.SIGKILL)
    assert unraisable == []
    assert [str(each.message) for each in recwarn] == []


async def test_a_program_ends_with_the_client(server: ScriptedServer, tmp_path: Path) -> None:
    """A request that gives up leaves it to the next one; after the last one nothing runs."""
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    user = {"exec": PLUGIN | {"command": program}}
    config = load_config(write(tmp_path / "config", user=user))
    server.answer(ok())
    async with server.client(config.credentials) as client:
        with pytest.raises(DeadlineExceeded):
            await client.request("GET", "/x", deadline=0.3)
        await eventually(5, lambda: is_written(tmp_path / "pids"))
        assert all(is_alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert_gone(tmp_path / "pids")
    assert server.seen == []


async def test_a_closed_client_starts_no_program(server: ScriptedServer, tmp_path: Path) -> None:
    """Nobody would end it: a request that comes too late is told so before it is asked for."""
    program = script(tmp_path / "login", f"echo x >> {tmp_path}/runs; exec sleep 60")
    config = load_config(write(tmp_path / "config", user={"exec": PLUGIN | {"command": program}}))
    client = server.client(config.credentials)
    await client.close()
    with pytest.raises(ConfigurationError, match="is closed: close it after its last request"):
        await client.request("GET", "/x")
    with pytest.raises(ConfigurationError, match="is closed: close it after its last request"):
        async with client.stream("/x"):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not (tmp_path / "runs").exists()


async def test_a_refusal_that_comes_as_the_client_is_closed(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing renewed any more."""

    class Closing:
        certificate = None
        asked = False

        async def authorization(self) -> None:
            return None

        async def refused(self, authorization: str | None) -> bool:
            self.asked = True
            return False

        async def close(self) -> None:
            pass

    server.answer(status(401, "Unauthorized"))
    credentials = Closing()
    client = server.client(credentials)
    send = client._transport.send

    async def close_after(*request: Any, **options: Any) -> Any:
        answer = await send(*request, **options)
        await client.close()
        return answer

    monkeypatch.setattr(client._transport, "send", close_after)
    with pytest.raises(ConfigurationError, match="is closed"):
        await client.request("GET", "/x")
    assert not credentials.asked


async def test_a_close_that_is_cut_ends_the_program(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pool is closed and the renewal ended, wherever the close is cut."""
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    credentials = RenewedCredentials(ExecPlugin(program), Credential("Bearer old", seconds=0.0))
    server.answer(ok())
    client = server.client(credentials)
    await client.request("GET", "/x")
    async with client.stream("/x"):
        pass
    await eventually(20, lambda: is_written(tmp_path / "pids"))
    pool, own = client._transport._pool, client._transport._own
    close = pool.close

    async def close_slowly() -> None:
        await close()
        closing.cancel()
        await asyncio.sleep(60)

    monkeypatch.setattr(pool, "close", close_slowly)
    closing = asyncio.create_task(client.close())
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert own.closed
    assert_gone(tmp_path / "pids")


async def test_a_login_that_is_given_up_ends_the_program(tmp_path: Path) -> None:
    """Whoever gets no client has none to close."""
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    path = write(tmp_path / "config", user={"exec": PLUGIN | {"command": program}})
    connecting = asyncio.create_task(connect(str(path)))
    await eventually(5, lambda: is_written(tmp_path / "pids"))
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert_gone(tmp_path / "pids")


async def test_a_renewal_that_is_cut_as_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has started by then is killed too, although asyncio has not handed it over yet."""
    connection_made = Program.connection_made

    def cut(self: Program, transport: asyncio.BaseTransport) -> None:
        connection_made(self, transport)
        wait_until_written(tmp_path / "pids")
        renewing.cancel()

    monkeypatch.setattr(Program, "connection_made", cut)
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    renewing = asyncio.create_task(ExecPlugin(program).renew(refused=False))
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await renewing
    assert_gone(tmp_path / "pids")


async def test_a_renewal_that_is_cut_again_as_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second cancellation, e.g. of a deadline as the client is closed, leaves nothing either."""
    loop = asyncio.get_running_loop()

    cuts = 0

    def cut(self: Program) -> None:
        begin(self)
        loop.call_soon(cut_again, self)

    def cut_again(program: Program) -> None:
        nonlocal cuts
        wait_until_written(tmp_path / "pids")
        if program._transport is None:  # the system has started it, asyncio not handed it over
            cuts += renewing.cancel()
            loop.call_soon(cut_again, program)

    begin = Program.__init__
    monkeypatch.setattr(Program, "__init__", cut)
    program = script(tmp_path / "login", f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    renewing = asyncio.create_task(ExecPlugin(program).renew(refused=False))
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await renewing
    assert cuts > 1
    assert_gone(tmp_path / "pids")


async def test_the_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    """A slow program stops nothing else."""
    program = script(tmp_path / "login", f"sleep 2; echo '{credential(token='t')}'")
    running = asyncio.create_task(ExecPlugin(program).renew(refused=False))
    longest = 0.0
    while not running.done():
        started = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - started)
    assert (await running).authorization == "Bearer t"
    assert longest < 1.5


def is_written(path: Path) -> bool:
    """Whether a whole line was written."""
    return path.exists() and path.read_text().endswith("\n")


def wait_until_written(path: Path) -> None:
    """Wait for a program, and let the event loop do so."""
    give_up = time.monotonic() + 15
    while not is_written(path):
        assert time.monotonic() < give_up
        time.sleep(0.01)


def assert_gone(pids: Path) -> None:
    """Check that processes have ended, waiting for the kernel to reap them."""
    for pid in map(int, pids.read_text().split()):
        deadline = time.monotonic() + 5
        while is_alive(pid):
            assert time.monotonic() < deadline, f"{pid} still runs"
            time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie nobody reaped yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize(
    "plugin", [ExecPlugin("a\0b"), ExecPlugin("true", environment={"A=B": ""})]
)
async def test_a_program_that_the_system_does_not_take(plugin: ExecPlugin) -> None:
    """A NUL, or a variable that is none, is an error of one line."""
    with pytest.raises(KubeconfigError, match=r"can't be run \(unusable characters\)"):
        await plugin.renew(refused=False)
