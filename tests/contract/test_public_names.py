"""What the package promises by name, and what its documents say, is there."""

from __future__ import annotations

import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

import rws_operator
import rws_operator.client
import rws_operator.election
import rws_operator.errors
import rws_operator.manifests
import rws_operator.testing

ROOT = Path(__file__).parent.parent.parent
DESIGN = [
    "Action",
    "AdmissionRequest",
    "BlockingContext",
    "Column",
    "Condition",
    "Context",
    "Controller",
    "CustomResource",
    "Denied",
    "Field",
    "LeaderElector",
    "Model",
    "Operator",
    "PermanentError",
    "PolicyRule",
    "RetryAfter",
    "Rule",
    "Runnable",
    "Watch",
    "WebhookCertificate",
    "Webhooks",
    "backoff",
    "current_namespace",
    "identity",
    "kinds",
    "metrics_text",
]

FAULT_KIT = [
    "AuditEntry",
    "AuditLog",
    "ControlPlane",
    "EtcdSnapshot",
    "Fault",
    "Gate",
    "GateRequest",
    "Hold",
    "OffsetClock",
    "OperatorAccount",
]


@pytest.mark.parametrize(
    "module",
    [
        rws_operator,
        rws_operator.client,
        rws_operator.election,
        rws_operator.manifests,
        rws_operator.testing,
    ],
)
def test_what_is_exported_is_all_and_sorted(module: Any) -> None:
    """`__all__` is sorted, holds nothing twice, and misses no public name that is not a module."""
    names = list(module.__all__)
    assert names == sorted(set(names))
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public - {"annotations"} <= set(names)
    assert all(hasattr(module, name) for name in names)


def test_the_names_that_operators_are_written_with_are_exported() -> None:
    """Nobody needs to know in which module a name lives."""
    assert set(DESIGN) <= set(rws_operator.__all__)


def test_the_fault_kit_is_exported() -> None:
    """What tests of faults are written with is had from one place."""
    assert set(FAULT_KIT) <= set(rws_operator.testing.__all__)


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module in (rws_operator, rws_operator.testing) for name in module.__all__],
)
def test_each_public_name_is_explained(module: Any, name: str) -> None:
    """Each class and function, and each of its public methods, has a docstring."""
    value = getattr(module, name)
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return
    undocumented = [] if inspect.getdoc(value) else [name]
    if inspect.isclass(value):
        undocumented += [
            f"{name}.{method}"
            for method, function in vars(value).items()
            if not method.startswith("_")
            and inspect.isfunction(function)
            and not inspect.getdoc(function)
        ]
    assert undocumented == []


def test_every_error_is_one_of_ours() -> None:
    """One `except OperatorError` catches all that the runtime raises."""
    errors = [
        value
        for value in vars(rws_operator.errors).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert len(errors) > 20
    assert all(issubclass(error, rws_operator.OperatorError) for error in errors)


def test_the_architecture_names_files_that_exist() -> None:
    """The page is true: each file and folder it points to is there."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    table = [line for line in page.splitlines() if line.startswith("|")]
    paths = re.findall(r"`([a-z_/]+(?:\.py|/))`", "\n".join(table))
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / "rws_operator" / path).exists()] == []


def test_the_first_page_links_to_files_that_exist() -> None:
    """Its code is run by tests/test_readme.py."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
