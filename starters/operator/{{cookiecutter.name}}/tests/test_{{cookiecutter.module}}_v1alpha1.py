"""{{ cookiecutter.kind }}: its versions, there and back."""

from rws_operator.testing import OperatorRuns, TestNamespace, round_trip_check

from app.__main__ import operator
from app.{{ cookiecutter.module }} import {{ cookiecutter.__class }}
from app.{{ cookiecutter.module }}_v1alpha1 import (
    {{ cookiecutter.__class }}V1Alpha1,
    downgrade,
    upgrade,
)


def test_nothing_is_lost() -> None:
    """There and back, everything is as it was."""
    round_trip_check(upgrade, downgrade)


async def test_either_version_can_be_used(
    namespace: TestNamespace, running_operator: OperatorRuns
) -> None:
    """What is written in one version is read in the other."""
    await running_operator(operator)
    old, new = namespace.api({{ cookiecutter.__class }}V1Alpha1), namespace.api({{ cookiecutter.__class }})
    await old.create({"metadata": {"name": "first"}, "spec": {"text": "hello"}})
    assert (await new.get("first")).spec.message == "hello"
    await new.patch("first", {"spec": {"message": "good morning"}})
    assert (await old.get("first")).spec.text == "good morning"
