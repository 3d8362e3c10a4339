"""A CEL rule that needs a function which the oldest supported server does not know yet."""

from typing import Annotated

import pytest

from rws_operator.errors import Invalid
from rws_operator.resources import CustomResource, Field, Model, Rule
from rws_operator.testing.cluster import TestCluster
from tests.resources.conftest import Install

DISTINCT_SINCE = 35
"""The first minor release whose new CRDs may use `distinct`: it came with 1.34, for reading."""

Name = Annotated[str, Field(max_length=10)]


class GuestList(Model):
    """Names, none twice."""

    names: list[Name] = Field(
        default_factory=list,
        max_length=5,
        rules=[Rule("self.distinct().size() == self.size()", "a name stands twice")],
    )


class Party(CustomResource, group="rule.test.example.com", version="v1"):
    """An object whose rule is younger than some servers."""

    spec: GuestList = GuestList()


async def test_a_function_that_a_server_lacks_is_named_by_its_refusal(
    cluster: TestCluster, install: Install
):
    """An older server refuses the CRD and names the function; a newer one enforces the rule."""
    version = (await cluster.client.request("GET", "/version")).json()
    if int(version["minor"].rstrip("+")) < DISTINCT_SINCE:
        with pytest.raises(Invalid, match="undeclared reference to 'distinct'"):
            await install(Party)
    else:
        party = await install(Party)
        await party.create(spec={"names": ["a", "b"]})
        assert "a name stands twice" in await party.refusal(spec={"names": ["a", "a"]})
