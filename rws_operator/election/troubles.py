"""What election says about requests that fail: each kind of failure once, until one succeeds."""

from __future__ import annotations

import logging

from rws_operator.errors import Forbidden, NotFound, OperatorError, Unauthorized

log = logging.getLogger("rws_operator.election")


class Troubles:
    """Logs the failures of requests on one Lease.

    Args:
        lease: Namespace and name, for the messages.
    """

    def __init__(self, lease: str) -> None:
        self._lease = lease
        self._told: set[tuple[str, type[OperatorError]]] = set()

    def report(self, verb: str, error: OperatorError) -> None:
        """A request failed; it is tried again whatever the reason."""
        told = (verb, type(error))
        first = told not in self._told
        self._told.add(told)
        extra = {"lease": self._lease, "verb": verb, "error": str(error)}
        if not first:
            log.debug("Lease request failed again", extra=extra)
        elif isinstance(error, Forbidden) and error.is_namespace_ending:
            log.error("the Lease's namespace is being deleted, keeps trying", extra=extra)
        elif isinstance(error, Unauthorized | Forbidden):
            remedy = "create leases; get, update, list, watch this Lease"
            log.error(
                "may not %s leases.coordination.k8s.io, keeps trying",
                verb,
                extra={**extra, "needed": remedy},
            )
        elif verb == "create" and isinstance(error, NotFound):
            log.error("the Lease's namespace does not exist, keeps trying", extra=extra)
        else:
            log.warning("Lease request failed, keeps trying", extra=extra)

    def clear(self, *verbs: str) -> None:
        """Requests of these verbs succeed again."""
        self._told = {told for told in self._told if told[0] not in verbs}
