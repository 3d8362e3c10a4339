"""What the tests of triggers and mappings share: kinds, and records without a server."""

from __future__ import annotations

import json
from typing import Any

from rws_operator.resources import Kind, kinds
from rws_operator.resources.record import ObjectRecord, decode_record

WIDGET = Kind("example.com/v1", "Widget", "widgets")
CLUSTER_WIDGET = Kind("example.com/v1", "Widget", "widgets", namespaced=False)


def record(name: str = "a", namespace: str | None = "ns", **metadata: Any) -> ObjectRecord:
    """A record as the cache has it."""
    given = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"} | metadata
    wire = {"apiVersion": "v1", "kind": "Secret", "metadata": given}
    return decode_record(json.dumps(wire).encode(), kinds.Secret)
