"""The updates that no handler is asked about, or no object's life would end.

They are told by what came, as JSON data: what they leave alone is stored already, whatever it is.

Invariant: none of them brings in what its class can't read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.errors import DecodeError
from rws_operator.resources.unreadable import ModelFailed
from rws_operator.webhook.invalid import keys_at_fault
from rws_operator.webhook.merge import same

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from rws_operator.resources import CustomResource
    from rws_operator.webhook.request import AdmissionRequest
    from rws_operator.webhook.review import ReviewedRequest


def only_ends(review: ReviewedRequest, request: AdmissionRequest[Any]) -> bool:
    """Whether an update does nothing but take finalizers off an object that is being deleted.

    All else may be what a function guards, also then: a label, an owner, the status.
    """
    if review.operation != "UPDATE" or review.sub_resource:
        return False
    if _DELETED not in bytes(review.old_object):
        return False
    old, new = request.raw_old_object, request.raw_object
    if old is None or new is None:
        return False
    return (
        bool(_metadata(old).get("deletionTimestamp"))
        and _differ_only_in(old, new, {"metadata"})
        and _differ_only_in(_metadata(old), _metadata(new), _OF_A_STEP)
    )


_DELETED = b'"deletionTimestamp"'
_OF_A_STEP = {"finalizers", "managedFields", "resourceVersion", "generation"}


def is_bookkeeping(
    review: ReviewedRequest,
    request: AdmissionRequest[Any],
    resource: type[CustomResource],
    error: DecodeError,
) -> bool:
    """Whether an update changes only metadata or status, and nothing that can't be read.

    Args:
        review: The request as it came.
        request: The same.
        resource: The class that can't read its object.
        error: Why it can't.
    """
    old, new = request.raw_old_object, request.raw_object
    if old is None or new is None:
        return False
    at_fault = keys_at_fault(error)
    free = set() if "" in at_fault else {"metadata", "status"} - at_fault
    if isinstance(error, ModelFailed) and _failed_before(review, resource):
        free = {"metadata", "status"}  # what the class failed at is not known, but is not new
    return _differ_only_in(old, new, free | {"metadata"}) and (
        "metadata" in free or _differ_only_in(_metadata(old), _metadata(new), _OF_A_STEP)
    )


def _failed_before(review: ReviewedRequest, resource: type[CustomResource]) -> bool:
    try:
        resource.from_wire(bytes(review.old_object))
    except DecodeError as error:
        return isinstance(error, ModelFailed)
    return False


def _metadata(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    found = raw.get("metadata")
    return found if isinstance(found, dict) else {}


def _differ_only_in(old: Mapping[str, Any], new: Mapping[str, Any], keys: Set[str]) -> bool:
    decided = (old.keys() | new.keys()) - keys
    return all(key in old and key in new and same(old[key], new[key]) for key in decided)
