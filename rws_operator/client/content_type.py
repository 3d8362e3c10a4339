"""The content types of a PATCH, which say what kind of patch its body is."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
"""Merges lists by their items' keys; built-in kinds only."""

APPLY_PATCH = "application/apply-patch+yaml"
"""A server-side apply; JSON is YAML."""
