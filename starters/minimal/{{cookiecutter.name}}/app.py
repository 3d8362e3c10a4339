"""The operator {{ cookiecutter.name }}, all of it: ``python app.py serve``."""

from typing import Any

from rws_operator import Action, Context, CustomResource, Field, Model, Operator, kinds


class {{ cookiecutter.__class }}Spec(Model):
    """What is wanted."""

    message: str = Field(min_length=1, max_length=1024, description="What is published.")


class {{ cookiecutter.__class }}Status(Model):
    """What was seen to."""

    ready: bool = False


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
):
    """A message that is published in a ConfigMap."""

    spec: {{ cookiecutter.__class }}Spec
    status: {{ cookiecutter.__class }}Status = {{ cookiecutter.__class }}Status()


operator = Operator("{{ cookiecutter.name }}")
operator.leader_election()
controller = operator.controller({{ cookiecutter.__class }}, owns=[kinds.ConfigMap])


@controller.reconcile
async def reconcile(wanted: {{ cookiecutter.__class }}, ctx: Context) -> Action:
    """Make the ConfigMap and the status say what the spec says."""
    await ctx.apply_owned(wanted, config_map(wanted))
    await ctx.patch_status(wanted, {"ready": True})
    return Action.await_change()


def config_map(wanted: {{ cookiecutter.__class }}) -> dict[str, Any]:
    """The ConfigMap that holds the message."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{wanted.name}-{{ cookiecutter.kind | lower }}"},
        "data": {"message": wanted.spec.message},
    }


if __name__ == "__main__":
    operator.main()
