"""The reference workload: one ConfigMap per Widget, and the Widget's status, kept right.

Run with KUBECONFIG set; no election, 16 workers, everything else as in any operator: metrics,
probes, recorder and logs are on. It emits no event of its own.
"""

import sys

from rws_operator import Context, CustomResource, Model, Operator, kinds


class WidgetSpec(Model):
    """What a Widget asks for."""

    value: int
    payload: str | None = None


class WidgetStatus(Model):
    """What was seen to."""

    observed_value: int | None = None


class Widget(CustomResource, group="bench.example.com", version="v1"):
    """A number to be kept in a ConfigMap."""

    spec: WidgetSpec
    status: WidgetStatus = WidgetStatus()


operator = Operator("bench")
widgets = operator.controller(Widget, owns=[kinds.ConfigMap], workers=16)


@widgets.reconcile
async def reconcile(widget: Widget, ctx: Context) -> None:
    """Write the value into the ConfigMap, then into the status."""
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": widget.name},
        "data": {"value": str(widget.spec.value)},
    }
    await ctx.apply_owned(widget, child)
    await ctx.patch_status(widget, {"observedValue": widget.spec.value})


if __name__ == "__main__":
    operator.main(["serve", "--http-port", "0", *sys.argv[1:]])
