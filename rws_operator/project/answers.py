"""What may be answered to a starter's questions, and why not if not.

Invariant: what passes is taken by Kubernetes, Python and pip; what is refused is refused for a
reason that is told, and before anything is written.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError, ResourceDefinitionError
from rws_operator.project.names import LENGTH, class_of, is_usable_module, plural_of_kind
from rws_operator.project.origin import requirement_of, runtime_packages
from rws_operator.resources import CustomResource, kinds
from rws_operator.resources.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_MODULE = re.compile(r"[a-z][a-z0-9_]*")
_OWN_NAMESPACES = re.compile(r"default|kube-.*")
_PATH_WORDS = frozenset({"namespaces", "watch", "proxy"})
_DESCRIPTION_LENGTH = 300
_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line and paragraph ends

_BUILT_IN = {kind.kind: kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


def check_answer(question: str, answer: str, others: Mapping[str, str]) -> str:
    """Return what an answer comes to.

    Args:
        question: Which question of a starter.
        answer: What was typed.
        others: The answers so far.

    Raises:
        ConfigurationError: It can't be used; says why, and what to write instead.
    """
    return _CHECKS[question](answer.strip(), others)


def check_answers(answers: Mapping[str, str]) -> None:
    """Check all answers that there are.

    Raises:
        ConfigurationError: One can't be used.
    """
    for question in (each for each in _CHECKS if each in answers):
        check_answer(question, answers[question], answers)


def _name(name: str, _: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"name {name!r} can't name a Service",
            remedy="use at most 63 of a-z, 0-9 and '-', from a letter to a letter or digit",
        )
    if _OWN_NAMESPACES.fullmatch(name):
        raise ConfigurationError(
            f"name {name!r} is a namespace of the cluster's own",
            remedy="the operator's namespace is named after it: choose another, e.g. my-operator",
        )
    if name in runtime_packages():
        raise ConfigurationError(
            f"name {name!r} is a package that the operator needs",
            remedy="pip can't have two of one name: choose another, e.g. my-operator",
        )
    return name


def _group(group: str, _: Mapping[str, str]) -> str:
    return _defined("group", group, kind="Any", group=group)


def _kind(kind: str, others: Mapping[str, str]) -> str:
    _defined("kind", kind, kind=kind, group=others.get("group", "example.com"))
    if built_in := _BUILT_IN.get(kind):
        raise ConfigurationError(
            f"kind {kind!r}: kubectl takes {kind.lower()} for the built-in {built_in.resource}",
            remedy="choose a kind of your own",
        )
    return kind


def _plural(plural: str, others: Mapping[str, str]) -> str:
    kind, group = others.get("kind", "Any"), others.get("group", "example.com")
    plural = _defined("plural", plural or plural_of_kind(kind), kind=kind, group=group)
    if plural in _PATH_WORDS:
        raise ConfigurationError(
            f"plural {plural!r} means something else in the API server's paths",
            remedy="choose another",
        )
    for built_in in _BUILT_IN.values():
        if plural in (built_in.plural, built_in.kind.lower()):
            raise ConfigurationError(
                f"plural {plural!r}: kubectl takes it for the built-in {built_in.resource}",
                remedy="choose another, or another kind",
            )
    if len(f"{plural}.{group}") > 253:
        raise ConfigurationError(
            f"plural and group, {plural}.{group}, are longer than the 253 characters of a name",
            remedy="choose a shorter group",
        )
    return plural


def _defined(question: str, answer: str, *, kind: str, group: str) -> str:
    """An answer that a CustomResource can be defined with."""
    plural = {"plural": answer} if question == "plural" else {}
    try:
        type(class_of(kind), (CustomResource,), {}, group=group, version="v1", kind=kind, **plural)
    except ResourceDefinitionError as error:
        raise ConfigurationError(
            f"{question} {answer!r} can't be used", remedy=error.remedy
        ) from error
    return answer


def _module(module: str, _: Mapping[str, str]) -> str:
    if not _MODULE.fullmatch(module) or len(module) > LENGTH:
        raise ConfigurationError(
            f"module {module!r} is no name of a Python module",
            remedy=f"use at most {LENGTH} of a-z, 0-9 and '_', from a letter",
        )
    if not is_usable_module(module):
        raise ConfigurationError(
            f"module {module!r} is a word of Python's, or would hide a module of its library",
            remedy=f"choose another, e.g. {module}_resource",
        )
    return module


def _description(description: str, _: Mapping[str, str]) -> str:
    if not 0 < len(description) <= _DESCRIPTION_LENGTH:
        raise ConfigurationError(
            f"the description has {len(description)} characters",
            remedy=f"say in 1 to {_DESCRIPTION_LENGTH} what the operator does",
        )
    for character in description:
        if unicodedata.category(character) in _UNWRITABLE:
            raise ConfigurationError(
                f"the description holds {character!r}", remedy="write one line of plain text"
            )
    return description


def _runtime(origin: str, _: Mapping[str, str]) -> str:
    requirement_of(origin)
    return origin


_CHECKS: dict[str, Callable[[str, Mapping[str, str]], str]] = {
    "name": _name,
    "group": _group,
    "kind": _kind,
    "plural": _plural,
    "module": _module,
    "description": _description,
    "runtime": _runtime,
}
