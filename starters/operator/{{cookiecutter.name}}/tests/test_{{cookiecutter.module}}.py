"""{{ cookiecutter.kind }}: the controller on an API server."""

from rws_operator import kinds
from rws_operator.testing import OperatorRuns, TestNamespace, eventually

from app.__main__ import operator
from app.{{ cookiecutter.module }} import {{ cookiecutter.__class }}

CHILD = "first-{{ cookiecutter.kind | lower }}"


async def test_message_is_published(
    namespace: TestNamespace, running_operator: OperatorRuns
) -> None:
    """The ConfigMap and the status follow the spec."""
    await running_operator(operator)
    wanted, config_maps = namespace.api({{ cookiecutter.__class }}), namespace.api(kinds.ConfigMap)
    await wanted.create({"metadata": {"name": "first"}, "spec": {"message": "hello"}})

    async def says(message: str) -> bool:
        status = (await wanted.get("first")).status
        child = await config_maps.get(CHILD)
        return status.ready and status.message == child["data"]["message"] == message

    await eventually(30, lambda: says("hello"))
    await wanted.patch("first", {"spec": {"message": "good morning"}})
    await eventually(30, lambda: says("good morning"))


async def test_config_map_comes_back(
    namespace: TestNamespace, running_operator: OperatorRuns
) -> None:
    """What somebody spoils or deletes is made again."""
    await running_operator(operator)
    config_maps = namespace.api(kinds.ConfigMap)
    await namespace.api({{ cookiecutter.__class }}).create(
        {"metadata": {"name": "first"}, "spec": {"message": "hello", "repeat": 2}}
    )

    async def is_whole() -> bool:
        return bool((await config_maps.get(CHILD))["data"] == {"message": "hello\nhello"})

    await eventually(30, is_whole)
    await config_maps.patch(CHILD, {"data": {"message": "spoilt"}})
    await eventually(30, is_whole)
    await config_maps.delete(CHILD)
    await eventually(30, is_whole)


async def test_a_deletion_waits_for_the_cleanup(
    namespace: TestNamespace, running_operator: OperatorRuns
) -> None:
    """It is there until then; the ConfigMap belongs to it, so Kubernetes collects that."""
    running = await running_operator(operator)
    wanted, config_maps = namespace.api({{ cookiecutter.__class }}), namespace.api(kinds.ConfigMap)
    made = await wanted.create({"metadata": {"name": "first"}, "spec": {"message": "hello"}})
    child = await eventually(30, lambda: config_maps.get(CHILD))
    assert [each["uid"] for each in child["metadata"]["ownerReferences"]] == [made.metadata.uid]
    await running.stop()
    await wanted.delete("first")
    assert (await wanted.get("first")).metadata.deletion_timestamp is not None

    await running_operator(operator)

    async def is_gone() -> bool:
        return not await wanted.list()

    await eventually(30, is_gone)
