"""The {{ cookiecutter.kind }}: schema and controller."""

from typing import Any

from rws_operator import (
    Action,
    Column,
    Condition,
    Context,
    CustomResource,
    Field,
    Model,
    kinds,
)

from app import operator


class {{ cookiecutter.__class }}Spec(Model):
    """What is wanted."""

    message: str = Field(min_length=1, max_length=1024, description="What is published.")
    repeat: int = Field(default=1, ge=1, le=10, description="How many times it is said.")


class {{ cookiecutter.__class }}Status(Model):
    """What was seen to."""

    ready: bool = False
    message: str | None = Field(default=None, description="What is published at present.")
    conditions: list[Condition] = []


class {{ cookiecutter.__class }}(
    CustomResource,
    group="{{ cookiecutter.group }}",
    version="v1",
{%- if cookiecutter.__class != cookiecutter.kind %}
    kind="{{ cookiecutter.kind }}",
{%- endif %}
{%- if cookiecutter.plural != cookiecutter.kind | plural_of %}
    plural="{{ cookiecutter.plural }}",
{%- endif %}
    columns=[
        Column("Message", ".spec.message"),
        Column("Ready", ".status.ready"),
        Column("Age", ".metadata.creationTimestamp"),
    ],
):
    """A message that is published in a ConfigMap."""

    spec: {{ cookiecutter.__class }}Spec
    status: {{ cookiecutter.__class }}Status = {{ cookiecutter.__class }}Status()


controller = operator.controller({{ cookiecutter.__class }}, owns=[kinds.ConfigMap])


@controller.reconcile
async def reconcile(wanted: {{ cookiecutter.__class }}, ctx: Context) -> Action:
    """Make the ConfigMap and the status say what the spec says."""
    await ctx.apply_owned(wanted, config_map(wanted))
    if wanted.status.message != wanted.spec.message:
        await ctx.event(wanted, "Published", f"says {wanted.spec.message}")
    await ctx.set_condition(wanted, "Ready", True, "Published", "the ConfigMap is up to date")
    await ctx.patch_status(wanted, {"ready": True, "message": wanted.spec.message})
    return Action.await_change()


@controller.finalizer("{{ cookiecutter.group }}/{{ cookiecutter.name }}")
async def cleanup(gone: {{ cookiecutter.__class }}, ctx: Context) -> None:
    """Undo what Kubernetes can't, e.g. what was made outside of the cluster: nothing so far.

    The ConfigMap is owned, so it goes by itself. May be called again after a failure.
    """
    ctx.log.info("withdrawn: %s", gone.spec.message)


def config_map(wanted: {{ cookiecutter.__class }}) -> dict[str, Any]:
    """The ConfigMap that holds the message."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{wanted.name}-{{ cookiecutter.kind | lower }}"},
        "data": {"message": "\n".join([wanted.spec.message] * wanted.spec.repeat)},
    }
