"""The operator of `test_webhook_life`: a controller and all three webhooks, named by environment.

    python webhook_replica.py serve | --manifests

TEST_OPERATOR is its name, TEST_GROUP the group of its kind, TEST_NAMESPACE the one its admission
webhooks look at, TEST_LIFETIME and TEST_STAGE the seconds of its certificate, TEST_NAMES further
names in it. With TEST_CLOSE=1 every fourth answer closes its connection, so many calls begin with
a handshake.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING

from rws_operator import AdmissionRequest, Context, CustomResource, Denied, Model, Operator

if TYPE_CHECKING:
    from aiohttp import web

    from rws_operator import Webhooks

GROUP = os.environ["TEST_GROUP"]
SELECTOR = {"matchLabels": {"kubernetes.io/metadata.name": os.environ["TEST_NAMESPACE"]}}


class VaultSpec(Model):
    """What a Vault asks for."""

    size_gi: int
    owner: str | None = None


class VaultStatus(Model):
    """What was seen to."""

    size_gi: int | None = None


class Vault(CustomResource, group=GROUP, version="v1"):
    """A vault."""

    spec: VaultSpec
    status: VaultStatus = VaultStatus()


class OldVaultSpec(Model):
    """What a Vault asked for."""

    capacity: str
    owner: str | None = None


class OldVault(CustomResource, group=GROUP, version="v1alpha1", kind="Vault", storage=False):
    """A vault, as it was first."""

    spec: OldVaultSpec
    status: VaultStatus = VaultStatus()


operator = Operator(os.environ["TEST_OPERATOR"], lag_seconds=2)
operator.leader_election()
operator.certificate(
    lifetime_seconds=float(os.environ.get("TEST_LIFETIME", 365 * 86400)),
    stage_seconds=float(os.environ.get("TEST_STAGE", 60)),
    names=os.environ.get("TEST_NAMES", "").split(),
)
vaults = operator.controller(Vault)


@vaults.reconcile
async def reconcile(vault: Vault, ctx: Context) -> None:
    """Report the size."""
    await ctx.patch_status(vault, {"sizeGi": vault.spec.size_gi})


@operator.validate(Vault, namespace_selector=SELECTOR)
async def check(request: AdmissionRequest[Vault]) -> None:
    """Deny what is too large; take a moment, so that calls are under way whatever happens."""
    await asyncio.sleep(0.05)
    if request.object.spec.size_gi > 100:
        raise Denied(f"a vault of {request.object.spec.size_gi} Gi is too large")


@operator.mutate(Vault, namespace_selector=SELECTOR)
def default(request: AdmissionRequest[Vault]) -> Vault:
    """Say whose it is."""
    vault = request.object
    vault.spec.owner = vault.spec.owner or request.user.username
    return vault


@operator.convert(OldVault, Vault)
def upgrade(old: OldVault) -> Vault:
    """To the stored version."""
    spec = VaultSpec(size_gi=int(old.spec.capacity.removesuffix("Gi")), owner=old.spec.owner)
    return Vault(metadata=old.metadata, spec=spec, status=old.status)


@operator.convert(Vault, OldVault)
def downgrade(vault: Vault) -> OldVault:
    """From the stored version."""
    spec = OldVaultSpec(capacity=f"{vault.spec.size_gi}Gi", owner=vault.spec.owner)
    return OldVault(metadata=vault.metadata, spec=spec, status=vault.status)


def be_restless(webhooks: Webhooks) -> None:
    """Have every fourth answer close its connection."""
    handle, answers = webhooks.handle, itertools.count()

    async def handle_restlessly(request: web.BaseRequest) -> web.StreamResponse:
        answer = await handle(request)
        if next(answers) % 4 == 0:
            answer.force_close()
        return answer

    webhooks.handle = handle_restlessly  # type: ignore[method-assign]


if __name__ == "__main__":
    if os.environ.get("TEST_CLOSE"):
        be_restless(operator.webhooks)
    operator.main()
