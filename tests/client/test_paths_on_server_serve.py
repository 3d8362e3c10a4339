"""An operator's program that is told where its API server is, rightly and wrongly."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.testing.eventually import eventually
from rws_operator.testing.supervise import die_with_parent
from tests.client.paths import EXEC_V1, Account, Admin, document, script, write
from tests.operator_kit import Gadget, create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import os
from rws_operator import Operator
from tests.operator_kit import Gadget

operator = Operator("paths")
gadgets = operator.controller(Gadget, namespaces=[os.environ["TEST_NAMESPACE"]])

@gadgets.reconcile
async def reconcile(gadget, ctx):
    await ctx.patch_status(gadget, {"size": gadget.spec.size})

operator.main()
"""


class Program:
    """A process of `PROGRAM`, logging all that it can."""

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        (folder / "program.py").write_text(PROGRAM)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RWS_", "KUBE", "POD_"))}
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, folder / "program.py", *arguments],
                env={**kept, "PYTHONPATH": str(ROOT), "TEST_NAMESPACE": "default", **environ},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
            )

    @property
    def log(self) -> str:
        """What it printed so far."""
        return self._log.read_text()

    @property
    def told(self) -> str:
        """What it printed beside what only DEBUG shows."""
        return "".join(line for line in self.log.splitlines(True) if " DEBUG " not in line)

    async def end(self) -> int:
        """Wait for its end and return the exit code."""
        return await asyncio.to_thread(self.popen.wait, 20)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Programs that end with the test at the latest."""
    started: list[Program] = []
    yield started
    for program in started:
        program.popen.kill()
        program.popen.wait()


SERVE = ("serve", "--http-port", "0", "--log-level", "debug")


@pytest.mark.parametrize("by_environment", [False, True])
async def test_the_named_context_is_served(
    control_plane: ControlPlane,
    cluster: TestCluster,
    namespace: TestNamespace,
    programs: list[Program],
    tmp_path: Path,
    by_environment: bool,
) -> None:
    """By option or by variable; what is wrong with the current context doesn't matter."""
    account = await Account(cluster, namespace).create()
    token = await account.token()
    admin = Admin.of(control_plane.kubeconfig)
    both = document(admin.cluster, {"token": "of-nobody"})
    both["users"].append({"name": "account", "user": {"token": token}})
    both["contexts"].append({"name": "other", "context": {"cluster": "k", "user": "account"}})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(both))
    await cluster.install_crd(Gadget)
    await create(cluster, Gadget, "one", namespace.name, 5)
    if by_environment:
        environ = {"RWS_CONFIG_KUBECONFIG": str(path), "RWS_CONFIG_CONTEXT": "other"}
        program = Program(tmp_path, *SERVE, TEST_NAMESPACE=namespace.name, **environ)
    else:
        options = ("--kubeconfig", str(path), "--context", "other")
        program = Program(tmp_path, *SERVE, *options, TEST_NAMESPACE=namespace.name)
    programs.append(program)

    async def is_seen_to() -> bool:
        assert program.popen.poll() is None, program.log
        return (await cluster.client.get(Gadget, "one", namespace.name)).status.size == 5

    await eventually(20, is_seen_to)
    program.popen.terminate()
    assert await program.end() == 0
    assert token not in program.log
    assert token.rpartition(".")[2] not in program.log


@pytest.mark.parametrize("command", [("serve", "--http-port", "0"), ("uninstall", "--yes")])
async def test_a_context_that_is_missing(
    programs: list[Program], tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Both commands list those there are, in one line, and end with 1."""
    path = write(tmp_path / "config", {"server": "https://127.0.0.1:1"}, {"token": "hidden"})
    program = Program(tmp_path, *command, "--context", "prod", KUBECONFIG=str(path))
    programs.append(program)
    assert await program.end() == 1
    assert program.told == (
        f"error: kubeconfig {path}: there is no context 'prod' (contexts: c):"
        " name one of these, or another kubeconfig\n"
    )


PLUGIN = {"apiVersion": EXEC_V1, "command": "./login", "interactiveMode": "Never"}
OIDC = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "x", "refresh-token": "hidden"}

WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a missing token file": ({}, {"tokenFile": "none"}, "users[u].tokenFile names"),
    "a token of two lines": ({}, {"token": "hidden\nhidden"}, "users[u].token is not one line"),
    "a key for another certificate": (
        {},
        {"client-certificate-data": "aGlkZGVu", "client-key-data": "aGlkZGVu"},
        "users[u]: client certificate inline data and key inline data can't be used",
    ),
    "a CA that is none": (
        {"certificate-authority-data": "aGlkZGVu"},
        {},
        "clusters[k], users[u]: certificate authority inline data can't be used",
    ),
    "a password in the address": (
        {"server": "https://jane:hidden@127.0.0.1:1"},
        {},
        "clusters[k].server is no address that can be used",
    ),
    "a proxy that is none": (
        {"proxy-url": "ftp://jane:hidden@127.0.0.1:1"},
        {},
        "clusters[k].proxy-url is no address that can be used",
    ),
    "a plugin that is missing": (
        {},
        {"exec": PLUGIN | {"command": "./none", "installHint": "brew install login"}},
        "none can't be run (No such file or directory): brew install login",
    ),
    "a plugin that fails": ({}, {"exec": PLUGIN}, "login ended with code 7: log in again"),
    "an issuer that is not there": (
        {},
        {"auth-provider": {"name": "oidc", "config": OIDC}},
        "users[u].auth-provider.config.idp-issuer-url https://127.0.0.1:1 gave no token",
    ),
    "groups of nobody": ({}, {"as-groups": ["a"]}, "users[u].as-groups is set without as"),
}


@pytest.mark.parametrize(("cluster", "user", "expected"), WRONG.values(), ids=WRONG.keys())
async def test_what_cannot_work(
    programs: list[Program],
    tmp_path: Path,
    cluster: dict[str, Any],
    user: dict[str, Any],
    expected: str,
) -> None:
    """One line that says what, where and the remedy; exit code 1; no secret, at DEBUG either."""
    script(tmp_path / "login", "echo hidden; echo hidden >&2; exit 7")
    path = write(tmp_path / "config", {"server": "https://127.0.0.1:1"} | cluster, user)
    program = Program(tmp_path, *SERVE, "--kubeconfig", str(path))
    programs.append(program)
    assert await program.end() == 1
    assert program.told.startswith("error: ")
    assert f"kubeconfig {path}: " in program.told
    assert expected in program.told
    assert program.told.count("\n") == 1
    assert "hidden" not in program.log


async def test_a_pod_without_its_account(programs: list[Program], tmp_path: Path) -> None:
    """The remedy names the pod's own field."""
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    program = Program(tmp_path, *SERVE, **environ)
    programs.append(program)
    assert await program.end() == 1
    assert program.told == (
        "error: KUBERNETES_SERVICE_HOST is set, but"
        " /var/run/secrets/kubernetes.io/serviceaccount/token is missing:"
        " set automountServiceAccountToken on the pod, or set KUBECONFIG\n"
    )


RECOVERABLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a token that is refused": ({}, {"token": "hidden"}, "users[u] were refused; log in again"),
    "a name of another server": (
        {"tls-server-name": "a.example.com"},
        {},
        "is not trusted (Hostname mismatch",
    ),
    "a proxy that is not there": (
        {"proxy-url": "http://jane:hidden@127.0.0.1:1"},
        {},
        "can't be reached through the proxy",
    ),
}


@pytest.mark.parametrize(
    ("cluster", "user", "expected"), RECOVERABLE.values(), ids=RECOVERABLE.keys()
)
async def test_what_may_yet_work(
    control_plane: ControlPlane,
    programs: list[Program],
    tmp_path: Path,
    cluster: dict[str, Any],
    user: dict[str, Any],
    expected: str,
) -> None:
    """What can heal outside is logged with its remedy and tried again; without secrets."""
    admin = Admin.of(control_plane.kubeconfig)
    path = write(tmp_path / "config", admin.cluster | cluster, user)
    program = Program(tmp_path, *SERVE, "--kubeconfig", str(path))
    programs.append(program)
    await eventually(20, lambda: expected in program.log, every=0.1)
    program.popen.terminate()
    assert await program.end() == 0
    assert f"kubeconfig {path}, users[u]" in program.log
    assert "hidden" not in program.log
