"""What went wrong while a class was made, told in this package's own error.

pydantic, and Python itself, raise errors that name neither the class nor the field. Every one
that a class statement can end with passes through here.
"""

from __future__ import annotations

import re

import pydantic

from rws_operator.errors import ResourceDefinitionError

_FIELD = re.compile(r'Field "([^"]+)"')
_REMEDIES = {
    "regex": "write a pattern that the engines of Rust and Go both take: without look-around, "
    "back-reference and \\Z",
    "multiple_of": "give a multiple_of above 0",
    "negative": "give a length of 0 or more",
    "coercible": "give a whole number within 64 bits",
}


def class_error(class_name: str, error: Exception) -> ResourceDefinitionError:
    """The error to raise instead of one that a class, or its schema, could not be made for."""
    if isinstance(error, RecursionError):
        return ResourceDefinitionError(
            f"{class_name}: one of its types contains itself",
            remedy="a schema can't recurse; make it dict[str, Any], which keeps unknown fields",
        )
    if isinstance(error, pydantic.errors.PydanticUndefinedAnnotation):
        return ResourceDefinitionError(
            f"{class_name}: the type {error.name!r} of one of its fields is not defined",
            remedy="define or import it at the module's top level",
        )
    text = error.message if isinstance(error, pydantic.PydanticUserError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    fields = _FIELD.findall(text)
    said = lines[-1] if fields else lines[0]
    said = said.removeprefix("SchemaError: ")
    remedy = next((r for word, r in _REMEDIES.items() if word in text), "change the field")
    where = f"{class_name}.{fields[-1]}" if fields else class_name
    return ResourceDefinitionError(f"{where}: it can't be made: {said}", remedy=remedy)
