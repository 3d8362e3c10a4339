"""One more line in `app/__main__.py`: the import by which a module registers what it declares.

The file is the user's: all else stays as it is, to the byte, and where there is more than one place
that the line could go to, it is not put anywhere.
"""

from __future__ import annotations

import ast
import re


def with_import(source: bytes, module: str) -> bytes | None:
    """A program that imports a module, at its place among those that it imports already.

    Args:
        source: The program.
        module: The module's full name, e.g. ``app.backup``.

    Returns:
        The program with the line, the same if it imports the module already, None if the line has
        no clear place.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    if _imports(tree, module):
        return source
    package = module.partition(".")[0]
    lines = source.splitlines(keepends=True)
    at = _place([each for each in tree.body if _is_plain(each, package)], module, lines)
    if at is None:
        return None
    edited = _inserted(lines, at, f"import {module}".encode())
    return edited if _differs_by_one(tree, edited, module) else None


def _imports(tree: ast.Module, module: str) -> bool:
    package, _, name = module.rpartition(".")
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                found = any(each.name == module for each in names)
            case ast.ImportFrom(module=origin, names=names, level=0):
                found = origin == module or (
                    origin == package and any(each.name == name for each in names)
                )
            case ast.ImportFrom(module=None, names=names, level=1):
                found = any(each.name == name for each in names)
            case ast.ImportFrom(module=origin, level=1):
                found = origin == name
            case _:
                found = False
        if found:
            return True
    return False


def _is_plain(node: ast.stmt, package: str) -> bool:
    """Whether a statement is ``import package.module`` and nothing else."""
    match node:
        case ast.Import(names=[ast.alias(name=name, asname=None)]):
            return name.startswith(f"{package}.")
    return False


def _place(block: list[ast.stmt], module: str, lines: list[bytes]) -> int | None:
    """The index of the line before which the import goes, None if that is not clear."""
    keys = [_order(ast.unparse(each)) for each in block]
    if not block or keys != sorted(keys):
        return None
    before = [each for each, key in zip(block, keys, strict=True) if key < _order(module)]
    if before:
        return before[-1].end_lineno
    first = block[0].lineno - 1
    has_comment = first > 0 and lines[first - 1].lstrip().startswith(b"#")
    return None if has_comment else first  # of the block, or of the first of it?


def _order(statement: str) -> list[tuple[int, int | str]]:
    """As isort and ruff sort: numbers by their value, digits before letters."""
    name = statement.removeprefix("import ").lower()
    return [
        (1, int(part)) if part.isdecimal() else (0 if part == "." else 2, part)
        for part in re.findall(r"\d+|.", name)
    ]


def _inserted(lines: list[bytes], at: int, line: bytes) -> bytes:
    neighbour = lines[at - 1 if at else 0]
    end = neighbour[len(neighbour.rstrip(b"\r\n")) :]
    if at and not end:
        return b"".join([*lines, b"\n", line])
    return b"".join([*lines[:at], line, end or b"\n", *lines[at:]])


def _differs_by_one(tree: ast.Module, edited: bytes, module: str) -> bool:
    """Whether an edited program is the same but for the import."""
    try:
        after = ast.parse(edited)
    except SyntaxError:
        return False
    added = [each for each in after.body if ast.unparse(each) == f"import {module}"]
    rest = [ast.dump(each) for each in after.body if each not in added]
    return len(added) == 1 and rest == [ast.dump(each) for each in tree.body]
