"""The cluster that RWS_TEST_KUBECONFIG names, for tests that do without one of their own."""

from pathlib import Path

from rws_operator.errors import KubeconfigError
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.kubernetes_version import check_version
from rws_operator.testing.local import served_version
from rws_operator.testing.throwaway import copy_throwaway


def copy_named(kubeconfig: str, path: Path, version: str | None) -> None:
    """Copy what a kubeconfig names, if it may and can be used, and is of the version asked for.

    Raises:
        ControlPlaneError: It may or can not, or is of another version.
    """
    try:
        copy_throwaway(kubeconfig, path)
        access = None if version is None else Access.read(path)
    except KubeconfigError as error:
        raise ControlPlaneError(f"RWS_TEST_KUBECONFIG: {error.what}", remedy=error.remedy) from None
    if access is not None and version is not None:
        served = served_version(access)
        check_version(version, served, f"the cluster of RWS_TEST_KUBECONFIG, {kubeconfig},")
