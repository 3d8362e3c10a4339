"""What the command line needs of an Operator, which stands above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack

from rws_operator.dev.program import DevelopedProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.manifests.extras import Extras
    from rws_operator.resources import Kind


class Program(DevelopedProgram, Protocol):
    """What the command line needs of an Operator."""

    @property
    def default_image(self) -> str:
        """The image that the manifests name when none is given."""
        ...

    def manifests(
        self,
        *,
        namespace: str | None,
        image: str | None,
        replicas: int,
        webhook_url: str | None,
        **extras: Unpack[Extras],
    ) -> list[dict[str, Any]]:
        """What installs it."""
        ...

    def unnamed_host(self, webhook_url: str, namespace: str | None) -> str | None:
        """The URL's host, if webhooks are called there and their certificate does not name it."""
        ...

    def converts(self, crd: Mapping[str, Any], namespace: str | None) -> bool:
        """Whether a CRD, as it is in a cluster, calls it for conversions."""
        ...

    def finalizers(self) -> Mapping[Kind, Sequence[str]]:
        """The finalizers that its controllers put on objects, by kind."""
        ...
