"""What a type checker knows of webhooks and their requests; checked, never run.

A line that must be refused carries the checkers' own ignore; one that they would not refuse any
more is reported as an unused ignore.
"""

from typing import Any, Literal, assert_type

from rws_operator.client import Client
from rws_operator.errors import Denied
from rws_operator.resources import CustomResource, Model, kinds
from rws_operator.webhook import AdmissionRequest, Call, Endpoint, UserInfo, Webhooks


class Spec(Model):
    """A spec."""

    size: int = 1


class Widget(CustomResource, group="typing.example.com", version="v1"):
    """A kind."""

    spec: Spec = Spec()


async def check(request: AdmissionRequest[Widget]) -> None:
    """An async handler."""
    assert_type(request.object, Widget)
    assert_type(request.old_object, Widget | None)
    assert_type(request.raw_object, dict[str, Any] | None)
    assert_type(request.operation, Literal["CREATE", "UPDATE", "DELETE", "CONNECT"])
    assert_type(request.namespace, str | None)
    assert_type(request.user, UserInfo)
    assert_type(request.client, Client)
    assert_type(await request.client.get(Widget, "a", "default"), Widget)
    raise Denied("no", code=409, causes=[("spec.size", "too large")])


def check_plain(request: AdmissionRequest[Widget]) -> None:
    """A plain handler."""
    assert_type(request.wait(request.client.get(Widget, "a", "default")), Widget)


async def default(request: AdmissionRequest[Widget]) -> Widget | None:
    """A mutating handler."""
    return request.object


def default_pod(request: AdmissionRequest[dict[str, Any]]) -> dict[str, Any]:
    """A mutating handler of a built-in kind."""
    assert_type(request.object, dict[str, Any])
    return request.object


def upgrade(obj: dict[str, Any], desired_version: str) -> dict[str, Any]:
    """A raw conversion."""
    return obj


class Own:
    """An endpoint of one's own."""

    name = "/own"
    path = "/own"
    timeout_seconds = 1.0

    async def answer(self, body: bytes, call: Call) -> bytes:
        """Give it back."""
        return body


endpoint: Endpoint = Own()
webhooks = (
    Webhooks().validate(Widget, "/a", check).validate(Widget, "/b", check_plain, name="b.c.d")
)
assert_type(webhooks, Webhooks)
webhooks.mutate(Widget, "/c", default, reinvocation="IfNeeded").convert(
    "/d", upgrade, [Widget]
).add(Own())
webhooks.mutate(kinds.Pod, "/e", default_pod, operations=["CREATE"], failure_policy="Ignore")

webhooks.validate(kinds.Pod, "/f", check)  # type: ignore[arg-type]
webhooks.mutate(Widget, "/g", default_pod)  # type: ignore[arg-type]
webhooks.validate(Widget, "/h", default)  # type: ignore[arg-type]
webhooks.validate(Widget, "/i", check, operations=["PATCH"])  # type: ignore[list-item]
webhooks.validate(Widget, "/j", check, failurePolicy="Fail")  # type: ignore[call-overload]
webhooks.add(object())  # type: ignore[arg-type]
