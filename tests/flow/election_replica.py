"""A replica for `test_election_processes`: leads by a Lease, writes as fast as it may, says so.

    election_replica.py KUBECONFIG NAMESPACE NAME LEASE RENEW RETRY SENT [--stuck] [--clock S]

It tells what happens on standard output, one JSON object a line. While it leads it patches one
ConfigMap through its fenced client without pause. SIGTERM ends it as an operator ends: the writer
first, then the Lease is released, exit code 0; a lost Lease ends it at once with code 1. With
--stuck a thread sleeps that nobody can cancel; with --clock its wall clock is so far ahead. SENT is
the file in which it writes down when it sent what (see `sent_writes`).
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from rws_operator.client import Client, load_config
from rws_operator.election import LeaderElector
from rws_operator.errors import LeadershipLost, OperatorError
from rws_operator.testing.clock import OffsetClock
from tests.sent_writes import record_writes, written_to


def tell(event: str, **more: object) -> None:
    """Say what happened, and when."""
    print(json.dumps({"event": event, "at": time.time(), **more}), flush=True)  # noqa: T201


async def write(client: Client, namespace: str, name: str) -> None:
    """Write until refused; tell of the first refusal."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/out"
    count = 0
    while True:
        count += 1
        try:
            await client.request(
                "PATCH",
                path,
                body={"data": {"by": name, "count": str(count)}},
                content_type="application/merge-patch+json",
            )
        except LeadershipLost as error:
            tell("refused", reason=str(error))
            return
        except OperatorError as error:
            tell("failed", reason=str(error))
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.005)


async def lead(elector: LeaderElector, client: Client, name: str) -> None:
    """Wait for the Lease, then write."""
    await elector.handle().wait_until_leader()
    tell("leading")
    await write(client.fenced(elector.fence), elector.namespace, name)


async def take_part(elector: LeaderElector, client: Client, name: str) -> None:
    """Lead if it comes to that, until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(elector.run())
        writer = tasks.create_task(lead(elector, client, name))
        if "--stuck" in sys.argv:
            tasks.create_task(asyncio.to_thread(time.sleep, 600))
        tell("started")
        await stopping.wait()
        writer.cancel()
        await asyncio.wait([writer])
        await elector.release()
        tell("released")


def clock_offset() -> float:
    """How far the wall clock is to be ahead."""
    return float(sys.argv[sys.argv.index("--clock") + 1]) if "--clock" in sys.argv else 0.0


async def main() -> None:
    """Run one replica."""
    kubeconfig, namespace, name, *durations = sys.argv[1:7]
    lease, renew, retry = (int(seconds) for seconds in durations)
    record_writes(written_to(Path(sys.argv[7])))
    async with Client(load_config(kubeconfig), user_agent=f"replica-{name}") as client:
        elector = LeaderElector(
            client,
            namespace,
            "op",
            name,
            lease_seconds=lease,
            renew_seconds=renew,
            retry_seconds=retry,
            wall_clock=OffsetClock(clock_offset()),
        )
        try:
            await take_part(elector, client, name)
        except* LeadershipLost as lost:
            tell("lost", reason=str(lost.exceptions[0]))
            os._exit(1)  # a stuck thread must not hold the process


if __name__ == "__main__":
    asyncio.run(main())
