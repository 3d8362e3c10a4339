"""Where in a class the walk to its schema is, for errors and for what depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from rws_operator.errors import ResourceDefinitionError


@dataclass(frozen=True, slots=True)
class Place:
    """A step of the walk: the class it began at and the path from there."""

    class_name: str
    path: str = ""
    in_status: bool = False
    open_models: tuple[type, ...] = ()

    def inner(self, step: str) -> Place:
        """The place one step further in."""
        return replace(self, path=self.path + step)

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """Raise the error that names this place."""
        raise ResourceDefinitionError(f"{self.class_name}{self.path}: {what}", remedy=remedy)
