"""Carries out the faults of a plan, by the fault kit; each is over after its seconds.

One fault at a time has the control plane; all others may overlap. A fault that finds nothing to
meet (nobody leads, no process at its place) passes.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from rws_operator.errors import OperatorError
from rws_operator.testing.errors import ControlPlaneError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rws_operator.testing.control_plane import ControlPlane
    from rws_operator.testing.gate import Fault as GateFault
    from rws_operator.testing.gate import Gate
    from tests.chaos.deck import Fault
    from tests.chaos.permissions import Permissions
    from tests.chaos.replicas import Replicas


class Faults:
    """What can be done to replicas and control plane; each method takes a planned fault.

    Attributes:
        undone: What could not be carried out, and why.
        lost_answers: How many writes were sent on, and their answers lost.
    """

    def __init__(
        self, control_plane: ControlPlane, replicas: Replicas, permissions: Permissions
    ) -> None:
        self.undone: list[str] = []
        self.lost_answers = 0
        self._control_plane = control_plane
        self._replicas = replicas
        self._permissions = permissions
        self._one_at_a_time = asyncio.Lock()
        self._no_connections = asyncio.Lock()  # a gate can't refuse twice at once

    async def carry_out(
        self, faults: Sequence[Fault], begin: float, say: Callable[[str], None]
    ) -> None:
        """Carry out all, each at its time; return when the last is over."""
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                tasks.create_task(self._at_its_time(fault, begin, say))

    async def _at_its_time(self, fault: Fault, begin: float, say: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, begin + fault.at - loop.time()))
        try:
            met = await getattr(self, fault.does)(fault)
        except (OSError, OperatorError, ControlPlaneError, RequestRefused, AssertionError) as error:
            met = f"FAILED: {type(error).__name__}: {error}"
            self.undone.append(f"{fault}: {met}")
        say(f"{fault}: {met} ({loop.time() - begin:.1f} s)")

    # Faults on the way between replica and API server.

    async def hold_events(self, fault: Fault) -> str:
        """Let watches lag."""
        return await self._last(fault, lambda gate: gate.hold(stage="events", **fault.details))

    async def hold_answers(self, fault: Fault) -> str:
        """Let answers come late."""
        return await self._last(fault, lambda gate: gate.hold(stage="answer", **fault.details))

    async def hold_requests(self, fault: Fault) -> str:
        """Let requests arrive late."""
        return await self._last(fault, lambda gate: gate.hold(stage="request", **fault.details))

    async def delay(self, fault: Fault) -> str:
        """Let all requests arrive a moment later."""
        return await self._last(fault, lambda gate: gate.delay(fault.details["delay"]))

    async def black_hole(self, fault: Fault) -> str:
        """Let connections fall silent, for good."""
        return await self._last(fault, lambda gate: gate.black_hole(**fault.details))

    async def drop_bookmarks(self, fault: Fault) -> str:
        """Drop bookmarks of watches."""
        only = fault.details["only_initial_events_end"]
        return await self._last(
            fault, lambda gate: gate.drop_bookmarks(only_initial_events_end=only)
        )

    async def lose_answers(self, fault: Fault) -> str:
        """Send requests on, and lose their answers."""
        begun: list[GateFault] = []

        def begin(gate: Gate) -> GateFault:
            begun.append(gate.lose_answer(**fault.details))
            return begun[-1]

        met = await self._last(fault, begin)
        if fault.details["verb"] != "update":  # which is the Lease's alone
            self.lost_answers += sum(each.hits for each in begun)
        return met

    async def refuse(self, fault: Fault) -> str:
        """Answer in the server's place."""
        chosen = dict(fault.details)
        status = chosen.pop("status")
        seconds = chosen.pop("retry_after", None)
        headers = None if seconds is None else {"Retry-After": str(seconds)}
        return await self._last(fault, lambda gate: gate.answer(status, headers=headers, **chosen))

    async def refuse_after_cut(self, fault: Fault) -> str:
        """Break open watches, and answer those that come instead."""
        for slot in await self._replicas.chosen(fault.target):
            slot.gate.cut(verb="watch")
        return await self.refuse(fault)

    async def cut(self, fault: Fault) -> str:
        """Break connections."""
        gates = await self._gates(fault)
        return f"cut {sum(gate.cut(**fault.details) for gate in gates)}"

    async def end_watches(self, fault: Fault) -> str:
        """End open watches well."""
        gates = await self._gates(fault)
        return f"ended {sum(gate.end_watches() for gate in gates)}"

    async def trickle(self, fault: Fault) -> str:
        """Let answers come slowly."""
        return await self._last(fault, lambda gate: gate.trickle(**fault.details))

    async def refuse_connections(self, fault: Fault) -> str:
        """Break all connections, and take no new one."""
        slots = await self._replicas.chosen(fault.target)
        async with self._no_connections, AsyncExitStack() as stack:
            for slot in slots:
                stack.enter_context(slot.disturbance())
                await stack.enter_async_context(slot.gate.refuse_connections())
            cut = sum(slot.gate.cut() for slot in slots)
            await asyncio.sleep(fault.seconds)
        return f"cut {cut}"

    async def expire_watches(self, fault: Fault) -> str:
        """Tell open watches that their resource version is too old."""
        gates = await self._gates(fault)
        return f"expired {sum(gate.expire_watches(**fault.details) for gate in gates)}"

    async def _gates(self, fault: Fault) -> list[Gate]:
        return [slot.gate for slot in await self._replicas.chosen(fault.target)]

    async def _last(self, fault: Fault, begin: Callable[[Gate], GateFault]) -> str:
        begun: list[GateFault] = []
        with ExitStack() as stack:
            for slot in await self._replicas.chosen(fault.target):
                stack.enter_context(slot.disturbance())
                begun.append(stack.enter_context(begin(slot.gate)))
            await asyncio.sleep(fault.seconds)
        return f"met {sum(each.hits for each in begun)}"

    # Faults of the control plane.

    async def kill_api_server(self, fault: Fault) -> str:
        """Kill the API server, and start it again."""
        async with self._out_of_order():
            await self._control_plane.kill_api_server()
            await asyncio.sleep(fault.seconds)
            await self._control_plane.restart_api_server()
        return "is back"

    async def kill_etcd(self, fault: Fault) -> str:
        """Kill etcd, and start it again."""
        async with self._out_of_order():
            await self._control_plane.kill_etcd()
            await asyncio.sleep(fault.seconds)
            await self._control_plane.restart_etcd()
        return "is back"

    async def compact(self, _: Fault) -> str:
        """Compact etcd, and restart the API server, whose cache would remember."""
        async with self._out_of_order():
            return f"to {await self._control_plane.compact()}"

    async def revoke(self, fault: Fault) -> str:
        """Take the operator's permissions away, and give them back."""
        async with self._one_at_a_time:
            await self._permissions.revoke(fault.details["binding"])
            await asyncio.sleep(fault.seconds)
            await self._permissions.restore()
        return "given back"

    async def swap_token(self, fault: Fault) -> str:
        """Replace tokens, and let the old ones count no more."""
        slots = await self._replicas.chosen(fault.target)
        swapped = 0
        for slot in slots:
            with suppress(OSError, OperatorError, RequestRefused, ControlPlaneError):
                await slot.swap_token()
                swapped += 1
        return f"swapped {swapped}"

    @asynccontextmanager
    async def _out_of_order(self) -> AsyncIterator[None]:
        """Have the control plane, on everybody's way, for one fault."""
        async with self._one_at_a_time:
            with ExitStack() as stack:
                for slot in self._replicas.slots:
                    stack.enter_context(slot.disturbance())
                yield

    async def make_peace(self) -> None:
        """Once all faults are over, let what is not under test start afresh.

        The controller manager's garbage collector reads which kinds there are every 30 s. Where the
        API server is away or starting then, it can miss the deletion of an owner, and leaves the
        children for good.
        """
        await self._control_plane.restart_controller_manager()

    # Faults of processes.

    async def kill(self, fault: Fault) -> str:
        """SIGKILL."""
        return await self._signal(fault, signal.SIGKILL)

    async def terminate(self, fault: Fault) -> str:
        """SIGTERM."""
        return await self._signal(fault, signal.SIGTERM)

    async def _signal(self, fault: Fault, number: signal.Signals) -> str:
        slots = await self._replicas.chosen(fault.target)
        return ", ".join(slot.now.name if slot.send(number) else "nobody" for slot in slots)

    async def freeze(self, fault: Fault) -> str:
        """SIGSTOP, and SIGCONT later."""
        slots = await self._replicas.chosen(fault.target)
        names = [slot.now.name for slot in slots]
        frozen: list[Any] = await asyncio.gather(*(slot.freeze(fault.seconds) for slot in slots))
        return ", ".join(n if f else "nobody" for n, f in zip(names, frozen, strict=True))
