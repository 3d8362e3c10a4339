"""Names that follow from other names: a kind from a project's, a module and a class from a kind's.

What Kubernetes and Python each take is not the same: a kind `Class` or `Model` is legal, and a
module `class.py` or a class `Model` beside the runtime's own is not. Invariant: for every legal
kind there is a module and a class that Python takes.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys

import rws_operator
from rws_operator import testing
from rws_operator.resources.definition import plural_of

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ROLES = re.compile(r"-(operator|controller)$")
_SUFFIX = "Resource"

LENGTH = 63
"""How long a module's name may be: a line that imports from it has 100 characters."""

TAKEN_CLASSES = frozenset({*dir(builtins), *rws_operator.__all__, *testing.__all__, "Any"})
"""What a starter's modules import or may use beside the classes of a kind."""


def kind_of_project(project: str) -> str:
    """The kind that a project's name suggests: ``backup-job-operator`` is for a ``BackupJob``."""
    return "".join(part[:1].upper() + part[1:] for part in _ROLES.sub("", project).split("-"))


def plural_of_kind(kind: str) -> str:
    """The plural of a kind, where nothing else is said."""
    return plural_of(kind.lower())


def module_of(kind: str) -> str:
    """The module in which a kind is defined: ``http_probe`` of ``HTTPProbe``."""
    module = _WORDS.sub("_", kind).lower()[:LENGTH].rstrip("_")
    return module if is_usable_module(module) else f"{module}_{_SUFFIX.lower()}"


def is_usable_module(module: str) -> bool:
    """Whether a module of that name can be imported, and hides none of Python's own."""
    return not keyword.iskeyword(module) and module not in sys.stdlib_module_names


def class_of(kind: str) -> str:
    """The class of a kind: the kind itself, unless that means something already."""
    return f"{kind}{_SUFFIX}" if kind in TAKEN_CLASSES else kind
