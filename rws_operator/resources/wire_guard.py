"""What would change a model's wire form behind the schema's back, refused in one place.

The schema is made from names, types and bounds. A serializer, an excluded field or a second
alias makes objects that differ from it: they would be pruned, refused or lost without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic

from rws_operator.resources.model import Model, field_wire_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.resources.place import Place

_SERIALIZERS = (pydantic.PlainSerializer, pydantic.WrapSerializer)
_ENCODINGS = (pydantic.EncodedBytes, pydantic.EncodedStr)
_CONFIGURATION = ("str_", "ser_json_", "val_json_", "json_encoders")


def refuse_hidden_forms(cls: type[Model], place: Place) -> None:
    """Refuse what of a model the schema can't tell.

    Raises:
        ResourceDefinitionError: Names the place, the field and the remedy.
    """
    _refuse_decorators(cls, place)
    for key, value in cls.model_config.items():
        if key.startswith(_CONFIGURATION) and value and value != Model.model_config.get(key):
            place.refuse(
                f"{cls.__name__}.model_config has {key!r}, which the schema can't hold",
                "remove it; constrain the fields, e.g. Field(max_length=...)",
            )
    for name, field in cls.model_fields.items():
        inner = place.inner(f".{name}")
        if field.exclude or field.exclude_if is not None:
            inner.refuse("an excluded field is never sent", "make it a private attribute, _name")
        if "" in (field.alias, field.serialization_alias):
            inner.refuse("its name on the wire is empty", "give it a wire_name, or none")
        if field.validation_alias not in (None, field_wire_name(name, field)):
            inner.refuse("it is read under another name than it is written", "use wire_name=")


def _refuse_decorators(cls: type[Model], place: Place) -> None:
    decorators = cls.__pydantic_decorators__
    for name in decorators.computed_fields:
        place.inner(f".{name}").refuse(
            "a computed field would be sent and pruned", "make it a plain property"
        )
    for name in (*decorators.field_serializers, *decorators.model_serializers):
        place.refuse(
            f"the serializer {cls.__name__}.{name} writes what the schema doesn't tell",
            "remove it, and give the field the type that is on the wire",
        )


def refuse_hidden_encodings(metadata: Sequence[Any], place: Place) -> None:
    """Refuse serializers and encodings that stand beside a type.

    Raises:
        ResourceDefinitionError: Names the place and the remedy.
    """
    for each in metadata:
        if isinstance(each, _ENCODINGS):
            place.refuse("an encoding within the field's own", "use bytes, which is base64")
        if isinstance(each, _SERIALIZERS):
            place.refuse(
                "its serializer writes what the schema doesn't tell",
                "remove it, or say what it writes with WithJsonSchema",
            )
