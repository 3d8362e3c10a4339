"""What a test says to the fault kit is checked when it says it.

A selector that nothing can meet would let a test pass that harms nothing.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from rws_operator.errors import ConfigurationError

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def check_selectors(chosen: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse selectors that nothing can meet.

    Raises:
        ConfigurationError: A name, a type or a verb is wrong; says which, and what is known.
    """
    for key, value in chosen.items():
        if key not in known:
            _refuse(f"there is no selector {key}={value!r}", f"use {', '.join(known)}")
        if key == "verb":
            _check_verbs(value)
        elif key == "where":
            check_function(key, value)
        elif not isinstance(value, str):
            _refuse(f"selector {key}={value!r}", "pass a text, or leave it out to choose all")
    _check_resource(chosen.get("resource", ""))


def check_one_of(what: str, value: object, known: Collection[str]) -> None:
    """Refuse what is not among the known texts."""
    if value not in known:
        _refuse(f"{what}={value!r}", f"use one of {', '.join(known)}")


def check_status(status: object) -> None:
    """Refuse what is no HTTP status."""
    if type(status) is not int or not 100 <= status <= 599:
        _refuse(f"status={status!r}", "use a whole number from 100 to 599")


def check_number(what: str, value: Any, *, zero: bool) -> None:
    """Refuse what is no number, is negative, or is 0 where that means nothing."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value < 0 or (value == 0 and not zero):
        _refuse(f"{what}={value!r}", f"use a number {'of 0 or more' if zero else 'above 0'}")


def check_type(what: str, value: Any, kind: type | tuple[type, ...], remedy: str) -> None:
    """Refuse what is of another type."""
    if not isinstance(value, kind):
        _refuse(f"{what}: {value!r}", remedy)


def check_function(what: str, value: object) -> None:
    """Refuse what can't be called."""
    if not callable(value):
        _refuse(f"{what}={value!r}", "pass a function")


def path_of(given: object, of: str, remedy: str) -> Path:
    """Return a path that was given as such, or as text.

    Raises:
        ConfigurationError: Something else was given, such as what has the path.
    """
    if not isinstance(given, (str, os.PathLike)):
        _refuse(f"{of} takes a path, not {given!r}", remedy)
    return Path(given)


def _check_verbs(value: object) -> None:
    verbs = [value] if isinstance(value, str) else value
    if not isinstance(verbs, Collection) or not verbs:
        _refuse(f"selector verb={value!r}", "pass one verb or several")
    for verb in verbs:
        check_one_of("selector verb", verb, VERBS)


def _check_resource(resource: str) -> None:
    plural, slash, subresource = resource.partition("/")
    if slash:
        _refuse(f"selector {resource=}", f"use resource={plural!r}, {subresource=}")
    if "." in resource or resource != resource.lower():
        _refuse(f"selector resource={resource!r}", "use the plural alone, such as 'widgets'")


def _refuse(what: str, remedy: str) -> NoReturn:
    raise ConfigurationError(what, remedy=remedy)
