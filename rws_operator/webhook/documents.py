"""Webhook registrations as the configurations that make the API server call them.

One Validating- and one MutatingWebhookConfiguration at most, each named after the operator, with
an entry for each registration. They hold no caBundle: `keeper` puts it there, and a configuration
that is applied again leaves it as it is.

A webhook on a built-in kind fails closed like any other, but not in the operator's own namespace:
no replica could start there, nor write its Lease or its certificate, while none answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.manifests.names import labels
from rws_operator.manifests.webhook import configuration_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rws_operator.manifests.webhook_target import WebhookTarget
    from rws_operator.webhook.registration import Registration


def configurations(
    registrations: Iterable[Registration], name: str, target: WebhookTarget, own_namespace: str
) -> list[dict[str, Any]]:
    """The configurations of an operator's admission webhooks.

    Args:
        registrations: The webhooks, in the order they were registered in.
        name: Name of the configurations, and of the operator's other objects.
        target: The server of them all; each registration's path is put behind it.
        own_namespace: Where the operator runs.

    Returns:
        The mutating one and the validating one, in the order in which the API server calls them;
        neither, if it has no webhook.

    Raises:
        ConfigurationError: The API server would not take one of them.
    """
    listed = list(registrations)
    documents = []
    for mutating in (True, False):
        entries = [
            each.entry(target, own_namespace) for each in listed if each.mutating == mutating
        ]
        if entries:
            documents.append(configuration_of(name, mutating, entries, labels=labels(name)))
    return documents
