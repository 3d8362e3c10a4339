"""{{ cookiecutter.kind }}: reconcile by itself, no server."""

from rws_operator import Action, ObjectMeta
from rws_operator.testing import RecordingContext

from app.{{ cookiecutter.module }} import (
    {{ cookiecutter.__class }},
    {{ cookiecutter.__class }}Spec,
    cleanup,
    controller,
    reconcile,
)


def made(message: str, repeat: int = 1) -> {{ cookiecutter.__class }}:
    """One as the API server would give it."""
    return {{ cookiecutter.__class }}(
        metadata=ObjectMeta(name="first", namespace="default"),
        spec={{ cookiecutter.__class }}Spec(message=message, repeat=repeat),
    )


async def test_what_is_written() -> None:
    """The ConfigMap holds the message as often as asked for, and the status says so."""
    wanted = made("hello", repeat=2)
    ctx = RecordingContext(wanted, controller=controller)
    assert await reconcile(wanted, ctx) == Action.await_change()
    (child,) = ctx.applied
    assert child["data"] == {"message": "hello\nhello"}
    assert ctx.statuses[-1]["message"] == "hello"
    assert [event.reason for event in ctx.events] == ["Published"]


async def test_cleanup_writes_nothing() -> None:
    """What is owned goes by itself."""
    gone = made("hello")
    ctx = RecordingContext(gone, controller=controller)
    await cleanup(gone, ctx)
    assert not ctx.applied
    assert not ctx.deleted
