"""JSON merge patches (RFC 7386): what one would make of an object, and what the server dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rws_operator.resources import Model, to_wire
from rws_operator.resources.model import field_wire_name


def merged(target: Any, patch: Any) -> Any:
    """What the server makes of ``target``; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def whole_patch(model: Model, target: Any) -> dict[str, Any]:
    """The patch that makes ``target`` say what a model says.

    A merge patch leaves the keys it doesn't name; the keys that a map of the model has lost are
    therefore named, as null. What the model has no field for stays.
    """
    patch = to_wire(model)
    _drop_lost_keys(model, patch, target)
    return patch


def _drop_lost_keys(value: Any, patch: Any, target: Any) -> None:
    if not isinstance(target, Mapping) or not isinstance(patch, dict):
        return
    if isinstance(value, Model):
        for name, field in type(value).model_fields.items():
            wire = field_wire_name(name, field)
            _drop_lost_keys(getattr(value, name), patch.get(wire), target.get(wire))
    elif isinstance(value, Mapping):
        for name, below in value.items():
            _drop_lost_keys(below, patch.get(str(name)), target.get(str(name)))
        patch.update(dict.fromkeys(target.keys() - patch.keys()))


def pruned_paths(sent: Any, held: Any, path: str, *, zeros: bool) -> list[str]:
    """Paths of what was sent and is not held.

    Args:
        sent: A merge patch.
        held: What the server has now.
        path: Where both stand, e.g. ``status``.
        zeros: Whether a missing zero value counts; built-in kinds leave them out.
    """
    if isinstance(sent, Mapping) and isinstance(held, Mapping):
        missing = []
        for name, value in sent.items():
            below = f"{path}.{name}"
            if name in held:
                missing += pruned_paths(value, held[name], below, zeros=zeros)
            elif value is not None and (value or zeros):
                missing.append(below)
        return missing
    if isinstance(sent, list) and isinstance(held, list):
        pairs = enumerate(zip(sent, held, strict=False))
        return [
            each
            for index, (value, found) in pairs
            for each in pruned_paths(value, found, f"{path}[{index}]", zeros=zeros)
        ]
    return []
