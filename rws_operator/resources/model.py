"""`Model`: the base of everything with named fields that goes over the wire.

A thin layer on pydantic: snake_case in Python, camelCase on the wire, and fields that the
class doesn't know survive a round trip. `wire_form` is the one way from a model to JSON data:
it leaves out defaults that nobody set, so that the API server's own stay in charge.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, dataclass_transform

import pydantic

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.field import Field
from rws_operator.resources.rule import Rule

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Defaults = Literal["omitted", "kept"]
_Defaults = Literal["omitted", "kept", "kept unless null"]


def wire_name(name: str) -> str:
    """The camelCase of a snake_case name; a trailing underscore is stripped.

    ``retention_days`` is ``retentionDays``, ``sha_256`` is ``sha256``, ``from_`` is ``from``;
    a name without an inner underscore, such as ``clusterIP``, stays as it is.
    """
    first, *others = [part for part in name.split("_") if part] or [name]
    return first + "".join(part[0].upper() + part[1:] for part in others)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, pydantic.Field))
class Model(pydantic.BaseModel):
    """A group of fields: a spec, a status, or a part of one.

    Class keywords:
        rules: CEL rules over the whole; ``self`` is the object.
        preserve_unknown: The API server keeps fields the class doesn't name, instead of
            pruning them.
    """

    model_config = pydantic.ConfigDict(
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        protected_namespaces=(),
        val_json_bytes="base64",
        ser_json_bytes="base64",
    )

    schema_rules: ClassVar[tuple[Rule, ...]] = ()
    schema_preserves_unknown: ClassVar[bool] = False

    if TYPE_CHECKING:
        # pydantic's own takes any configuration key; ours takes these two.
        def __init_subclass__(
            cls, *, rules: Sequence[Rule] = (), preserve_unknown: bool = False
        ) -> None: ...
    else:

        def __init_subclass__(
            cls, *, rules: Sequence[Rule] = (), preserve_unknown: bool = False
        ) -> None:
            super().__init_subclass__()
            refuse_shadowed_names(cls)
            cls.schema_rules = tuple(rules)
            cls.schema_preserves_unknown = preserve_unknown

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        # pydantic hands our keywords to this hook again.
        super().__pydantic_init_subclass__()
        refuse_shared_wire_names(cls)


def refuse_shadowed_names(cls: type[Model]) -> None:
    """Refuse a field whose name is an attribute of the classes above; run before pydantic's.

    Raises:
        ResourceDefinitionError: Names the class, the field and the remedy.
    """
    for name in vars(cls).get("__annotations__", {}):
        if not name.startswith("_") and _is_taken(cls, name):
            raise ResourceDefinitionError(
                f"{cls.__name__}.{name}: the name is taken by an attribute of every model",
                remedy=f"write {name}_; it is still {name!r} on the wire",
            )


def _is_taken(cls: type[Model], name: str) -> bool:
    for base in cls.__mro__[1:]:
        if name in base.__dict__.get("__pydantic_fields__", ()):
            return False
        if name in base.__dict__:
            return True
    return False


def refuse_shared_wire_names(cls: type[Model]) -> None:
    """Refuse two fields that would be one on the wire.

    Raises:
        ResourceDefinitionError: Names the class, both fields and the remedy.
    """
    seen: dict[str, str] = {}
    for name, field in cls.model_fields.items():
        wire = field_wire_name(name, field)
        if wire in seen:
            raise ResourceDefinitionError(
                f"{cls.__name__}.{name}: {seen[wire]} is {wire!r} on the wire as well",
                remedy="rename one, or give it Field(wire_name=...)",
            )
        seen[wire] = name


def field_wire_name(name: str, field: FieldInfo) -> str:
    """The name of a model's field on the wire."""
    # The alias generator has not run yet where a forward reference is open.
    return field.serialization_alias or field.alias or wire_name(name)


def wire_form(model: Model, defaults: Defaults = "omitted") -> dict[str, Any]:
    """The model as JSON data.

    Args:
        model: The model; it is not changed.
        defaults: ``omitted`` leaves out what nobody set and is still the default; ``kept``
            writes every field, as a status needs it: in a merge patch an absent key would
            leave the old value. Inside lists, which patches replace whole, unset nulls are
            always left out.
    """
    return _settle_model(model, model.model_dump(mode="json", by_alias=True), defaults)


def _settle(value: Any, wire: Any, defaults: _Defaults) -> Any:
    """Correct pydantic's dump `wire` of `value`, both walked together."""
    if isinstance(value, Model):
        return _settle_model(value, wire, defaults)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()  # pydantic's is the URL-safe alphabet
    if isinstance(value, set | frozenset):
        return sorted(wire, key=repr)  # the order of a set changes from process to process
    if isinstance(value, list | tuple) and isinstance(wire, list):
        inner: _Defaults = "omitted" if defaults == "omitted" else "kept unless null"
        return [_settle(v, w, inner) for v, w in zip(value, wire, strict=True)]
    if isinstance(value, Mapping) and isinstance(wire, dict):
        pairs = zip(value.values(), wire.items(), strict=True)
        return {key: _settle(v, w, defaults) for v, (key, w) in pairs}
    return wire


def _settle_model(model: Model, wire: dict[str, Any], defaults: _Defaults) -> dict[str, Any]:
    settled = dict(wire)
    for name, field in type(model).model_fields.items():
        alias = field_wire_name(name, field)
        value = getattr(model, name)
        if _is_left_out(model, name, field, value, defaults):
            settled.pop(alias, None)
        elif alias in settled:
            settled[alias] = _settle(value, settled[alias], defaults)
    return settled


def _is_left_out(
    model: Model, name: str, field: FieldInfo, value: Any, defaults: _Defaults
) -> bool:
    if defaults == "kept" or name in model.model_fields_set:
        return False
    if defaults == "kept unless null":
        return value is None
    return _is_default(field, value)


def _is_default(field: FieldInfo, value: Any) -> bool:
    # Unset is not enough: a default list or model may have been changed in place.
    if field.is_required():
        return False
    return bool(value == field.get_default(call_default_factory=True, validated_data={}))
