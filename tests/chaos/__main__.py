"""The chaos run as a program: `make chaos SEED=7 MINUTES=5`.

Environment: SEED (drawn if not given, and printed), MINUTES (5), OBJECTS (300), REST (60, seconds),
FOLDER (where logs and records stay, made for this run; a temporary one, kept if the run fails).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.plan import draw
from tests.chaos.run import carry_out


def main() -> int:
    """Run, and return the exit code."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(100_000))
    minutes = float(os.environ.get("MINUTES") or 5)
    objects = int(os.environ.get("OBJECTS") or 300)
    rest = float(os.environ.get("REST") or 60)
    kept = os.environ.get("FOLDER")
    folder = Path(kept or tempfile.mkdtemp(prefix="rws-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        say(f"FOLDER {folder} is not empty: another run's records would be judged with this one's")
        return 2
    plan = draw(seed, minutes * 60, objects)
    say(f"seed {seed}; the same plan again, though not the same timing: {again(seed)}")
    say(str(plan))
    passed = False
    try:
        report = asyncio.run(carry_out(plan, folder, rest, say))
        say(str(report))
        passed = report.passed
    finally:
        if not passed:
            say(f"seed {seed} FAILED; logs and records are in {folder}; again: {again(seed)}")
    if passed:
        say(f"seed {seed} passed")
        if not kept:
            shutil.rmtree(folder)
    return 0 if passed else 1


def again(seed: int) -> str:
    """How to run the same plan again."""
    others = {k: os.environ[k] for k in ("MINUTES", "OBJECTS", "REST") if os.environ.get(k)}
    return " ".join(["make chaos", f"SEED={seed}", *(f"{k}={v}" for k, v in others.items())])


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
