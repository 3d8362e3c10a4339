"""The default of a field as it stands in the schema, checked as the API server checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import pydantic
from pydantic_core import PydanticSerializationError, PydanticUndefined

from rws_operator.resources.model import Model, field_wire_form
from rws_operator.resources.schema_fault import schema_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

    from rws_operator.resources.place import Place

_CONSTANT = "the API server's default is a constant; set the value in a mutating webhook"


def default_of(cls: type[Model], name: str, schema: Mapping[str, Any], place: Place) -> Any:
    """The field's default as JSON data, None where there is none to be written.

    Args:
        cls: The field's model.
        name: The field's name in Python.
        schema: The field's schema.
        place: The field's place.

    Raises:
        ResourceDefinitionError: It is no constant, or fits the type or the schema not.
    """
    field = cls.model_fields[name]
    value = _value(field, place)
    if value is None or value is PydanticUndefined:
        return None
    wire = _written(cls, name, value, place)
    fault = schema_fault(schema, wire)
    if fault is not None:
        place.refuse(
            f"the default {value!r} does not fit its own field", f"change one of them ({fault})"
        )
    return wire


def _value(field: FieldInfo, place: Place) -> Any:
    if field.default_factory_takes_validated_data:
        place.refuse("its default_factory depends on other fields", _CONSTANT)
    try:
        value = field.get_default(call_default_factory=True)
        again = field.get_default(call_default_factory=True)
    except Exception as error:  # it is the author's code
        place.refuse(
            f"its default_factory raises {type(error).__name__}: {error}",
            "let it return the default",
        )
    if field.default_factory is not None and value != again:
        place.refuse("its default_factory makes another value each time", _CONSTANT)
    return value


def _written(cls: type[Model], name: str, value: Any, place: Place) -> Any:
    field = cls.model_fields[name]
    annotated: Any = field.annotation
    if field.metadata:
        annotated = cast("Any", Annotated)[(annotated, *field.metadata)]
    try:
        pydantic.TypeAdapter(annotated).validate_python(value)
        return field_wire_form(cls, name, value)
    except pydantic.ValidationError as error:
        said = error.errors(include_url=False, include_context=False)[0]["msg"]
    except PydanticSerializationError as error:
        said = str(error).splitlines()[-1].strip()
    except Exception as error:  # it is a validator of the author's, or a type pydantic can't make
        said = f"{type(error).__name__}: {error}"
    return place.refuse(
        f"the default {value!r} does not fit its own field", f"change one of them ({said})"
    )
