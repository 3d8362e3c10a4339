"""The simple form of a shared certificate: read from a Secret, made where there is none or it ages.

Invariant: what other replicas serve stays trusted by who trusts what is returned here, as they may
have read the Secret long ago and never look again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rws_operator.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    Invalid,
    NotFound,
)
from rws_operator.resources import kinds
from rws_operator.webhook.ca_bundle import BundleObject, all_entries, patch_of
from rws_operator.webhook.certificate_terms import YEAR_SECONDS, service_names
from rws_operator.webhook.inspection import authorities, inspect
from rws_operator.webhook.issue import BACKDATED_SECONDS, issue
from rws_operator.webhook.pems import STAGE_ANNOTATION, Pems, is_our_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.client import Client
    from rws_operator.resources.kind import Kind

_ATTEMPTS = 4  # each is refused only because another replica was quicker


async def obtain(client: Client, namespace: str, name: str, service: str) -> Pems:
    """See `WebhookCertificate.shared`.

    Args:
        client: May get, create and patch the Secret.
        namespace: Of Secret and Service.
        name: The Secret's.
        service: The Service's name.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _read_or_make(client, namespace, name, service)
        except (AlreadyExists, Conflict):
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


async def _read_or_make(client: Client, namespace: str, name: str, service: str) -> Pems:
    try:
        secret = await client.get(kinds.Secret, name, namespace)
    except NotFound:
        made = _made(service, namespace)
        await client.create(made.to_secret(name, namespace))
        return made
    current = Pems.from_secret(secret)
    found = inspect(current.cert_pem, current.key_pem, current.ca_pem)
    wall = time.time()
    is_expired = wall >= found.not_after
    is_ours = is_our_secret(secret)
    if is_expired and not is_ours:
        raise ConfigurationError(
            f"Secret {namespace}/{name}: the certificate has expired",
            remedy="have it renewed by whoever made it, or delete it to have one made here",
        )
    life = max(0.0, found.not_after - found.not_before - BACKDATED_SECONDS)
    is_due = wall >= found.not_after - life / 3
    if not is_ours or not (is_expired or (is_due and not _is_renewed_by_keeper(secret))):
        return current
    made = _made(service, namespace)
    if not is_expired:
        made = made._replace(ca_pem=made.ca_pem + found.authority)
    await client.patch(kinds.Secret, name, namespace, patch=_patch(made, secret))
    return made


def _made(service: str, namespace: str) -> Pems:
    names = service_names(service, namespace)
    return issue(names[2], names, lifetime_seconds=YEAR_SECONDS, now=time.time())


def _is_renewed_by_keeper(secret: Mapping[str, Any]) -> bool:
    """Whether an Operator is in the middle of its stages; it ends them itself."""
    stage: str = secret["metadata"]["annotations"][STAGE_ANNOTATION]
    return stage != "serving"


def _patch(made: Pems, secret: Mapping[str, Any]) -> dict[str, Any]:
    metadata = secret["metadata"]
    wire = made.to_secret(metadata["name"], metadata["namespace"])
    return {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": wire["metadata"]["annotations"],
        },
        "data": {**dict.fromkeys(secret["data"]), **wire["data"]},
    }


async def have_trusted(client: Client, kind: Kind, name: str, ca_pem: str) -> None:
    """Make an object's caBundles hold these CAs and no others.

    Raises:
        NotFound: There is no such object.
        Invalid: It was changed at the same moment, time and again.
    """
    wanted = authorities(ca_pem)
    for attempt in range(1, _ATTEMPTS + 1):
        entries = all_entries(BundleObject(kind, name), await client.get(kind, name))
        patch = patch_of(entries, lambda _: wanted)
        if not patch:
            return
        try:
            await client.patch(kind, name, patch=patch, type="json")
        except (Invalid, Conflict):  # an entry is not the one that was read
            if attempt == _ATTEMPTS:
                raise
        else:
            return
