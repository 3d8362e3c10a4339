"""Label selectors, checked as the API server checks them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rws_operator.errors import ConfigurationError
from rws_operator.manifests.names import check_qualified

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label by which the API server names each namespace."""

_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_FORM = '{"matchLabels": {KEY: VALUE}, "matchExpressions": [{"key", "operator", "values"}]}'
_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def check_selector(selector: Any, what: str) -> dict[str, Any]:
    """Return a copy of ``selector`` if it has a label selector's form.

    Raises:
        ConfigurationError: It has another.
    """
    if not isinstance(selector, Mapping):
        raise ConfigurationError(f"{what}={selector!r} is no label selector", remedy=f"use {_FORM}")
    unknown = set(selector) - {"matchLabels", "matchExpressions"}
    if unknown:
        raise ConfigurationError(
            f"{what}: {sorted(map(str, unknown))[0]!r} is no part of a label selector",
            remedy=f"use {_FORM}",
        )
    checked: dict[str, Any] = {}
    if "matchLabels" in selector:
        checked["matchLabels"] = _labels(selector["matchLabels"], f"{what}: matchLabels")
    if "matchExpressions" in selector:
        expressions = selector["matchExpressions"]
        if isinstance(expressions, str) or not isinstance(expressions, Sequence):
            raise ConfigurationError(
                f"{what}: matchExpressions={expressions!r} is no list", remedy=f"use {_FORM}"
            )
        checked["matchExpressions"] = [
            _expression(each, f"{what}: matchExpressions[{index}]")
            for index, each in enumerate(expressions)
        ]
    # An empty part says nothing, and the API server doesn't keep it.
    return {part: value for part, value in checked.items() if value}


def outside_namespace(selector: Mapping[str, Any] | None, namespace: str) -> dict[str, Any]:
    """Return a namespace selector that leaves out one namespace more."""
    merged: dict[str, Any] = dict(selector or {})
    exemption = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": [namespace]}
    merged["matchExpressions"] = [*merged.get("matchExpressions", ()), exemption]
    return merged


def _labels(labels: Any, what: str) -> dict[str, str]:
    if not isinstance(labels, Mapping):
        raise ConfigurationError(f"{what}={labels!r} is no mapping", remedy=f"use {_FORM}")
    return {_key(key, what): _value(value, f"{what}[{key!r}]") for key, value in labels.items()}


def _expression(expression: Any, what: str) -> dict[str, Any]:
    if not isinstance(expression, Mapping) or set(expression) - {"key", "operator", "values"}:
        raise ConfigurationError(f"{what}={expression!r}", remedy=f"use {_FORM}")
    operator, values = expression.get("operator"), expression.get("values")
    checked: dict[str, Any] = {"key": _key(expression.get("key"), what), "operator": operator}
    if operator in _WITHOUT_VALUES:
        if values:
            raise ConfigurationError(f"{what}: {operator} has values", remedy="leave them out")
    elif operator in _WITH_VALUES:
        if not values or isinstance(values, str) or not isinstance(values, Sequence):
            raise ConfigurationError(
                f"{what}: {operator} has values={values!r}", remedy="give a list of one or more"
            )
        checked["values"] = [_value(each, what) for each in values]
    else:
        raise ConfigurationError(
            f"{what}: operator {operator!r}",
            remedy=f"use one of {', '.join(_WITH_VALUES + _WITHOUT_VALUES)}",
        )
    return checked


def _key(key: Any, what: str) -> str:
    if not isinstance(key, str):
        raise ConfigurationError(f"{what}: key {key!r} is no text", remedy="name a label")
    return check_qualified(key, f"{what}: label")


def _value(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ConfigurationError(
            f"{what}: {value!r} is no label value",
            remedy="use at most 63 letters, digits, '-', '_' and '.', a letter or digit at each "
            "end; numbers and truth values as text",
        )
    return value
