"""`OperatorDefinition`: what the test kit needs of an Operator, which stands above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.client import Client
    from rws_operator.resources import Kind


class OperatorDefinition(Protocol):
    """An Operator, as far as it is installed and run by tests."""

    name: str

    @property
    def http_port(self) -> int | None:
        """The port of metrics and probes."""
        ...

    def crds(
        self, *, namespace: str | None = None, webhook_url: str | None = None
    ) -> list[dict[str, Any]]:
        """Its CRDs."""
        ...

    def kinds(self) -> list[Kind]:
        """The kinds it serves."""
        ...

    def finalizers(self) -> dict[Kind, list[str]]:
        """The finalizers that it puts on objects."""
        ...

    def manifests(
        self, *, namespace: str | None = None, webhook_url: str | None = None
    ) -> list[dict[str, Any]]:
        """All that installs it."""
        ...

    def certificate(self, *, names: Sequence[str] = ()) -> None:
        """Say what else its webhooks are called by."""

    def confined(self, namespace: str, client: Client | None = None) -> Self:
        """A copy for one namespace."""
        ...

    async def run(
        self,
        *,
        http_port: int | None = None,
        webhook_port: int | None = ...,
        tls_files: tuple[str, str] | None = None,
    ) -> None:
        """Run it."""

    def stop(self) -> None:
        """Ask `run` to end well."""

    def is_leading(self) -> bool:
        """Whether its controllers may work."""
        ...
