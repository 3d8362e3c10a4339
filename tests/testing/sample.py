"""An operator as a program defines it, for the tests of the test kit: once, at import."""

from __future__ import annotations

import os

from rws_operator import (
    Action,
    AdmissionRequest,
    Condition,
    Context,
    CustomResource,
    Denied,
    Field,
    Model,
    Operator,
    kinds,
)

GROUP = os.environ.get("SAMPLE_GROUP", "sample.testing.test.example.com")


class BottleSpec(Model):
    """What a Bottle asks for."""

    litres: int = Field(default=1, ge=1, le=100)
    label: str | None = None


class BottleStatus(Model):
    """What was seen to."""

    litres: int | None = None
    conditions: list[Condition] = []


class OldBottleSpec(Model):
    """What a Bottle asked for at first."""

    volume: str = "1l"
    label: str | None = None


class Bottle(CustomResource, group=GROUP, version="v1"):
    """A bottle."""

    spec: BottleSpec = BottleSpec()
    status: BottleStatus = BottleStatus()


class OldBottle(CustomResource, group=GROUP, version="v1alpha1", kind="Bottle", storage=False):
    """A bottle, as it was first."""

    spec: OldBottleSpec = OldBottleSpec()
    status: BottleStatus = BottleStatus()


operator = Operator("sample")
operator.leader_election(namespace="nowhere")
bottles = operator.controller(Bottle, owns=[kinds.ConfigMap], versions=[OldBottle])


@bottles.reconcile
async def reconcile(bottle: Bottle, ctx: Context) -> Action:
    """Fill a bottle."""
    content = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": bottle.name},
        "data": {"litres": str(bottle.spec.litres)},
    }
    await ctx.apply_owned(bottle, content)
    ctx.log.info("filled", extra={"litres": bottle.spec.litres})
    await ctx.event(bottle, "Filled", f"with {bottle.spec.litres} l")
    await ctx.patch_status(bottle, {"litres": bottle.spec.litres})
    return Action.await_change()


@bottles.finalizer("sample.test.example.com/content")
async def empty(bottle: Bottle, ctx: Context) -> Action | None:
    """Empty a bottle; some never are."""
    return Action.requeue(300) if bottle.spec.label == "stuck" else None


@operator.validate(Bottle)
async def check(request: AdmissionRequest[Bottle]) -> None:
    """Refuse thirteen litres."""
    if request.object.spec.litres == 13:
        raise Denied("thirteen litres bring bad luck")


@operator.mutate(Bottle)
async def default(request: AdmissionRequest[Bottle]) -> None:
    """Name the content."""
    request.object.spec.label = request.object.spec.label or "water"


@operator.convert(OldBottle, Bottle)
def upgrade(old: OldBottle) -> Bottle:
    """To the present version."""
    spec = BottleSpec(litres=int(old.spec.volume.removesuffix("l")), label=old.spec.label)
    return Bottle(metadata=old.metadata, spec=spec, status=old.status)


@operator.convert(Bottle, OldBottle)
def downgrade(bottle: Bottle) -> OldBottle:
    """To the first version."""
    spec = OldBottleSpec(volume=f"{bottle.spec.litres}l", label=bottle.spec.label)
    return OldBottle(metadata=bottle.metadata, spec=spec, status=bottle.status)
