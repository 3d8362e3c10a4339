"""Handlers that block the event loop or hang in threads, in real processes on a real API server.

The scenarios run side by side, since each mostly waits, and each in a namespace of its own; then
every test judges its own one by the process's log, its exit code and the API server's audit log.
All durations are the defaults.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from rws_operator import kinds
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.supervise import die_with_parent
from tests.flow.stuck_operator import Rope, Stone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

PROGRAM = Path(__file__).with_name("stuck_operator.py")
ROOT = PROGRAM.parent.parent.parent
BLOCKED = "the event loop is blocked"
RENEW_SECONDS = 10
HANDLER = "stuck_operator.<locals>.block"


@dataclass
class Replica:
    """A process of the operator."""

    process: asyncio.subprocess.Process
    log: Path
    ended: float = 0.0

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """What it logged so far, of messages that begin like that."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines(keepends=True)
                 if line.startswith("{") and line.endswith("\n")]  # fmt: skip
        return [line for line in lines if line["message"].startswith(message)]

    def told(self, message: str) -> float:
        """When it told so first."""
        return at(self.lines(message)[0])

    async def until(self, message: str, seconds: float = 20) -> None:
        """Wait for a message."""
        await eventually(seconds, lambda: self.lines(message), every=0.05)

    async def exit_code(self, seconds: float) -> int:
        """Wait for its end."""
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        self.ended = time.time()
        return code

    async def get(self, path: str) -> tuple[int, str]:
        """Ask its HTTP server."""
        port = self.lines("serving metrics and health")[0]["port"]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()


def at(line: dict[str, Any]) -> float:
    """When a line was logged."""
    return datetime.fromisoformat(line["time"]).timestamp()


@dataclass
class Scenario:
    """One operator's story: its namespace, its replicas, and what was seen of it."""

    name: str
    cluster: TestCluster
    namespace: TestNamespace
    folder: Path
    elects: bool = True
    replicas: list[Replica] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)

    async def start(self) -> Replica:
        """Start a replica, and wait until it has synced; the first one leads."""
        log = self.folder / f"{self.name}-{len(self.replicas)}.log"
        mode = "election" if self.elects else "alone"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(PROGRAM),
                self.name,
                self.namespace.name,
                mode,
                stdout=output,
                stderr=output,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith(("RWS_", "POD_"))},
                    "PYTHONPATH": str(ROOT),
                    "KUBECONFIG": str(self.cluster.kubeconfig),
                },
                preexec_fn=die_with_parent,
            )
        replica = Replica(process, log)
        self.replicas.append(replica)

        async def is_ready() -> bool:
            return (await replica.get("/readyz"))[0] == 200

        await eventually(60, is_ready)
        return replica

    async def stone(self, seconds: float) -> None:
        """Put a stone in the loop's way, and wait until it lies there."""
        await self.namespace.api(Stone).create(
            {"metadata": {"name": "one"}, "spec": {"seconds": seconds}}
        )
        await self.replicas[0].until("stands still")

    async def lease(self) -> dict[str, Any]:
        """The Lease's spec."""
        lease = await self.namespace.api(kinds.Lease).get(self.name)
        return dict(lease["spec"])


async def block_for_five_seconds(scenario: Scenario) -> None:
    """With a standby that would take the Lease if it expired."""
    leader = await scenario.start()
    await leader.until("became the leader")
    standby = await scenario.start()
    scenario.seen["before"] = await scenario.lease()
    await scenario.stone(5)

    async def is_done() -> bool:
        return (await scenario.namespace.api(Stone).get("one")).status.done

    await eventually(20, is_done)
    scenario.seen["after"] = await scenario.lease()
    slow = {"metadata": {"name": "slow", "labels": {"slow": ""}}}
    await scenario.namespace.api(kinds.ConfigMap).create(slow)
    await eventually(20, lambda: len(leader.lines("the event loop runs again")) == 2)
    for replica in (standby, leader):
        replica.process.terminate()
        scenario.seen.setdefault("codes", []).append(await replica.exit_code(20))


async def block_for_twelve_seconds(scenario: Scenario) -> None:
    """Longer than the renew deadline."""
    leader = await scenario.start()
    await leader.until("became the leader")
    await scenario.stone(12)
    scenario.seen["code"] = await leader.exit_code(20)


async def block_until_the_lease_is_lost(scenario: Scenario) -> None:
    """And write at once, before anything else can run on the loop."""
    leader = await scenario.start()
    await leader.until("became the leader")
    await scenario.stone(0)
    scenario.seen["code"] = await leader.exit_code(20)


async def block_for_ever(scenario: Scenario) -> None:
    """Without an election, so no Lease is lost."""
    replica = await scenario.start()
    await scenario.stone(600)
    scenario.seen["code"] = await replica.exit_code(40)


async def be_stopped_while_blocked(scenario: Scenario) -> None:
    """By two signals, the second a while after the first."""
    replica = await scenario.start()
    await scenario.stone(600)
    replica.process.terminate()
    await asyncio.sleep(1)
    scenario.seen["lived on"] = replica.process.returncode is None
    scenario.seen["signalled"] = time.time()
    replica.process.send_signal(signal.SIGINT)  # a second SIGTERM might be merged with the first
    scenario.seen["code"] = await replica.exit_code(20)


async def hang_in_all_threads(scenario: Scenario) -> None:
    """Then ask it how it is, and stop it by two signals."""
    replica = await scenario.start()
    scenario.seen["livez before"] = await replica.get("/livez")
    ropes = scenario.namespace.api(Rope)
    for number in range(32):
        await ropes.create({"metadata": {"name": f"rope-{number}"}})

    async def is_not_live() -> bool:
        return (await replica.get("/livez"))[0] == 503

    await eventually(20, is_not_live)
    scenario.seen["livez"] = await replica.get("/livez")
    await eventually(20, lambda: len(replica.lines("a handler hangs")) == 32)
    scenario.seen["metrics"] = (await replica.get("/metrics"))[1]
    replica.process.terminate()
    await replica.until("draining")
    scenario.seen["signalled"] = time.time()
    replica.process.terminate()
    scenario.seen["code"] = await replica.exit_code(20)


SCENARIOS: dict[str, Callable[[Scenario], Awaitable[None]]] = {
    "five": block_for_five_seconds,
    "twelve": block_for_twelve_seconds,
    "lost": block_until_the_lease_is_lost,
    "ever": block_for_ever,
    "signals": be_stopped_while_blocked,
    "threads": hang_in_all_threads,
}
ELECTING = ("five", "twelve", "lost")


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane that writes an audit log."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


@pytest.fixture(scope="module")
def stories(
    audited: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Scenario | Exception]:
    """All scenarios, played; or what failed in them."""
    return asyncio.run(play(audited, tmp_path_factory.mktemp("stuck")))


async def play(audited: ControlPlane, folder: Path) -> dict[str, Scenario | Exception]:
    """Play all scenarios side by side."""
    async with await TestCluster.connect(audited.kubeconfig) as cluster:
        await cluster.install_crd(Stone)
        await cluster.install_crd(Rope)
        played = await asyncio.gather(*(play_one(cluster, folder, name) for name in SCENARIOS))
    return dict(zip(SCENARIOS, played, strict=True))


async def play_one(cluster: TestCluster, folder: Path, name: str) -> Scenario | Exception:
    """Play one."""
    namespace = await cluster.namespace(name)
    scenario = Scenario(name, cluster, namespace, folder, elects=name in ELECTING)
    try:
        await SCENARIOS[name](scenario)
    except Exception as error:
        logs = "\n".join(replica.log.read_text() for replica in scenario.replicas)
        error.add_note(logs[-8000:])
        return error
    finally:
        for replica in scenario.replicas:
            with contextlib.suppress(ProcessLookupError):
                replica.process.kill()
            await replica.process.wait()
    return scenario


@pytest.fixture
def scenario(request: pytest.FixtureRequest, stories: dict[str, Scenario | Exception]) -> Scenario:
    """The scenario that a test names by its mark."""
    story = stories[request.param]
    if isinstance(story, Exception):
        raise story
    return story


def story(name: str) -> pytest.MarkDecorator:
    """Mark a test with the scenario that it judges."""
    return pytest.mark.parametrize("scenario", [name], indirect=True)


def check_fence(audited: ControlPlane, scenario: Scenario) -> None:
    """No write of it was received later than half a second after its renew deadline."""
    log = AuditLog(audited.audit_log)
    agent = f"{scenario.name} ("
    renewals = [
        write.received
        for write in log.writes(user_agent=agent, resource="leases")
        if write.succeeded
    ]
    others = [write.received for write in log.writes(user_agent=agent, resource="stones")]
    assert others
    for received in others:
        assert received - max(at for at in renewals if at <= received) <= RENEW_SECONDS + 0.5


@story("five")
def test_a_block_of_five_seconds_is_named_in_time_and_keeps_the_lease(scenario: Scenario) -> None:
    """No transition, though a standby waits; what is written afterwards is accepted."""
    before, after = scenario.seen["before"], scenario.seen["after"]
    assert after["holderIdentity"] == before["holderIdentity"]
    assert after["leaseTransitions"] == before["leaseTransitions"]
    assert scenario.seen["codes"] == [0, 0]
    leader = scenario.replicas[0]
    first = leader.lines(BLOCKED)[0]
    over = leader.lines("the event loop runs again")[0]
    assert first["level"] == "warning"
    assert first["blocked_seconds"] <= 2
    assert at(first) < at(over)
    assert first["function"] == f"__main__.{HANDLER}"
    assert first["at"].startswith(f"{PROGRAM}:")
    assert (first["controller"], first["name"]) == ("Stone", "one")
    assert over["blocked_seconds"] > 4


@story("five")
def test_a_mapping_that_blocks_is_named_too(scenario: Scenario) -> None:
    """With the controller that it maps for and the object that it was given."""
    last = scenario.replicas[0].lines(BLOCKED)[-1]
    assert last["function"] == "__main__.to_stones"
    assert last["controller"] == "Stone"
    assert last["watched"] == f"{scenario.namespace.name}/slow"


@story("twelve")
def test_a_block_of_twelve_seconds_loses_the_lease_and_writes_nothing(
    scenario: Scenario, audited: ControlPlane
) -> None:
    """A thread ends the process before the handler comes back, and says where it stood."""
    assert scenario.seen["code"] == 1
    leader = scenario.replicas[0]
    assert not leader.lines("the event loop runs again")
    last = leader.lines()[-1]["message"]
    assert last.startswith("ending the process: its Lease is lost")
    assert f"in {HANDLER.rpartition('.')[2]}\n" in last
    check_fence(audited, scenario)


@story("lost")
def test_a_handler_that_comes_back_after_the_deadline_is_refused_its_write(
    scenario: Scenario, audited: ControlPlane
) -> None:
    """The fence goes by the clock: nothing on the loop has had time to close it."""
    assert scenario.seen["code"] == 1
    leader = scenario.replicas[0]
    assert leader.lines("refused")
    assert leader.told("refused") - leader.told("stands still") > 7
    check_fence(audited, scenario)


@story("ever")
def test_a_loop_that_is_blocked_for_ever_ends_the_process_by_twenty_seconds(
    scenario: Scenario,
) -> None:
    """Also without an election: exit code 1, told again and again, and last of all where."""
    assert scenario.seen["code"] == 1
    replica = scenario.replicas[0]
    assert 19 <= replica.ended - replica.told("stands still") < 30
    told = [at(line) for line in replica.lines(BLOCKED)]
    assert len(told) >= 3
    gaps = [later - one for one, later in itertools.pairwise(told)]
    assert sorted(gaps) == gaps
    last = replica.lines()[-1]["message"]
    assert last.startswith("ending the process: its event loop is dead")
    assert "in stand_still\n" in last


@story("signals")
def test_a_second_signal_ends_a_blocked_operator_at_once(scenario: Scenario) -> None:
    """The first one can't even be told to it."""
    assert scenario.seen["lived on"]
    assert scenario.seen["code"] == 1
    assert scenario.replicas[0].ended - scenario.seen["signalled"] < 10


@story("threads")
def test_threads_that_all_hang_fail_liveness(scenario: Scenario) -> None:
    """The probe and the metric name the handler."""
    assert scenario.seen["livez before"] == (200, "ok\n")
    code, text = scenario.seen["livez"]
    assert code == 503
    assert "[-]handler threads failed: 32 threads hang" in text
    assert "__main__.stuck_operator.<locals>.hang (32)" in text
    series = 'rws_handler_threads_stuck{controller="Rope",handler="stuck_operator.<locals>.hang"}'
    assert f"{series} 32.0\n" in scenario.seen["metrics"]


@story("threads")
def test_a_second_signal_ends_an_operator_whose_threads_never_return(scenario: Scenario) -> None:
    """It drains after the first one."""
    assert scenario.seen["code"] == 1
    assert scenario.replicas[0].ended - scenario.seen["signalled"] < 10
