"""`Model`: the base of everything with named fields that goes over the wire.

A thin layer on pydantic: snake_case in Python, camelCase on the wire, and fields that the
class doesn't know survive a round trip. `wire_form` is the one way from a model to JSON data:
it leaves out defaults that nobody set (`settle`), so that the API server's own stay in charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import pydantic

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.class_errors import class_error
from rws_operator.resources.model_checks import (
    refuse_look_around,
    refuse_shadowed_names,
    refuse_shared_wire_names,
)
from rws_operator.resources.rule import Rule, check_rules
from rws_operator.resources.settle import Defaults, is_settled_model, settle_model
from rws_operator.resources.wire_field import WireField


def wire_name(name: str) -> str:
    """The camelCase of a snake_case name; a trailing underscore is stripped.

    ``retention_days`` is ``retentionDays``, ``sha_256`` is ``sha256``, ``from_`` is ``from``;
    a name without an inner underscore, such as ``clusterIP``, stays as it is.
    """
    first, *others = [part for part in name.split("_") if part] or [name]
    return first + "".join(part[0].upper() + part[1:] for part in others)


if TYPE_CHECKING:
    # Type checkers look at the metaclass for what makes a field; pydantic's knows its own alone.
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic.fields import FieldInfo

    from rws_operator.resources.field import Field

    @dataclass_transform(kw_only_default=True, field_specifiers=(Field, pydantic.Field))
    class ModelType(ModelMetaclass):
        """pydantic's metaclass, for type checkers with our Field."""

else:
    ModelType = type(pydantic.BaseModel)


class Model(pydantic.BaseModel, metaclass=ModelType):
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
        # Errors reach logs, and a value may be a secret.
        hide_input_in_errors=True,
        # Made in our own hook, where an error of pydantic's can be told with the class's name.
        defer_build=True,
    )

    schema_rules: ClassVar[tuple[Rule, ...]] = ()
    schema_preserves_unknown: ClassVar[bool] = False
    schema_fields: ClassVar[tuple[WireField, ...]] = ()
    schema_fields_by_name: ClassVar[Mapping[str, WireField]] = {}
    schema_fields_by_alias: ClassVar[Mapping[str, WireField]] = {}
    schema_inner_fields: ClassVar[tuple[WireField, ...]] = ()
    schema_variable_fields: ClassVar[tuple[WireField, ...]] = ()
    schema_variable_names: ClassVar[frozenset[str]] = frozenset()

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
            refuse_look_around(cls)
            cls.schema_rules = check_rules(cls.__name__, rules)
            cls.schema_preserves_unknown = preserve_unknown

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        # pydantic hands our keywords to this hook again.
        super().__pydantic_init_subclass__()
        cls.schema_fields = tuple(
            WireField.of(name, field_wire_name(name, field), field)
            for name, field in cls.model_fields.items()
        )
        cls.schema_fields_by_name = {field.name: field for field in cls.schema_fields}
        cls.schema_fields_by_alias = {field.alias: field for field in cls.schema_fields}
        cls.schema_inner_fields = tuple(each for each in cls.schema_fields if not each.is_plain)
        cls.schema_variable_fields = tuple(each for each in cls.schema_fields if each.is_variable)
        cls.schema_variable_names = frozenset(each.name for each in cls.schema_variable_fields)
        refuse_shared_wire_names(cls)
        resolve(cls, wait=True)


def resolve(cls: type[Model], *, wait: bool = False) -> None:
    """Have pydantic make what reads and writes the model, if it has not yet.

    Args:
        cls: The model.
        wait: Leave it for later where a type is not defined yet.

    Raises:
        ResourceDefinitionError: pydantic can't; names the class, and the field where known.
    """
    if cls.__pydantic_complete__:
        return
    try:
        cls.model_rebuild(raise_errors=not wait)
    except ResourceDefinitionError:
        raise
    except Exception as error:
        raise class_error(cls.__name__, error) from error


def field_wire_name(name: str, field: FieldInfo) -> str:
    """The name of a model's field on the wire."""
    # The alias generator has not run yet where a forward reference is open.
    return field.serialization_alias or field.alias or wire_name(name)


def wire_form(
    model: Model,
    defaults: Defaults = "omitted",
    without: Mapping[str, set[str]] | None = None,
) -> dict[str, Any]:
    """The model as JSON data.

    Args:
        model: The model; it is not changed.
        defaults: ``omitted`` leaves out what nobody set and is still the default; ``kept``
            writes every field, as a status needs it: in a merge patch an absent key would
            leave the old value. Inside lists, which patches replace whole, unset nulls are
            always left out.
        without: Fields and, of each, the inner ones that are left out.
    """
    is_settled = defaults == "omitted" and is_settled_model(model)
    # pydantic warns of a value of another type, with the value; the API server will refuse it.
    wire = model.model_dump(
        mode="json", by_alias=True, exclude_unset=is_settled, exclude=without, warnings=False
    )
    return wire if is_settled else settle_model(model, wire, defaults)


def field_wire_form(cls: type[Model], name: str, value: Any) -> Any:
    """A value of one field of the class as JSON data.

    Raises:
        pydantic_core.PydanticSerializationError: It is not of the field's type.
    """
    made = cls.model_construct({name}, **{name: value})
    wire = made.model_dump(mode="json", by_alias=True, include={name}, warnings="error")
    return settle_model(made, wire, "omitted").popitem()[1]
