"""Documents as a YAML stream that kubectl, and a person, can read.

The same documents always give the same text. What YAML readers disagree about is quoted: Go's
reader takes ``y``, ``1e3`` and ``0o17`` for something other than text where Python's does not.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
"""What one reader takes for a line's end, and another for text."""
_AMBIGUOUS = re.compile(r"[yYnN]|[-+.]*[0-9][-+0-9a-fA-F_.:oOxXeE]*")


class _Dumper(yaml.SafeDumper):
    """Block style, no anchors, lists indented under their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _AMBIGUOUS.fullmatch(text) or _BREAKS.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Write documents as one YAML stream, each after a ``---`` line, keys in the given order."""
    return "".join(
        "---\n"
        + yaml.dump(
            dict(document),
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=False,
            width=100,
        )
        for document in documents
    )


def print_on_request(
    documents: Callable[[], Iterable[Mapping[str, Any]]], argv: Sequence[str] | None = None
) -> None:
    """Print the documents and exit 0 if ``--manifests`` stands on the command line.

    Otherwise nothing happens, and ``documents`` is not called.

    Args:
        documents: Makes the documents.
        argv: Arguments without the program's name; by default those of the process.
    """
    if "--manifests" in (sys.argv[1:] if argv is None else argv):
        sys.stdout.write(to_yaml(documents()))
        sys.stdout.flush()
        raise SystemExit(0)
