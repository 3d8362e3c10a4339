"""What the session tells the process that runs the program, and hears from it."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec

from rws_operator.dev.access import Access
from rws_operator.errors import ConfigurationError


class Job(msgspec.Struct, frozen=True):
    """One run of the user's program.

    Attributes:
        module: What `python -m` was given; None where a script was started.
        script: The script's path, else None.
        argv: The command line, as the program first got it.
        cluster: How an administrator reaches the cluster.
        alone: Whether the cluster is the session's own, where nobody else runs the program.
        http_port: Where metrics and probes are served.
        webhook_port: Where webhooks are served.
        webhook_url: Where the API server calls them.
        ca_pem: What their certificate is trusted by.
        cert_file: Their certificate, PEM.
        key_file: Its key.
        account: Where the kubeconfig of its ServiceAccount is written.
        installed: The file that remembers what was installed.
        claim: The Lease of the session, and its holder.
    """

    module: str | None
    script: str | None
    argv: list[str]
    cluster: Access
    alone: bool
    http_port: int
    webhook_port: int
    webhook_url: str
    ca_pem: str
    cert_file: str
    key_file: str
    account: str
    installed: str
    claim: tuple[str, str]


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a run.

    Attributes:
        what: ``loaded``: its modules were imported, or could not all be; ``running``: it is ready;
            ``ended``: its process has ended; ``refused``: no save would have it run.
        packages: The program's packages, when loaded.
        folders: The folders that its modules and packages lie in, when loaded.
        code: The exit code, when ended; -n for signal n.
        has_failed: Whether it has logged an error, when running.
    """

    what: Literal["loaded", "running", "refused", "ended"]
    packages: list[str] = []
    folders: list[str] = []
    code: int = 0
    has_failed: bool = False


def started_as() -> tuple[str | None, str | None]:
    """How this process's program was started: as a module, or as a script.

    Raises:
        ConfigurationError: It was neither, and can't be started again.
    """
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return spec.name.removesuffix(".__main__"), None
    if (file := getattr(main, "__file__", None)) is not None:
        return None, file
    raise ConfigurationError(
        "this program can't be started again after a change: it comes from no file",
        remedy="start it by python -m app dev",
    )
