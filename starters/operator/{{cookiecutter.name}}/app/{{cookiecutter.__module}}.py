"""The {{ cookiecutter.kind }}: the custom resource, and what is done about each one."""

from typing import Any

from rws_operator import Action, Column, Context, CustomResource, Field, Model, Operator, kinds


class {{ cookiecutter.kind }}Spec(Model):
    """What is wanted."""

    message: str = Field(min_length=1, description="The message to publish.")


class {{ cookiecutter.kind }}Status(Model):
    """What has been done."""

    ready: bool = False


class {{ cookiecutter.kind }}(
    CustomResource,
    group="{{ cookiecutter.group }}",
    version="v1",
    columns=[Column("Message", ".spec.message"), Column("Ready", ".status.ready")],
):
    """A message that is published as a ConfigMap."""

    spec: {{ cookiecutter.kind }}Spec
    status: {{ cookiecutter.kind }}Status = {{ cookiecutter.kind }}Status()


operator = Operator("{{ cookiecutter.name }}")
operator.leader_election(lease="{{ cookiecutter.name }}")
controller = operator.controller({{ cookiecutter.kind }}, owns=[kinds.ConfigMap])


@controller.reconcile
async def reconcile(wanted: {{ cookiecutter.kind }}, ctx: Context) -> Action:
    """Make the ConfigMap and the status say what the spec says."""
    await ctx.apply_owned(wanted, config_map(wanted))
    await ctx.patch_status(wanted, {"ready": True})
    return Action.await_change()


def config_map(wanted: {{ cookiecutter.kind }}) -> dict[str, Any]:
    """Return the ConfigMap that holds the message."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": wanted.name},
        "data": {"message": wanted.spec.message},
    }
