"""`NamespacedApi`: one kind's objects in a test's namespace, so that a test names neither.

A class gives and takes its instances, a `Kind` dicts. What is sent may be written as a dict in
either case, and needs no more than a name: kind and namespace are filled in. Invariant: nothing
is sent to another namespace or as another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rws_operator.errors import ConfigurationError
from rws_operator.resources import kind_of, to_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.client import Client
    from rws_operator.client.api import PatchType
    from rws_operator.resources import CustomResource, KindLike
    from rws_operator.resources.wire import KubernetesModel

T = TypeVar("T")

FIELD_MANAGER = "rws-test"
"""Who owns what a test writes."""


class NamespacedApi(Generic[T]):
    """The objects of one kind in one namespace.

    Args:
        client: Sends the requests.
        kind: A class or a Kind.
        namespace: The namespace.

    Raises:
        ConfigurationError: The kind lives in no namespace.
    """

    def __init__(self, client: Client, kind: KindLike, namespace: str) -> None:
        self.kind = kind_of(kind)
        self.namespace = namespace
        self._client = client
        self._form: Any = kind
        if not self.kind.namespaced:
            raise ConfigurationError(
                f"{self.kind} lives in no namespace", remedy="use cluster.client for it"
            )

    def __repr__(self) -> str:
        return f"NamespacedApi({self.kind}, namespace={self.namespace!r})"

    async def get(self, name: str) -> T:
        """Read one object.

        Raises:
            NotFound: There is none.
        """
        return self._made(await self._client.get(self._form, name, self.namespace))

    async def list(
        self, *, label_selector: str | None = None, field_selector: str | None = None
    ) -> list[T]:
        """Read all objects."""
        found: Any = await self._client.list(
            self._form,
            self.namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        return list(found)

    async def create(
        self,
        obj: CustomResource | Mapping[str, Any] | KubernetesModel,
        *,
        dry_run: bool = False,
    ) -> T:
        """Create an object.

        Raises:
            AlreadyExists: There is one of that name.
            Invalid: It breaks its schema.
            Forbidden: A webhook refuses it; ``Denied``'s own words are in the message.
        """
        wire = self._wire(obj)
        return self._made(
            await self._client.create(
                wire, kind=self.kind, field_manager=FIELD_MANAGER, dry_run=dry_run
            )
        )

    async def replace(
        self,
        obj: CustomResource | Mapping[str, Any] | KubernetesModel,
        *,
        subresource: str | None = None,
    ) -> T:
        """Replace an object, or a subresource of it, by what `get` gave and the test changed.

        Raises:
            NotFound: There is none.
            Conflict: It changed meanwhile.
        """
        wire = self._wire(obj)
        return self._made(
            await self._client.replace(
                wire, kind=self.kind, subresource=subresource, field_manager=FIELD_MANAGER
            )
        )

    async def apply(
        self,
        obj: CustomResource | Mapping[str, Any] | KubernetesModel,
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        subresource: str | None = None,
    ) -> T:
        """Apply an object on the server's side: it makes or changes what ``obj`` names.

        Raises:
            Conflict: Another manager owns a field, and ``force`` is off.
            Invalid: The result breaks its schema.
        """
        wire = self._wire(obj)
        if subresource is None and not isinstance(obj, dict):
            wire.pop("status", None)  # its model's defaults
        return self._made(
            await self._client.apply(
                wire,
                kind=self.kind,
                field_manager=field_manager,
                force=force,
                subresource=subresource,
            )
        )

    async def patch(
        self,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",  # noqa: A002 (as the client's)
        subresource: str | None = None,
    ) -> T:
        """Patch an object, or a subresource of it; see `Client.patch`.

        Raises:
            NotFound: There is none.
            Invalid: The result breaks its schema.
        """
        return self._made(
            await self._client.patch(
                self._form,
                name,
                self.namespace,
                patch=patch,
                type=type,
                subresource=subresource,
                field_manager=FIELD_MANAGER,
            )
        )

    async def delete(self, name: str) -> None:
        """Delete an object; with finalizers on it, begin to.

        Raises:
            NotFound: There is none.
        """
        await self._client.delete(self.kind, name, self.namespace)

    def _made(self, found: Any) -> T:
        """What the server answered, in the form of the kind."""
        if isinstance(self._form, type) and isinstance(found, dict):
            found = self._form.from_wire(found)  # type: ignore[attr-defined]
        made: T = found
        return made

    def _wire(self, obj: Any) -> dict[str, Any]:
        wire = to_wire(obj)
        wire.setdefault("apiVersion", self.kind.api_version)
        wire.setdefault("kind", self.kind.kind)
        given = wire.get("metadata")
        if not isinstance(given, Mapping | None):
            raise ConfigurationError(
                f"{self.kind.kind}: its metadata is {given!r}",
                remedy='write a mapping, e.g. {"metadata": {"name": "one"}}',
            )
        metadata = wire["metadata"] = dict(given or {})
        if not metadata.get("namespace"):
            metadata["namespace"] = self.namespace
        for what, is_said, ought in (
            ("kind", f"{wire['kind']}.{wire['apiVersion']}", str(self.kind)),
            ("namespace", metadata["namespace"], self.namespace),
        ):
            if is_said != ought:
                raise ConfigurationError(
                    f"{self.kind.kind} {metadata.get('name')}: its {what} is {is_said}, and "
                    f"this is the api of {ought}",
                    remedy=f"leave the {what} out, or use the other {what}'s own api",
                )
        return wire
