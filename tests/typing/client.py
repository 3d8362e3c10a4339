"""What a type checker knows of the client: a class gives instances, a kind gives dicts."""

from typing import Any, assert_type

from rws_operator import Client, CustomResource, Model, kinds
from rws_operator.client import Answer, client


class WidgetSpec(Model):
    """What is wanted."""

    size: int = 1


class Widget(CustomResource, group="typing.example.com", version="v1"):
    """A kind."""

    spec: WidgetSpec


async def reads(client: Client) -> None:
    """Reading verbs."""
    assert_type(await client.get(Widget, "a", "default"), Widget)
    assert_type(await client.get(kinds.ConfigMap, "a", "default"), dict[str, Any])
    assert_type(await client.list(Widget), list[Widget])
    assert_type(await client.list(kinds.ConfigMap, "default", limit=10), list[dict[str, Any]])
    assert_type(await client.request("GET", "/version"), Answer)
    async with client.stream("/apis", idle_deadline=60) as chunks:
        async for chunk in chunks:
            assert_type(chunk, bytes)


async def writes(client: Client, widget: Widget, plain: dict[str, Any]) -> None:
    """Writing verbs."""
    assert_type(await client.create(widget), Widget)
    assert_type(await client.create(plain), dict[str, Any])
    assert_type(await client.replace(widget), Widget)
    assert_type(await client.apply(widget, field_manager="me"), Widget)
    assert_type(await client.apply(plain, field_manager="me", force=False), dict[str, Any])
    assert_type(await client.patch(Widget, "a", "default", patch={"spec": {}}), Widget)
    assert_type(await client.patch(kinds.Pod, "a", "b", patch=[], type="json"), dict[str, Any])
    assert_type(await client.delete(Widget, "a", "default"), None)


async def mistakes(client: Client, widget: Widget) -> None:
    """Each line is refused."""
    widget.spec.sise = 2  # type: ignore[attr-defined]
    await client.get("ConfigMap", "a")  # type: ignore[call-overload]
    await client.apply(widget)  # type: ignore[call-overload]
    await client.create(1)  # type: ignore[call-overload]
    await client.delete(Widget, "a", "default", propagation="background")  # type: ignore[arg-type]
    await client.patch(Widget, "a", patch={}, type="apply")  # type: ignore[call-overload]


async def made() -> None:
    """The client of the surroundings."""
    async with await client() as one:
        assert_type(one, Client)
