"""Where the means of the chaos run fail or meet each other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rws_operator.errors import OperatorError
from rws_operator.testing.errors import ControlPlaneError
from tests.chaos.deck import Fault
from tests.chaos.faults import Faults
from tests.chaos.permissions import Permissions
from tests.chaos.token_file import TokenFile


class Failing:
    """A control plane, and replicas, of which each fails in a way of its own."""

    slots: tuple[()] = ()

    async def kill_etcd(self) -> None:
        """There is no such process."""
        raise ProcessLookupError

    async def kill_api_server(self) -> None:
        """There is no such process."""

    async def restart_api_server(self) -> None:
        """It does not come."""
        raise ControlPlaneError("it does not come", remedy="none")

    async def compact(self) -> str:
        """Its network fails."""
        raise ConnectionResetError


async def test_a_fault_that_could_not_be_carried_out_is_told() -> None:
    """The run goes on, and tells of what it saw at its end."""
    failing = cast("Any", Failing())
    faults = Faults(failing, failing, failing)
    said: list[str] = []
    planned = [Fault(does) for does in ("kill_etcd", "kill_api_server", "compact")]
    await faults.carry_out(planned, asyncio.get_running_loop().time(), said.append)
    assert len(faults.undone) == len(said) == len(planned)
    assert "it does not come" in "".join(faults.undone)


class Refusing:
    """A cluster whose API server refuses everything until some time."""

    def __init__(self, until: float) -> None:
        self.client = self
        self._until = until

    async def apply(self, document: dict[str, Any], *, field_manager: str) -> None:
        """Refuse an apply."""
        if asyncio.get_running_loop().time() < self._until:
            raise OperatorError(f"{document} is refused to {field_manager}", remedy="none")


@pytest.mark.virtual_time
async def test_permissions_are_insisted_on_but_not_for_ever() -> None:
    """An API server that is away comes back; one that refuses them won't take them later."""
    now = asyncio.get_running_loop().time()
    await Permissions(cast("Any", Refusing(now + 60)), [{}]).restore()
    assert asyncio.get_running_loop().time() == pytest.approx(now + 60, abs=1)
    async with asyncio.timeout(600):
        with pytest.raises(OperatorError):
            await Permissions(cast("Any", Refusing(now + 1e6)), [{}]).restore()


class Turns(TokenFile):
    """Tells how many tokens it writes at a time, and who has the last one."""

    def __init__(self) -> None:
        self._secret = ""
        self._one_at_a_time = asyncio.Lock()
        self.at_once, self.most, self.last = 0, 0, ""

    async def _write_new(self, process: str) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0 if process == "after" else 0.05)
        self.at_once -= 1
        self.last = process


async def test_the_token_of_a_process_that_starts_is_the_last_one() -> None:
    """One that is swapped meanwhile is written before, and not in the middle."""
    token = Turns()
    await asyncio.gather(token.swap("before"), token.issue_soon("after"))
    assert (token.most, token.last) == (1, "after")
