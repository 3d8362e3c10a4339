"""The kinds of Prometheus' operator, as far as the manifests use them.

Schemas of our own: the real ones are too large to be kept here, and can't be fetched by a test.
They hold the fields that are written and no others, so a field that is misspelt is refused; names
and types were compared with the real ones, and the same documents applied to these by hand.
"""

from __future__ import annotations

from typing import Any

from rws_operator.manifests.monitoring import PROMETHEUS_RULE, SERVICE_MONITOR

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_DURATION = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h|d|w|y))+$"}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | (
        {"required": list(required)} if required else {}
    )


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_MONITOR = _object(
    ("endpoints", "selector"),
    selector=_object(matchLabels=_TEXTS),
    endpoints=_list(_object(port=_TEXT, path=_TEXT, interval=_DURATION, scrapeTimeout=_DURATION)),
)
_ALERT = {
    "alert": _TEXT,
    "expr": {"x-kubernetes-int-or-string": True},
    "for": _DURATION,
    "labels": _TEXTS,
    "annotations": _TEXTS,
}
_RULE = _object(
    groups=_list(
        _object(
            ("name",),
            name={"type": "string", "minLength": 1},
            rules=_list(_object(("expr",), **_ALERT)),
        )
    )
)


def monitoring_crds() -> list[dict[str, Any]]:
    """The CRDs of ServiceMonitor and PrometheusRule."""
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.resource},
            "spec": {
                "group": kind.group,
                "scope": "Namespaced",
                "names": {
                    "kind": kind.kind,
                    "listKind": f"{kind.kind}List",
                    "plural": kind.plural,
                    "singular": kind.kind.lower(),
                },
                "versions": [
                    {
                        "name": kind.version,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": _object(("spec",), spec=spec)},
                    }
                ],
            },
        }
        for kind, spec in ((SERVICE_MONITOR, _MONITOR), (PROMETHEUS_RULE, _RULE))
    ]
