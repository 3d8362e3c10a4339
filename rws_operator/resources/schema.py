"""From a model to the structural schema of a CRD.

The fields' annotations are walked, not pydantic's own JSON schema: what the API server takes
is narrower (no ``$ref``, no ``anyOf`` beside int-or-string, no ``title``), and what it can't
hold must be refused with the class, the field and a remedy.

Rules:
    1. Names are the wire's; a field without default is required, ``X | None`` is nullable.
    2. Defaults are constants that fit their own field; at or below status there are none,
       since the API server would write them before the operator does.
    3. Bounds and patterns hold in Python and on the server; CEL rules on the server alone.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NewType, NoReturn, Union

import pydantic
from pydantic.fields import FieldInfo

from rws_operator.resources.conditions import Condition
from rws_operator.resources.field import (
    EMBEDDED,
    LIST_MAP_KEYS,
    LIST_TYPE,
    PRESERVE_UNKNOWN,
    VALIDATIONS,
)
from rws_operator.resources.model import Model, field_wire_name, resolve
from rws_operator.resources.place import Place
from rws_operator.resources.scalar import apply_constraints, int_or_string, scalar_schema
from rws_operator.resources.schema_default import default_of
from rws_operator.resources.schema_keywords import SCALARS, check_given, check_node
from rws_operator.resources.wire_guard import refuse_hidden_encodings, refuse_hidden_forms

JsonSchema = dict[str, Any]

_LISTS = {list, tuple, Sequence, MutableSequence}
_SETS = {set, frozenset, AbstractSet}
_MAPS = {dict, Mapping, MutableMapping}
_ANYTHING = {Any, object}
_EXACT = 2**53
"""Up to here a bound, which is a float, tells integers apart."""


def resource_schema(cls: type[Model]) -> JsonSchema:
    """The structural schema of a custom resource's class, without its metadata.

    Raises:
        ResourceDefinitionError: Names the class, the field and the remedy.
    """
    place = Place(cls.__name__)
    schema = _model(cls, place, skip=frozenset({"metadata"}))
    check_node(schema, place)
    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        place.refuse(f"its schema can't be written: {error}", "look for it in texts and defaults")
    return schema


def _model(cls: type[Model], place: Place, *, skip: frozenset[str] = frozenset()) -> JsonSchema:
    if cls in place.open_models:
        place.refuse(
            f"{cls.__name__} contains itself",
            "a schema can't recurse; make it dict[str, Any], which keeps unknown fields",
        )
    resolve(cls)
    refuse_hidden_forms(cls, place)
    schema: JsonSchema = {"type": "object"}
    if cls.__doc__:
        schema["description"] = inspect.cleandoc(cls.__doc__)
    fields = {name: field for name, field in cls.model_fields.items() if name not in skip}
    inside = replace(place, open_models=(*place.open_models, cls))
    properties = {
        field_wire_name(name, field): _field(cls, name, inside) for name, field in fields.items()
    }
    required = [field_wire_name(n, f) for n, f in fields.items() if f.is_required()]
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    if cls.schema_preserves_unknown:
        schema[PRESERVE_UNKNOWN] = True
    if cls.schema_rules:
        schema[VALIDATIONS] = [rule.to_wire() for rule in cls.schema_rules]
    return schema


def _field(cls: type[Model], name: str, outside: Place) -> JsonSchema:
    field, place = cls.model_fields[name], outside.inner(f".{name}")
    if not outside.path and field_wire_name(name, field) == "status":
        place = replace(place, in_status=True)
        if field.is_required():
            place.refuse("a new object has no status yet", "give it a default, e.g. Status()")
    # What stands on the field is about its values; null has no length and no list type.
    schema = _type(field.annotation, (*field.metadata, _Extra(field)), place)
    if field.description:
        schema = {**schema, "description": inspect.cleandoc(field.description)}
    if not place.in_status and not field.is_required():
        default = default_of(cls, name, schema, place)
        if default is not None:
            schema["default"] = default
    return schema


@dataclass(frozen=True, slots=True)
class _Extra:
    """The field whose json_schema_extra is to be applied."""

    field: FieldInfo


def _type(annotation: Any, metadata: Sequence[Any], place: Place) -> JsonSchema:
    """The schema of an annotation and of what stands beside it."""
    annotation, metadata = _unwrapped(annotation, metadata)
    given = next((m for m in metadata if isinstance(m, pydantic.WithJsonSchema)), None)
    if given is not None and given.json_schema is not None:
        check_given(given.json_schema, place)
        return _finished(dict(given.json_schema), metadata, place)
    refuse_hidden_encodings(metadata, place)
    alternatives = _alternatives(annotation)
    if type(None) in alternatives:
        inner = [each for each in alternatives if each is not type(None)]
        if not inner:
            place.refuse("it can only be None", "name a type beside None")
        return _nullable(_type(Union[tuple(inner)], metadata, place), place)  # noqa: UP007
    if len(alternatives) > 1:
        return _finished(_union(alternatives, place), metadata, place)
    return _finished(_single(annotation, place), metadata, place)


def _unwrapped(annotation: Any, metadata: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Resolve Annotated, NewType and aliases; the innermost metadata comes first."""
    gathered = tuple(metadata)
    while True:
        if annotation is pydantic.JsonValue:
            return Any, gathered
        if typing.get_origin(annotation) is Annotated:
            annotation, *inner = typing.get_args(annotation)
            gathered = (*inner, *gathered)
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):  # type X = ...
            annotation = annotation.__value__
        else:
            return annotation, gathered


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union, and a union of one of anything else; None may hide in Literal."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        members = [_alternatives(each) for each in typing.get_args(annotation)]
        return [each for member in members for each in member]
    if typing.get_origin(annotation) is Literal and None in typing.get_args(annotation):
        values = tuple(each for each in typing.get_args(annotation) if each is not None)
        return [Literal[values], type(None)] if values else [type(None)]
    return [annotation]


def _nullable(schema: JsonSchema, place: Place) -> JsonSchema:
    if PRESERVE_UNKNOWN in schema and "type" not in schema:
        return schema  # anything, null among it
    nullable: JsonSchema = {**schema, "nullable": True}
    # The API server compares null with an enum and finds it in none, not even where it stands
    # there; patterns and bounds it applies to strings and numbers only.
    values = nullable.pop("enum", None)
    if values is None:
        return nullable
    if schema["type"] == "boolean":
        place.refuse("one truth value or None", "use bool | None, and a Rule")
    if schema["type"] == "string":
        return {**nullable, "pattern": f"^({'|'.join(map(re.escape, values))})$"}
    if any(abs(value) > _EXACT for value in values):
        place.refuse("a value beyond 2**53, or None", "use int | None, and a Rule")
    return {**nullable, "anyOf": [{"minimum": value, "maximum": value} for value in values]}


def _union(alternatives: list[Any], place: Place) -> JsonSchema:
    plain = [_unwrapped(each, ())[0] for each in alternatives]
    for member, bare in zip(alternatives, plain, strict=True):
        if bare is not member and _type(member, (), place) != _type(bare, (), place):
            place.refuse("a bound on one member of a union", "write it as a Rule on the whole")
    if set(plain) == {int, str}:
        return int_or_string()
    if all(typing.get_origin(each) is Literal for each in plain):
        return _literal([value for each in plain for value in typing.get_args(each)], place)
    return _refuse_union(plain, place)


def _refuse_union(plain: list[Any], place: Place) -> NoReturn:
    names = " | ".join(getattr(each, "__name__", str(each)) for each in plain)
    place.refuse(
        f"a CRD can't hold the union {names}",
        "write one optional field for each, and a Rule that exactly one is there",
    )


def _single(annotation: Any, place: Place) -> JsonSchema:
    if annotation in _ANYTHING:
        return {PRESERVE_UNKNOWN: True}
    origin = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin is Literal:
        return _literal(list(arguments), place)
    if origin in _LISTS:
        return _list(origin, arguments, place)
    if origin in _SETS:
        return _set(arguments, place)
    if origin in _MAPS:
        return _map(arguments, place)
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _enum([member.value for member in annotation], place)
        if issubclass(annotation, Model):
            return _model(annotation, place)
        if issubclass(annotation, pydantic.BaseModel):
            place.refuse(f"{annotation.__name__} is a plain BaseModel", "derive it from Model")
    return scalar_schema(annotation) or _refuse_type(annotation, place)


def _refuse_type(annotation: Any, place: Place) -> NoReturn:
    name = getattr(annotation, "__name__", str(annotation))
    remedies = {
        "Decimal": "use Quantity, or str with a pattern",
        "timedelta": "use Duration, which is written 1h30m as Kubernetes does",
        "time": "use str with a pattern",
        "IPv4Network": "use str with Field(format='cidr')",
        "IPv6Network": "use str with Field(format='cidr')",
        "NoneType": "name a type beside None",
    }
    place.refuse(
        f"a CRD can't hold the type {name}",
        remedies.get(name, "use a scalar, list, dict or Model, or Annotated[..., WithJsonSchema]"),
    )


def _literal(values: list[Any], place: Place) -> JsonSchema:
    if any(isinstance(value, enum.Enum) for value in values):
        place.refuse("a Literal of an enum's member is not read back", "use its value, or the enum")
    return _enum(values, place)


def _enum(values: list[Any], place: Place) -> JsonSchema:
    kinds = {bool: "boolean", int: "integer", str: "string", float: "number"}
    names = {next((n for t, n in kinds.items() if isinstance(value, t)), None) for value in values}
    (name, *others) = names
    if others or name is None:
        place.refuse("its values are of several types", "make them all str or all int")
    return {"type": name, "enum": list(dict.fromkeys(values))}


def _list(origin: Any, arguments: tuple[Any, ...], place: Place) -> JsonSchema:
    if origin is tuple:
        if len(arguments) != 2 or arguments[1] is not Ellipsis:
            place.refuse("a tuple of fixed length", "use a Model, or tuple[X, ...]")
        arguments = arguments[:1]
    if not arguments:
        place.refuse("a list of unknown items", "name their type, e.g. list[str]")
    schema: JsonSchema = {"type": "array", "items": _type(arguments[0], (), place.inner("[]"))}
    if inspect.isclass(arguments[0]) and issubclass(arguments[0], Condition):
        schema |= {LIST_TYPE: "map", LIST_MAP_KEYS: ["type"]}  # as every API of Kubernetes
    return schema


def _set(arguments: tuple[Any, ...], place: Place) -> JsonSchema:
    schema = _list(list, arguments, place)
    if schema["items"].get("type") not in SCALARS or schema["items"].get("nullable"):
        place.refuse("a set of values that can't be compared", "use set[str] or a list")
    return {**schema, LIST_TYPE: "set"}


def _map(arguments: tuple[Any, ...], place: Place) -> JsonSchema:
    key, value = arguments or (str, Any)
    if _unwrapped(key, ())[0] is not str:
        name = getattr(key, "__name__", str(key))
        place.refuse(f"a map with keys of {name}", "use str, and a Rule over the keys")
    values = _type(value, (), place.inner("[*]"))
    if values == {PRESERVE_UNKNOWN: True}:
        return {"type": "object", PRESERVE_UNKNOWN: True}
    return {"type": "object", "additionalProperties": values}


def _finished(schema: JsonSchema, metadata: Sequence[Any], place: Place) -> JsonSchema:
    """Apply bounds and Kubernetes' own keywords to a schema."""
    for each in metadata:
        field = each.field if isinstance(each, _Extra) else each
        if isinstance(each, FieldInfo):  # Annotated[X, Field(...)] inside another type
            schema = _finished(schema, each.metadata, place)
            if each.description:
                schema["description"] = inspect.cleandoc(each.description)
        if isinstance(field, FieldInfo):
            schema = _with_extra(schema, field, place)
        else:
            apply_constraints(schema, each, place.refuse)
    check_node(schema, place)
    return schema


def _with_extra(schema: JsonSchema, field: FieldInfo, place: Place) -> JsonSchema:
    extra = field.json_schema_extra
    if extra is None:
        return schema
    if callable(extra):
        place.refuse("json_schema_extra is a function", "use Field's own keywords")
    foreign = [key for key in extra if not key.startswith("x-kubernetes-") and key != "format"]
    if foreign:
        place.refuse(f"json_schema_extra has {foreign[0]!r}", "use Field's own keywords")
    schema = {**schema, **extra}
    if PRESERVE_UNKNOWN in extra or EMBEDDED in extra:
        schema.setdefault("type", "object")
    return schema
