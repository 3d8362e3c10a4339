"""The image's recipe, read as Docker reads it: what goes in, who it runs as, what starts.

No Docker runs here. What can be done without it is done: the wheel is built of what is copied,
and what the image starts is started, and ended as Kubernetes ends it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hatchling.builders.wheel import WheelBuilder

from rws_operator.manifests.workload import HTTP_PORT, WEBHOOK_PORT, deployment
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from rws_operator.testing.control_plane import ControlPlane

ROOT = Path(__file__).parent.parent
USER = "65532"


class Step(NamedTuple):
    """One instruction."""

    word: str
    text: str


def stages() -> list[list[Step]]:
    """The instructions of each stage; a stage begins with its FROM."""
    text = (ROOT / "Dockerfile").read_text()
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    steps = [Step(*line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]
    begins = [index for index, step in enumerate(steps) if step.word == "FROM"]
    return [steps[start:end] for start, end in zip(begins, [*begins[1:], None], strict=True)]


def texts(stage: list[Step], word: str) -> list[str]:
    """What a stage says by one instruction."""
    return [" ".join(step.text.split()) for step in stage if step.word == word]


def test_what_is_built_with_stays_behind() -> None:
    """The last stage takes the environment and the application, and installs nothing."""
    build, last = stages()
    assert build[0].text.endswith(" AS build")
    assert texts(last, "COPY") == ["--from=build /venv /venv", "${APP}/app /srv/app"]
    (run,) = texts(last, "RUN")
    assert run.startswith("pip uninstall ")
    assert "--without-pip" in " ".join(texts(build, "RUN"))


def test_every_package_is_checked_by_its_hash() -> None:
    """Nothing comes from an index unless a lock names its hash."""
    build, _ = stages()
    commands = [each for text in texts(build, "RUN") for each in re.split(r" && ", text)]
    from_index = [
        each for each in commands if re.search(r"\bpip\b.* (install|wheel|download) ", each)
    ]
    assert len(from_index) == 4
    for each in from_index:
        is_hashed = re.search(r"--require-hashes -r requirements-(runtime|build)\.lock$", each)
        is_own = "--no-index /wheels/*.whl" in each
        is_built = "pip wheel --no-deps --no-build-isolation " in each
        assert is_hashed or is_own or is_built, each
    for lock in ("runtime", "build"):
        lines = (ROOT / f"requirements-{lock}.lock").read_text().replace("\\\n", " ").splitlines()
        pins = [line for line in lines if line and not line.lstrip().startswith("#")]
        assert pins
        for pin in pins:
            assert re.match(r"[\w.-]+(\[[\w,]+\])?==\S+ ", pin), pin
            assert "--hash=sha256:" in pin


def test_it_runs_as_the_user_that_the_pods_run_as() -> None:
    """By number: kubelet refuses to guess whether a name is root's."""
    _, last = stages()
    assert last[-4:][0] == Step("USER", f"{USER}:{USER}")
    pod = deployment("app", "apps", image="app:1")["spec"]["template"]["spec"]
    security = pod["securityContext"]
    assert (str(security["runAsUser"]), str(security["runAsGroup"])) == (USER, USER)
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert "command" not in pod["containers"][0]


def test_signals_reach_python() -> None:
    """No shell stands between: the exec form is a JSON list, and the program is Python itself."""
    _, last = stages()
    (entry,), (command,) = texts(last, "ENTRYPOINT"), texts(last, "CMD")
    assert json.loads(entry) + json.loads(command) == ["python", "-m", "app", "serve"]
    assert texts(last, "EXPOSE") == [f"{HTTP_PORT} {WEBHOOK_PORT}"]


def test_nothing_is_written_at_run_time() -> None:
    """The root file system is read-only, so modules are compiled when the image is made."""
    build, last = stages()
    assert "/venv/bin/python -m compileall -q " in texts(build, "RUN")[-1]
    (environment,) = texts(last, "ENV")
    assert "PYTHONDONTWRITEBYTECODE=1" in environment.split()
    assert "PYTHONUNBUFFERED=1" in environment.split()


def copy(source: str, target: Path) -> None:
    """Copy what a COPY names, as the build's context has it."""
    allowed = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    assert source.partition("/")[0] in allowed, f"{source} is ignored"
    skipped = shutil.ignore_patterns("__pycache__")
    if (ROOT / source).is_dir():
        shutil.copytree(ROOT / source, target, ignore=skipped)
    else:
        shutil.copy(ROOT / source, target)


def test_what_is_copied_makes_the_wheel_and_compiles(tmp_path: Path) -> None:
    """What the build needs and no COPY brings, or what is no Python, would fail only in Docker."""
    build, _ = stages()
    for text in texts(build, "COPY"):
        *sources, target = text.split()
        for source in sources:
            copy(source, tmp_path / (target if target != "./" else source))
    built = WheelBuilder(str(tmp_path)).build(
        directory=str(tmp_path / "wheels"), versions=["standard"]
    )
    (wheel,) = built
    installed = tmp_path / "venv" / "lib"
    zipfile.ZipFile(wheel).extractall(installed)
    *_, compiling = texts(build, "RUN")[-1].split(" && ")
    program, *arguments, target = shlex.split(compiling)
    assert (program, target) == ("/venv/bin/python", "/venv/lib")
    subprocess.run([sys.executable, *arguments, installed], check=True)
    assert [*(installed / "rws_operator" / "__pycache__").glob("operator.*.pyc")]


@pytest.mark.parametrize("app", ["examples/backup"])
def test_what_it_starts_ends_by_sigterm(
    control_plane: ControlPlane, tmp_path: Path, app: str
) -> None:
    """The entry point is run as the image would, and asked to stop as Kubernetes asks."""
    _, last = stages()
    assert texts(last, "ARG") == [f"APP={app}"]
    copy(f"{app}/app", tmp_path / "app")
    (entry,), (command,) = texts(last, "ENTRYPOINT"), texts(last, "CMD")
    given = dict(each.split("=", 1) for each in texts(last, "ENV")[0].split())
    assert given.pop("PATH") == "/venv/bin:$PATH"
    folder = Path(sys.executable).parent
    environment = given | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "POD_NAMESPACE": "image-test-of-nobody",  # nothing can be left in it
        "RWS_CONFIG_HTTP_PORT": "0",
        "RWS_CONFIG_WEBHOOK_PORT": "0",
    }
    with subprocess.Popen(
        [*json.loads(entry), *json.loads(command)],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline()  # it has begun to tell
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert not [*tmp_path.rglob("__pycache__")]
