"""What development needs of an Operator, which stands above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rws_operator.process import Runner

if TYPE_CHECKING:
    from rws_operator.client import Client


class DevelopedProgram(Runner, Protocol):
    """An Operator, as far as it is installed and run while it is written."""

    @property
    def name(self) -> str:
        """The operator's name."""
        ...

    @property
    def http_port(self) -> int | None:
        """The port of metrics and probes while they are served."""
        ...

    def check_complete(self) -> None:
        """Refuse a definition that could not run."""

    def manifests(
        self, *, namespace: str | None, image: str | None, replicas: int, webhook_url: str | None
    ) -> list[dict[str, Any]]:
        """What installs it."""
        ...

    def is_leading(self) -> bool:
        """Whether it may work: it leads, or needs no Lease to."""
        ...

    def for_development(self, client: Client, *, alone: bool) -> DevelopedProgram:
        """A copy that ends at once, and works without a Lease where nobody else can run it."""
        ...
