"""What a declaration's arguments must look like, whoever takes them.

Bad input is refused where it is written: what the API server would refuse later, when nobody
looks, would be tried again for ever. Each error says where, what and the remedy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator.errors import ConfigurationError
from rws_operator.resources.names import check_label, check_qualified, is_subdomain

if TYPE_CHECKING:
    from collections.abc import Iterable

_E = TypeVar("_E")

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_KEY = rf"({_DOMAIN}/)?{_NAME}"
_VALUE = rf"({_NAME})?"
_VALUES = rf"\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)"
_LABEL_TERM = (
    rf"\s*(!\s*{_KEY}|{_KEY}"
    rf"(\s*(=|==|!=)\s*{_VALUE}|\s+(in|notin)\s*{_VALUES}|\s*[<>]\s*-?[0-9]+)?)\s*"
)
_FIELD_TERM = r"[^\s,=!]+(=|==|!=)([^,=\\]|\\.)*"

_is_name = re.compile(_NAME).fullmatch
_is_selector = {
    "label_selector": re.compile(rf"{_LABEL_TERM}(,{_LABEL_TERM})*").fullmatch,
    "field_selector": re.compile(rf"{_FIELD_TERM}(,{_FIELD_TERM})*").fullmatch,
}
_EXAMPLE = {"label_selector": "app=db,tier in (a, b)", "field_selector": "metadata.name=x"}


def as_tuple(what: str, given: Iterable[_E]) -> tuple[_E, ...]:
    """What an argument lists.

    Raises:
        ConfigurationError: It is no list; a string, a class or a value is one thing.
    """
    items = None
    if not isinstance(given, str):
        try:
            items = tuple(given)
        except TypeError:
            items = None
    if items is None:
        raise ConfigurationError(f"{what}={given!r}", remedy=f"pass a list: {what}=[...]")
    return items


def check_type(value: Any, kind: type, what: str, remedy: str) -> None:
    """Refuse what is not of a class."""
    if not isinstance(value, kind):
        raise ConfigurationError(f"{what}={value!r}", remedy=remedy)


def check_name(name: Any, where: str) -> None:
    """Refuse what can't label metrics and logs."""
    if not (isinstance(name, str) and _is_name(name)):
        raise ConfigurationError(
            f"{where}: {name!r} is no name",
            remedy="use up to 63 letters, digits, '-', '_' and '.', letters or digits at the ends",
        )


def check_reporter(reporter: Any, where: str) -> None:
    """Refuse what events.k8s.io takes for no reporting controller."""
    check_type(reporter, str, f"{where}: reporter", "pass a name as text")
    check_qualified(reporter, f"{where}: reporter")


def check_finalizer(name: Any, where: str) -> None:
    """Refuse a finalizer without a domain: Kubernetes deprecates it, and it may clash."""
    domain, _, last = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not (is_subdomain(domain) and _is_name(last)):
        raise ConfigurationError(
            f"{where}: finalizer {name!r} is no qualified name",
            remedy="use a domain of yours, a slash and a name, e.g. example.com/backup-data",
        )


def check_namespaces(namespaces: Iterable[str] | None, where: str) -> tuple[str, ...] | None:
    """The namespaces that an argument lists, None for all.

    Raises:
        ConfigurationError: It is no list, it is empty, or one can't be a namespace.
    """
    if namespaces is None:
        return None
    listed: tuple[Any, ...] = as_tuple("namespaces", namespaces)
    if not listed:
        raise ConfigurationError(
            f"{where}: namespaces is empty", remedy="leave it out to watch all namespaces"
        )
    for each in listed:
        check_type(each, str, f"{where}: namespaces item", "pass names as text")
        check_label(each, f"{where}: namespace")
    return listed


def check_selector(what: str, selector: Any, where: str) -> None:
    """Refuse a selector that no API server can read; None and "" select everything.

    Args:
        what: ``label_selector`` or ``field_selector``.
        selector: Its text.
        where: Whose it is.
    """
    if selector is None or selector == "":
        return
    if not (isinstance(selector, str) and _is_selector[what](selector)):
        raise ConfigurationError(
            f"{where}: {what}={selector!r} is no selector",
            remedy=f'write it as the API does, e.g. {what}="{_EXAMPLE[what]}"',
        )
