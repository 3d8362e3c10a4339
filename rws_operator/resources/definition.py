"""What a CustomResource class says about its resource: names, scope, columns, subresources.

Checked when the class is made, so that a wrong keyword fails the import and not a later
``kubectl apply``. Paths into the schema are checked in `rws_operator.resources.schema_path`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.kind import Kind
from rws_operator.resources.names import is_label, is_subdomain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.resources.rule import Rule

Scope = Literal["Namespaced", "Cluster"]
ColumnType = Literal["string", "integer", "number", "boolean", "date"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``.

    Args:
        name: The heading.
        path: JSON path from the object, as named on the wire, e.g. ``.spec.schedule``.
        type: None takes it from the schema.
        format: e.g. ``int32`` or ``date-time``; only shown by clients that know it.
        description: What the column holds.
        priority: 0 shows always, above only with ``-o wide``.
    """

    name: str
    path: str
    type: ColumnType | None = None
    format: str | None = None
    description: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource, for ``kubectl scale`` and autoscalers.

    Args:
        replicas: Path of the wanted number under spec.
        status_replicas: Path of the number that there is under status.
        selector: Path of the pods' label selector, as a string; autoscalers need it.
    """

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A CustomResource class's keywords, checked and completed."""

    kind: Kind
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    storage: bool
    served: bool
    deprecated: bool | str
    scale: Scale | None
    selectable_fields: tuple[str, ...]


_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_PROTECTED = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_KIND_LENGTH = 63 - len("List")
_COLUMN_FORMATS = {
    "int32", "int64", "float", "double", "byte", "date", "date-time", "password",
}  # fmt: skip
_WARNING_LENGTH = 256


def plural_of(word: str) -> str:
    """The English plural of a lower-case word, for resource names: ``policies``, ``boxes``."""
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|z|ch|sh)$", word) else f"{word}s"


def define(
    class_name: str,
    *,
    group: str | None,
    version: str | None,
    kind: str | None,
    plural: str | None,
    singular: str | None,
    short_names: Sequence[str],
    categories: Sequence[str],
    scope: str,
    columns: Sequence[Column],
    rules: Sequence[Rule],
    storage: bool,
    served: bool,
    deprecated: bool | str,
    scale: Scale | None,
    selectable_fields: Sequence[str],
) -> ResourceDefinition:
    """Check a class's keywords and fill in what follows from others.

    Raises:
        ResourceDefinitionError: Names the class, the keyword and the remedy.
    """
    check = _Check(class_name)
    kind = check.kind(class_name if kind is None else kind)
    plural = check.label("plural", plural_of(kind.lower()) if plural is None else plural)
    if scope not in get_args(Scope):
        check.refuse("scope", scope, "write 'Namespaced' or 'Cluster'")
    check.deprecation(deprecated)
    check.flags(storage=storage, served=served)
    check.columns(columns)
    check.scale(scale)
    for name, value in (
        ("short_names", short_names),
        ("categories", categories),
        ("selectable_fields", selectable_fields),
    ):
        if isinstance(value, str):
            check.refuse(name, value, f"write a list, [{value!r}]")
    return ResourceDefinition(
        kind=Kind(
            api_version=f"{check.group(group)}/{check.version(version)}",
            kind=kind,
            plural=plural,
            namespaced=scope == "Namespaced",
        ),
        singular=check.label("singular", kind.lower() if singular is None else singular),
        short_names=tuple(check.label("short_names", name) for name in short_names),
        categories=tuple(check.label("categories", name) for name in categories),
        columns=tuple(columns),
        rules=tuple(rules),
        storage=storage,
        served=served,
        deprecated=deprecated,
        scale=scale,
        selectable_fields=tuple(selectable_fields),
    )


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks of single keywords; each error names the class and the keyword."""

    class_name: str

    def refuse(self, keyword: str, value: object, remedy: str) -> NoReturn:
        raise ResourceDefinitionError(
            f"{self.class_name}: {keyword}={value!r} is not valid", remedy=remedy
        )

    def group(self, group: str | None) -> str:
        if group is None:
            raise ResourceDefinitionError(
                f"{self.class_name}: group is missing",
                remedy="add it to the class keywords, e.g. group='example.com'",
            )
        if not is_subdomain(group) or "." not in group:
            self.refuse("group", group, "use a domain name of your own, e.g. 'example.com'")
        if _PROTECTED.fullmatch(group):
            self.refuse("group", group, "*.k8s.io is kept for Kubernetes; use a domain of your own")
        return group

    def version(self, version: str | None) -> str:
        if version is None:
            raise ResourceDefinitionError(
                f"{self.class_name}: version is missing",
                remedy="add it to the class keywords, e.g. version='v1'",
            )
        return self.label("version", version)

    def kind(self, kind: str) -> str:
        if not _KIND.fullmatch(kind) or len(kind) > _KIND_LENGTH:
            self.refuse("kind", kind, f"use CamelCase letters and digits, at most {_KIND_LENGTH}")
        return kind

    def label(self, keyword: str, value: str) -> str:
        if not is_label(value) or not value[0].isalpha():
            self.refuse(
                keyword,
                value,
                "use lower-case letters, digits and dashes, from a letter, at most 63",
            )
        return value

    def deprecation(self, deprecated: object) -> None:
        if not isinstance(deprecated, bool | str):
            self.refuse("deprecated", deprecated, "write True, or the warning")
        if isinstance(deprecated, str) and not (
            0 < len(deprecated) <= _WARNING_LENGTH and deprecated.isprintable()
        ):
            self.refuse("deprecated", deprecated, "write one line of at most 256 characters")

    def scale(self, scale: object) -> None:
        if scale is not None and not isinstance(scale, Scale):
            self.refuse("scale", scale, "write Scale()")

    def flags(self, **flags: object) -> None:
        for keyword, value in flags.items():
            if not isinstance(value, bool):
                self.refuse(keyword, value, "write True or False")

    def columns(self, columns: Sequence[object]) -> None:
        if not isinstance(columns, list | tuple):
            self.refuse("columns", columns, "write a list of Column")
        for column in columns:
            if not isinstance(column, Column):
                self.refuse("columns", column, "write Column('Name', '.spec.field')")
            if not column.name:
                self.refuse("columns", column, "give it a name")
            if column.type not in (None, *get_args(ColumnType)):
                self.refuse("columns", column, f"types are {', '.join(get_args(ColumnType))}")
            if column.format not in (None, *_COLUMN_FORMATS):
                self.refuse("columns", column, f"formats are {', '.join(sorted(_COLUMN_FORMATS))}")
