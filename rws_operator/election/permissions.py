"""Asks at start whether this replica may do what election needs.

A standby that may not update its Lease would find out only when it has to take over. The check
only warns: permissions may be granted later, and an answer of "no" may be incomplete.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from rws_operator.election.requests import LeaseRequests

log = logging.getLogger("rws_operator.election")

VERBS = ("create", "get", "update", "list", "watch")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def check_permissions(requests: LeaseRequests) -> None:
    """Log an error that names the verbs which this replica lacks; raises nothing."""
    try:
        answers = await asyncio.gather(*(_is_allowed(requests, verb) for verb in VERBS))
    except (OperatorError, msgspec.DecodeError, KeyError, TypeError) as error:
        log.debug("could not ask for the Lease's permissions", extra={"error": str(error)})
        return
    missing = [verb for verb, allowed in zip(VERBS, answers, strict=True) if not allowed]
    if missing:
        log.error(
            "leader election lacks permissions: grant them in a Role of the Lease's namespace",
            extra={
                "lease": str(requests),
                "resource": "leases.coordination.k8s.io",
                "verbs": ",".join(missing),
            },
        )


async def _is_allowed(requests: LeaseRequests, verb: str) -> bool:
    attributes = {
        "namespace": requests.namespace,
        "verb": verb,
        "group": "coordination.k8s.io",
        "resource": "leases",
    }
    if verb != "create":
        attributes["name"] = requests.name
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await requests.client.request(
        "POST", _REVIEWS, body=msgspec.json.encode(review), deadline=10.0, priority=True
    )
    return bool(msgspec.json.decode(answer.body)["status"]["allowed"])
