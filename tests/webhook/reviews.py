"""Reviews as the API server sends them, for tests that need no API server."""

from __future__ import annotations

import base64
import json
from typing import Any


def review(obj: dict[str, Any] | None = None, **request: Any) -> bytes:
    """An AdmissionReview of an object; keywords are fields of its request."""
    some = obj or request.get("oldObject") or {"kind": "Thing"}
    group, _, version = some.get("apiVersion", "v1").rpartition("/")
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "6f1a",
                "kind": {"group": group, "version": version, "kind": some["kind"]},
                "resource": {"group": group, "version": version, "resource": "things"},
                "operation": "CREATE",
                "name": some.get("metadata", {}).get("name", ""),
                "namespace": "default",
                "userInfo": {"username": "jane", "groups": ["dev"]},
                "object": obj,
                "oldObject": None,
                "dryRun": False,
                "options": {"kind": "CreateOptions"},
            }
            | request,
        }
    ).encode()


def response(answer: bytes) -> dict[str, Any]:
    """The response in an answer."""
    read = json.loads(answer)
    assert (read["apiVersion"], read["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert set(read) == {"apiVersion", "kind", "response"}
    result: dict[str, Any] = read["response"]
    assert result["uid"] == "6f1a"
    return result


def operations(result: dict[str, Any]) -> Any:
    """The JSON patch in a response, None if there is none."""
    if "patch" not in result:
        assert "patchType" not in result
        return None
    assert result["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(result["patch"]))
