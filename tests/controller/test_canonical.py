"""Quantities in the server's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rws_operator.controller.canonical import canonical_quantity
from rws_operator.resources import kinds

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster, TestNamespace

FORMS = [
    *("0", "1", "10", "1000", "1500", "100000", "1000m", "1500m", "0.5", "1.5", ".5", "12"),
    *("1k", "1000k", "1.5M", "2500M", "1G", "3T", "1P", "1E", "0.001", "0.0010"),
    *("1Ki", "1023Ki", "1024Ki", "0.5Ki", "512Mi", "1024Mi", "0.5Gi", "1.5Gi", "1536Mi", "2Ti"),
    *("1073741824", "0Ki", "0m", "1.0", "1Ei", "7.5Ei"),
]


async def test_canonical_form_is_the_servers(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Each form is written as the API server writes it."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "forms", "namespace": namespace.name},
        "spec": {
            "limits": [
                {"type": f"example.com/T{i}", "max": {"example.com/q": form}}
                for i, form in enumerate(FORMS)
            ]
        },
    }
    created = await cluster.client.create(limits, kind=kinds.LimitRange)
    written = [each["max"]["example.com/q"] for each in created["spec"]["limits"]]
    assert dict(zip(FORMS, map(canonical_quantity, FORMS), strict=True)) == dict(
        zip(FORMS, written, strict=True)
    )


@pytest.mark.parametrize(
    "form",
    [
        "1e3",
        "1E3",
        "100n",
        "0.1m",
        "10E",
        "9" * 20,
        "x",
        "1 Gi",
        "",
        "1.5ki",
        "5.",
        "012",
        "+2",
        "-",
    ],
)
def test_uncertain_form_is_not_guessed(form: str) -> None:
    """What the server rounds, caps or refuses has no certain form."""
    assert canonical_quantity(form) is None


def test_suffix_family_is_kept() -> None:
    """Equal amounts of different suffixes stay different texts."""
    assert canonical_quantity("1Gi") != canonical_quantity("1073741824")
