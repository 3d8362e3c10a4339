import re
from pathlib import Path

import pytest

from rws_operator.testing.errors import ControlPlaneError, ProgramsNotFound
from rws_operator.testing.find import cache_folder
from rws_operator.testing.kubernetes_version import (
    KUBERNETES_VERSION,
    MODULES,
    asked_version,
    check_version,
    shipped_versions,
)

OLDEST = shipped_versions()[0]
LIST = r"v1\.34\.4, v1\.36\.3, v1\.37\.2"


def test_the_default_is_the_newest_shipped():
    """Whoever asks for nothing gets the newest; no older release stands in for it."""
    assert shipped_versions() == ("v1.34.4", "v1.36.3", "v1.37.2")
    assert shipped_versions()[-1] == KUBERNETES_VERSION


@pytest.mark.parametrize("version", shipped_versions())
def test_the_modules_are_of_the_version_that_names_them(version: str):
    """Kubernetes and all its staging modules are of one release, and each has its checksums."""
    folder = MODULES / version / "kubernetes"
    go_mod, go_sum = (folder / "go.mod").read_text(), (folder / "go.sum").read_text()
    staging = version.replace("v1.", "v0.")
    assert f"\tk8s.io/kubernetes {version} // indirect\n" in go_mod
    assert f"k8s.io/kubernetes {version} h1:" in go_sum
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", go_mod, re.MULTILINE)
    assert len(replaced) > 30
    assert {(new, at) for _, new, at in replaced} == {(old, staging) for old, _, _ in replaced}
    etcd = MODULES / version / "etcd"
    server = re.search(r"go\.etcd\.io/etcd/server/v3 (\S+)", (etcd / "go.mod").read_text())
    assert server is not None
    assert f"go.etcd.io/etcd/server/v3 {server[1]} h1:" in (etcd / "go.sum").read_text()


@pytest.mark.parametrize(
    ("argument", "variable", "asked"),
    [
        (None, None, None),
        (None, "", None),
        ("1.34.4", None, "v1.34.4"),
        ("v1.34.4", None, "v1.34.4"),
        (None, "1.36.3", "v1.36.3"),
        ("1.34.4", "1.36.3", "v1.34.4"),
    ],
)
def test_what_is_asked_for(argument: str | None, variable: str | None, asked: str | None):
    """By argument, else by variable, with or without the v; an empty variable asks for none."""
    environ = {} if variable is None else {"RWS_TEST_KUBERNETES_VERSION": variable}
    assert asked_version(argument, environ) == asked


@pytest.mark.parametrize("unknown", ["1.33.0", "1.34", "latest", "v", "../v1.37.2", "1.34.4 "])
def test_an_unknown_version_is_told_what_there_is(unknown: str):
    """The error lists the shipped ones, for an argument and for the variable."""
    says = rf"no control plane of Kubernetes {re.escape(unknown)}: ask for one of {LIST}"
    with pytest.raises(ProgramsNotFound, match=says):
        asked_version(unknown, {})
    with pytest.raises(ProgramsNotFound, match=says):
        asked_version(None, {"RWS_TEST_KUBERNETES_VERSION": unknown})


def test_each_version_has_a_cache_of_its_own(tmp_path: Path):
    """Programs of two versions never meet in one folder."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert cache_folder(environ).name == KUBERNETES_VERSION
    assert cache_folder({**environ, "RWS_TEST_KUBERNETES_VERSION": OLDEST}).name == OLDEST
    assert cache_folder(environ, version=OLDEST).name == OLDEST


@pytest.mark.parametrize("served", ["v1.34.4", "v1.34.4+k3s1", "v1.34.4-gke.1047000"])
def test_a_distribution_of_the_version_is_the_version(served: str):
    """What a distribution appends does not make it another version."""
    check_version("v1.34.4", served, "the cluster")


@pytest.mark.parametrize("served", ["v1.37.2", "v1.34.40", "v1.34.3", ""])
def test_another_version_is_refused(served: str):
    """The message names both versions and where the wrong one comes from."""
    says = rf"Kubernetes v1\.34\.4 was asked for, but the cluster is {re.escape(served)}"
    with pytest.raises(ControlPlaneError, match=says):
        check_version("v1.34.4", served, "the cluster")
