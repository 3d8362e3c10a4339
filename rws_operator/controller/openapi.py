"""The API server's own schemas, as far as a comparison needs them.

`Schemas` reads the server's OpenAPI v3: the index once, the document of a group and version
when a kind of it is first asked for, and again when the kind is unknown. Of a document only
what decides a comparison is kept: which lists have keys, what is atomic, what is a quantity.

Invariant: it never fails a reconcile. Where a schema can't be had the answer is None, nothing
can be proven, and one apply is sent instead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import field

from rws_operator.errors import OperatorError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.client import Client
    from rws_operator.resources import Kind

REFRESH_SECONDS = 30.0
"""Least time between two looks at the index for a kind it did not have."""

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_DEADLINE_SECONDS = 15.0

_log = logging.getLogger("rws_operator.apply")


class Schema(msgspec.Struct, gc=False):
    """A schema's part that a comparison needs; an empty one is that of unknown data."""

    ref: str = field(default="", name="$ref")
    all_of: tuple[Schema, ...] = field(default=(), name="allOf")
    properties: dict[str, Schema] = {}
    additional: Schema | bool | None = field(default=None, name="additionalProperties")
    items: Schema | None = None
    default: Any = None
    list_type: str = field(default="", name="x-kubernetes-list-type")
    list_keys: tuple[str, ...] = field(default=(), name="x-kubernetes-list-map-keys")
    patch_strategy: str = field(default="", name="x-kubernetes-patch-strategy")
    patch_key: str = field(default="", name="x-kubernetes-patch-merge-key")
    map_type: str = field(default="", name="x-kubernetes-map-type")
    keeps_unknown: bool = field(default=False, name="x-kubernetes-preserve-unknown-fields")
    kinds: tuple[dict[str, str], ...] = field(default=(), name="x-kubernetes-group-version-kind")

    @property
    def target(self) -> str:
        """The component this one stands for, or ""."""
        ref = self.ref or (self.all_of[0].ref if len(self.all_of) == 1 else "")
        return ref.rpartition("/")[2]

    @property
    def keyed_by(self) -> tuple[str, ...]:
        """The key fields of a list with keys, or ()."""
        if self.list_type == "map":
            return self.list_keys
        if not self.list_type and "merge" in self.patch_strategy and self.patch_key:
            return (self.patch_key,)
        return ()

    @property
    def is_set(self) -> bool:
        """Whether a list is a set of values."""
        if self.list_type:
            return self.list_type == "set"
        return "merge" in self.patch_strategy and not self.patch_key


UNKNOWN = Schema()


class KindSchema:
    """One kind's schema and the components it uses."""

    def __init__(self, root: Schema, components: dict[str, Schema]) -> None:
        self.root = root
        self._components = components

    def resolve(self, schema: Schema) -> Schema:
        """Follow a reference; a map type beside it counts instead of the component's own."""
        name = schema.target
        if not name:
            return schema
        found = self._components.get(name, UNKNOWN)
        if schema.map_type and schema.map_type != found.map_type:
            return msgspec.structs.replace(found, map_type=schema.map_type)
        return found

    @staticmethod
    def is_quantity(schema: Schema) -> bool:
        """Whether it is the API's own quantity, which the server rewrites."""
        return schema.target == _QUANTITY

    @staticmethod
    def value_schema(schema: Schema) -> Schema | None:
        """The schema of a map's undeclared fields; None where there may be none."""
        if isinstance(schema.additional, Schema):
            return schema.additional
        if schema.additional is None:
            free = schema.keeps_unknown or not schema.properties
        else:
            free = schema.additional
        return UNKNOWN if free else None


class _Path(msgspec.Struct):
    url: str = field(name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Path]


class _Components(msgspec.Struct):
    schemas: dict[str, Schema] = {}


class _Document(msgspec.Struct):
    components: _Components = field(default_factory=_Components)


_decode_index = msgspec.json.Decoder(_Index).decode
_decode_document = msgspec.json.Decoder(_Document).decode


class Schemas:
    """The schemas of one API server, read as kinds are asked for.

    Args:
        client: Asks the API server.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str], KindSchema] = {}
        self._tried_at: dict[Kind, float] = {}
        self._lock = asyncio.Lock()
        self._warned = False

    async def get(self, kind: Kind) -> KindSchema | None:
        """A kind's schema, or None where it can't be had now."""
        name = (kind.api_version, kind.kind)
        known = self._known.get(name)
        if known is not None or self._tried_lately(kind):
            return known
        async with self._lock:
            # Another may have read it meanwhile: one request for all.
            if name not in self._known and not self._tried_lately(kind):
                await self._load(kind)
        return self._known.get(name)

    def _tried_lately(self, kind: Kind) -> bool:
        tried = self._tried_at.get(kind)
        return tried is not None and asyncio.get_running_loop().time() < tried + REFRESH_SECONDS

    async def _load(self, kind: Kind) -> None:
        try:
            document = await self._document(kind)
            if document is not None:
                self._keep(document)
        except (OperatorError, msgspec.MsgspecError) as error:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "the API server's schemas can't be read, so some no-op applies are sent: %s",
                    error,
                )
        self._tried_at[kind] = asyncio.get_running_loop().time()

    async def _document(self, kind: Kind) -> _Document | None:
        index = _decode_index(await self._read("/openapi/v3"))
        path = index.paths.get(f"{'apis' if kind.group else 'api'}/{kind.api_version}")
        if path is None:
            return None
        body = await self._read(path.url)
        # Up to 2 MB and some 20 ms, in which the loop must not stand still.
        return await in_own_thread(_decode_document, body)

    async def _read(self, url: str) -> bytes:
        answer = await self._client.request("GET", url, deadline=_DEADLINE_SECONDS)
        return answer.body

    def _keep(self, document: _Document) -> None:
        components = {name: _slim(each) for name, each in document.components.schemas.items()}
        for root in components.values():
            for named in root.kinds:
                self._known[_key(named)] = KindSchema(root, components)


def _key(named: Mapping[str, str]) -> tuple[str, str]:
    group, version = named.get("group"), named.get("version", "")
    return f"{group}/{version}" if group else version, named.get("kind", "")


def _slim(schema: Schema, keeps_unknown: bool = False) -> Schema:
    """Share what says nothing, and hand down what counts for all below."""
    schema.keeps_unknown = schema.keeps_unknown or keeps_unknown
    if schema == UNKNOWN:
        return UNKNOWN
    for name, below in schema.properties.items():
        schema.properties[name] = _slim(below, schema.keeps_unknown)
    if isinstance(schema.additional, Schema):
        schema.additional = _slim(schema.additional, schema.keeps_unknown)
    if schema.items is not None:
        schema.items = _slim(schema.items, schema.keeps_unknown)
    return schema
