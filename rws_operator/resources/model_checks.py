"""What a model's class must not hold, refused while the class is made.

`model` asks at each class statement: pydantic would take these fields, or refuse them in words that
name neither the field nor the remedy. Invariant: no field hides what every model has, and no two
are one on the wire.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic.fields import FieldInfo

from rws_operator.errors import ResourceDefinitionError

if TYPE_CHECKING:
    from rws_operator.resources.model import Model

_LOOK_AROUND = re.compile(r"\(\?<?[=!]|\\[1-9]")


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


def refuse_look_around(cls: type[Model]) -> None:
    """Refuse a pattern that neither pydantic nor the API server can match; run before pydantic's.

    Raises:
        ResourceDefinitionError: Names the class, the field and the remedy.
    """
    for name, field in vars(cls).items():
        for constraint in field.metadata if isinstance(field, FieldInfo) else ():
            pattern = getattr(constraint, "pattern", None)
            if isinstance(pattern, str) and _LOOK_AROUND.search(pattern):
                raise ResourceDefinitionError(
                    f"{cls.__name__}.{name}: the pattern {pattern!r} looks around or back",
                    remedy="write it without, or use a Rule with two self.matches(...)",
                )


def refuse_shared_wire_names(cls: type[Model]) -> None:
    """Refuse two fields that would be one on the wire.

    Raises:
        ResourceDefinitionError: Names the class, both fields and the remedy.
    """
    seen: dict[str, str] = {}
    for field in cls.schema_fields:
        if field.alias in seen:
            raise ResourceDefinitionError(
                f"{cls.__name__}.{field.name}: {seen[field.alias]} is {field.alias!r} on the wire "
                "as well",
                remedy="rename one, or give it Field(wire_name=...)",
            )
        seen[field.alias] = field.name


def _is_taken(cls: type[Model], name: str) -> bool:
    for base in cls.__mro__[1:]:
        if name in base.__dict__.get("__pydantic_fields__", ()):
            return False
        if name in base.__dict__:
            return True
    return False
