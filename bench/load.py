"""Many objects, many edits, half of the runs failing: does the operator keep up and stay small?

    python bench/load.py [--objects 20000] [--rate 50] [--minutes 5] [--seed 1]

A control plane of its own holds the objects; an operator with the defaults keeps a status of each.
Then specs are changed at random, so many a second; one hot object is changed as fast as the API
server answers, at most 100 times a second, and five cold ones every 2 s. Each run
fails or not by the seed, the object, its generation and the attempt: half of all do. With
--until-edited what failed fails until it is edited: half of the objects are always failing.

The exit code is 1 if a goal is missed, and what was missed is told. `load_operator.py` is the
operator, `load_run.py` the run, `load_figures.py` what is seen of it, `load_goals.py` what is asked
of that, and `load_table.py` prints it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import sys
import tempfile
from pathlib import Path

import psutil

from bench.load_figures import Load
from bench.load_goals import missed
from bench.load_operator import Dial
from bench.load_run import measure
from bench.load_table import table
from rws_operator.testing import ControlPlane, TestCluster


async def run(load: Load) -> int:
    """Run the load on a control plane of its own, and return the exit code."""
    print(
        f"{load}\nPython {platform.python_version()}, {os.cpu_count()} cores, before: {machine()}",
        flush=True,
    )
    async with (
        ControlPlane(dedicated=True) as control_plane,
        await TestCluster.connect(control_plane.kubeconfig) as cluster,
    ):
        await cluster.install_crd(Dial)
        namespace = await cluster.namespace("load")
        with tempfile.TemporaryDirectory(prefix="rws-load-") as folder:
            measured = await measure(load, cluster, namespace.name, Path(folder), api_server())
    print(table(measured))
    print(f"after: {machine()}")
    if load.trace:
        print(measured.grown)
        return 0
    faults = missed(measured)
    for fault in faults:
        print(f"missed: {fault}", file=sys.stderr)
    return 1 if faults else 0


def machine() -> str:
    """How busy the machine is."""
    state = "load average " + " ".join(f"{each:.2f}" for each in os.getloadavg())
    pressure = Path("/proc/pressure/cpu")  # where there is one: the part of time that some waited
    if pressure.exists():
        state += f", waiting for a CPU {pressure.read_text().split()[3].removeprefix('avg300=')} %"
    return state


def api_server() -> psutil.Process:
    """The API server that this process started."""
    children = psutil.Process().children(recursive=True)
    return next(each for each in children if each.name() == "kube-apiserver")


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=Load.objects)
    parser.add_argument("--rate", type=float, default=Load.rate, help="edits a second")
    parser.add_argument("--minutes", type=float, default=Load.seconds / 60)
    parser.add_argument("--seed", type=int, default=None, help="a random one, which is printed")
    parser.add_argument("--until-edited", action="store_true", help="what fails goes on failing")
    parser.add_argument("--trace", action="store_true", help="tell what grew; no goal is judged")
    given = parser.parse_args()
    load = Load(
        objects=given.objects,
        rate=given.rate,
        seconds=given.minutes * 60,
        seed=random.randrange(10**6) if given.seed is None else given.seed,  # noqa: S311
        until_edited=given.until_edited,
        trace=given.trace,
    )
    return asyncio.run(run(load))


if __name__ == "__main__":
    sys.exit(main())
