"""{{ cookiecutter.kind }}: its webhooks, really called."""

import pytest
from rws_operator.errors import Forbidden
from rws_operator.testing import OperatorRuns, TestNamespace

from app import {{ cookiecutter.module }}_webhooks as webhooks
from app.__main__ import operator
from app.{{ cookiecutter.module }} import {{ cookiecutter.__class }}


async def test_author_is_noted(namespace: TestNamespace, running_operator: OperatorRuns) -> None:
    """Whoever creates one is written down on it."""
    await running_operator(operator)
    created = await namespace.api({{ cookiecutter.__class }}).create(
        {"metadata": {"name": "first"}, "spec": {"message": "hello"}}
    )
    assert (created.metadata.annotations or {})[webhooks.CREATED_BY]


async def test_limit_is_kept(
    namespace: TestNamespace,
    running_operator: OperatorRuns,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One too many is denied, with the reason."""
    monkeypatch.setattr(webhooks, "LIMIT", 1)
    await running_operator(operator)
    wanted = namespace.api({{ cookiecutter.__class }})
    await wanted.create({"metadata": {"name": "first"}, "spec": {"message": "hello"}})
    with pytest.raises(Forbidden, match="there are 1 of 1 already"):
        await wanted.create({"metadata": {"name": "second"}, "spec": {"message": "hello"}})
