"""Objects in whichever form the author has them: what kind they are, what goes on the wire.

Taken are mappings, CustomResource instances and kubernetes_asyncio's models. The latter are
known by their shape (``openapi_types`` and ``attribute_map``), since importing that library
costs more than the rest of the runtime together.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Protocol, TypeGuard

from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds
from rws_operator.resources.custom_resource import CustomResource, definition_of
from rws_operator.resources.kind import Kind
from rws_operator.resources.model import Model, wire_form


class KubernetesModel(Protocol):
    """A model of kubernetes_asyncio, e.g. V1CronJob, as its type stubs show it."""

    def to_dict(self, serialize: bool = ...) -> dict[str, Any]:
        """Not used: it is slow."""
        ...

    def to_str(self) -> str:
        """Not used."""
        ...


class _Generated(Protocol):
    """What a model of kubernetes_asyncio really has."""

    openapi_types: dict[str, str]
    attribute_map: dict[str, str]


KindLike = Kind | type[CustomResource]
ObjectLike = Mapping[str, Any] | Model | KubernetesModel


def kind_of(thing: KindLike | ObjectLike) -> Kind:
    """The kind of a class, an object or a kind.

    Args:
        thing: Mappings and kubernetes_asyncio models are known by apiVersion and kind, so
            they have to be of a built-in kind.

    Raises:
        ConfigurationError: The kind is not known; says what to pass instead.
    """
    if isinstance(thing, Kind):
        return thing
    if isinstance(thing, CustomResource):
        return definition_of(type(thing)).kind
    if isinstance(thing, type):
        return definition_of(thing).kind
    if isinstance(thing, Mapping):
        return _built_in(thing.get("apiVersion"), thing.get("kind"))
    if _is_kubernetes_model(thing):
        return _kind_of_model(thing)
    raise ConfigurationError(
        f"{_describe(thing)} has no kind",
        remedy="pass a Kind, a CustomResource class or an object with apiVersion and kind",
    )


def group_and_plural(thing: KindLike | ObjectLike) -> tuple[str, str]:
    """The API group and plural of a kind, as rules and webhook configurations name it.

    Core kinds have the group ``""``, e.g. ``("", "configmaps")``.

    Raises:
        ConfigurationError: As `kind_of`.
    """
    kind = kind_of(thing)
    return kind.group, kind.plural


def to_wire(obj: ObjectLike) -> dict[str, Any]:
    """The object as JSON data, apiVersion and kind filled in where the class tells them.

    A mapping is copied shallowly. A CustomResource leaves out defaults that nobody set; any
    other Model, such as a status, is written whole.

    Raises:
        ConfigurationError: It is none of the forms that go on the wire.
    """
    if isinstance(obj, Mapping):
        return dict(obj)
    if isinstance(obj, CustomResource):
        return obj.to_wire()
    if isinstance(obj, Model):
        return wire_form(obj, "kept")
    if _is_kubernetes_model(obj):
        wire: dict[str, Any] = _plain(obj)
        if "api_version" in obj.openapi_types and not (wire.get("apiVersion") and wire.get("kind")):
            kind = _kind_of_model(obj)
            wire = {**wire, "apiVersion": kind.api_version, "kind": kind.kind}
        return wire
    raise ConfigurationError(
        f"{_describe(obj)} can't be sent to the API server",
        remedy="pass a dict, a CustomResource or a kubernetes_asyncio model",
    )


def _is_kubernetes_model(thing: object) -> TypeGuard[_Generated]:
    return hasattr(type(thing), "openapi_types") and hasattr(type(thing), "attribute_map")


@functools.cache
def _built_in_kinds() -> dict[tuple[str, str], Kind]:
    values = vars(kinds).values()
    return {(each.api_version, each.kind): each for each in values if isinstance(each, Kind)}


def _built_in(api_version: object, kind: object) -> Kind:
    found = _built_in_kinds().get((str(api_version), str(kind)))
    if found is None:
        missing = "apiVersion and kind" if not (api_version and kind) else "a built-in kind"
        raise ConfigurationError(
            f"an object with apiVersion {api_version!r} and kind {kind!r} is not of a known kind",
            remedy=f"give it {missing}, or pass kind=Kind('group/version', 'Name', 'plural')",
        )
    return found


_MODEL_NAME = re.compile(r"(?:[A-Z][a-z]+(?=V\d))?(V\d+(?:(?:alpha|beta)\d+)?)(.+)", re.IGNORECASE)


def _kind_of_model(model: _Generated) -> Kind:
    api_version, kind = getattr(model, "api_version", None), getattr(model, "kind", None)
    if api_version and kind:
        return _built_in(api_version, kind)
    # Authors leave them out, since the class says as much: V1CronJob.
    match = _MODEL_NAME.fullmatch(type(model).__name__)
    version, name = (match[1].lower(), match[2]) if match else ("", "")
    fitting = [k for k in _built_in_kinds().values() if (k.version, k.kind) == (version, name)]
    if len(fitting) != 1:
        raise ConfigurationError(
            f"a {type(model).__name__} without api_version and kind is not of a known kind",
            remedy="set both, e.g. V1CronJob(api_version='batch/v1', kind='CronJob', ...)",
        )
    return fitting[0]


def _plain(value: Any) -> Any:
    """JSON data of a model's value; what is None is left out, as the library does."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if _is_kubernetes_model(value):
        values = ((wire, getattr(value, name)) for name, wire in value.attribute_map.items())
        return {wire: _plain(item) for wire, item in values if item is not None}
    return value


def _describe(thing: object) -> str:
    return (
        thing.__name__ if isinstance(thing, type) else f"an object of type {type(thing).__name__}"
    )
