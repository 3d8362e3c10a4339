"""What the starters' templates compute: a Jinja extension, named in their cookiecutter.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from jinja2.ext import Extension

from rws_operator.project.names import class_of, kind_of_project, module_of, plural_of_kind
from rws_operator.project.origin import default_origin, requirement_of

if TYPE_CHECKING:
    from jinja2 import Environment


class StarterFilters(Extension):
    """Filters for names that follow from others, and for what is to be quoted."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.filters.update(
            class_of=class_of,
            kind_of_project=kind_of_project,
            module_of=module_of,
            plural_of=plural_of_kind,
            in_quotes=in_quotes,
            requirement=requirement_of,
        )
        cast("dict[str, Any]", environment.globals)["default_origin"] = default_origin


def in_quotes(text: str) -> str:
    """A text between double quotes, as TOML, YAML and Python read it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
