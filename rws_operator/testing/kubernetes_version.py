"""Which Kubernetes a control plane of one's own runs: asked for, else the newest that is shipped.

`find.py` keeps each version's programs apart, `build.py` builds those that it has Go modules for,
and `control_plane.py` holds the running API server against what was asked for.

Invariant: what is asked for is what runs, or it is an error; no version stands in for another.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rws_operator.testing.errors import ControlPlaneError, ProgramsNotFound

KUBERNETES_VERSION = "v1.37.2"
"""The version that runs where none is asked for."""

VERSION_VARIABLE = "RWS_TEST_KUBERNETES_VERSION"
MODULES = Path(__file__).parent / "controlplane"
"""A folder of Go modules for each version that is shipped."""


def shipped_versions() -> tuple[str, ...]:
    """Return the versions that can be built, `v1.37.2` and older, the newest last."""
    return tuple(sorted((folder.name for folder in MODULES.glob("v*")), key=_order))


def asked_version(
    version: str | None = None, environ: Mapping[str, str] = os.environ
) -> str | None:
    """Return the version asked for, `v1.34.4`, or None if that is left open.

    Args:
        version: `1.34.4` or `v1.34.4`; it wins over the environment.
        environ: May ask by RWS_TEST_KUBERNETES_VERSION.

    Raises:
        ProgramsNotFound: It is none of those shipped; the message lists them.
    """
    asked = version or environ.get(VERSION_VARIABLE)
    if not asked:
        return None
    full = f"v{asked.removeprefix('v')}"
    shipped = shipped_versions()
    if full not in shipped:
        raise ProgramsNotFound(
            f"there is no control plane of Kubernetes {asked}",
            remedy=f"ask for one of {', '.join(shipped)}",
        )
    return full


def check_version(asked: str, served: str, source: str) -> None:
    """Refuse an API server of another version than the one asked for.

    Args:
        asked: The version asked for, `v1.34.4`.
        served: What the API server calls itself; a distribution appends to it: `v1.34.4+k3s1`.
        source: Where that API server comes from, for the message.

    Raises:
        ControlPlaneError: It is another.
    """
    if not re.fullmatch(rf"{re.escape(asked)}([-+].*)?", served):
        raise ControlPlaneError(
            f"Kubernetes {asked} was asked for, but {source} is {served}",
            remedy=f"unset that, or ask for no version ({VERSION_VARIABLE})",
        )


def _order(version: str) -> list[int]:
    return [int(part) for part in version.removeprefix("v").split(".")]
