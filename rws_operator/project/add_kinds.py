"""The kinds that a project defines, as its source says: nothing of the user's is run for it.

A class with the keywords `group` and `version` is one. What is no plain text there, nor a constant
of the same module, counts as not known.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.project.names import plural_of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WEBHOOKS = frozenset({"mutate", "validate"})


@dataclass(frozen=True, slots=True)
class DefinedKind:
    """A kind, or one version of it.

    Attributes:
        kind: Its name.
        class_name: The class that defines it.
        group: Its API group; None if the source does not say it plainly.
        plural: Its plural.
        short_names: Its short names.
        path: Where it is defined, e.g. ``app/backup.py``.
        is_stored: Whether it is the version that objects are stored in.
    """

    kind: str
    class_name: str
    group: str | None
    plural: str
    short_names: frozenset[str]
    path: str
    is_stored: bool

    @property
    def names(self) -> frozenset[str]:
        """What kubectl and the API server know it by."""
        return self.short_names | names_of(self.kind, self.plural)


def names_of(kind: str, plural: str) -> frozenset[str]:
    """What kubectl and the API server know a kind by, its list included."""
    return frozenset({plural, kind.lower(), f"{kind.lower()}list"})


def kinds_in(tree: ast.Module, path: str) -> Iterator[DefinedKind]:
    """The kinds that a module defines, in order."""
    constants = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        if not keywords.keys() >= {"group", "version"}:
            continue
        texts = {key: _text(value, constants) for key, value in keywords.items()}
        kind = texts.get("kind") or node.name
        yield DefinedKind(
            kind=kind,
            class_name=node.name,
            group=texts["group"],
            plural=texts.get("plural") or plural_of_kind(kind),
            short_names=_texts(keywords.get("short_names"), constants),
            path=path,
            is_stored=not _is_false(keywords.get("storage")),
        )


def webhooks_in(tree: ast.Module) -> frozenset[str]:
    """The classes that a module declares admission webhooks of."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr=called),
                args=[ast.Name(id=name) | ast.Attribute(attr=name), *_],
            ) if called in _WEBHOOKS:
                found.add(name)
    return frozenset(found)


def bound_in(tree: ast.Module) -> frozenset[str]:
    """The names that a module binds at its top level."""
    return frozenset(name for node in tree.body for name in _bound(node))


def fields_in(tree: ast.Module) -> frozenset[str]:
    """The names of the fields that a module's classes declare."""
    return frozenset(
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [each.asname or each.name.partition(".")[0] for each in names]
    return [
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]


def _constants(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                found[name] = text
    return found


def _text(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name)
    return None


def _texts(node: ast.expr | None, constants: Mapping[str, str]) -> frozenset[str]:
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return frozenset(filter(None, (_text(each, constants) for each in items)))
    return frozenset()


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
