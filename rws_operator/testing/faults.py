"""What a test can do to a control plane of its own, as a coroutine each."""

import asyncio
from abc import ABC, abstractmethod

from rws_operator.testing.etcd import EtcdSnapshot
from rws_operator.testing.local import LocalControlPlane


class Faults(ABC):
    """The faults of a control plane; each returns when it has happened.

    They raise ControlPlaneError on a cluster that RWS_TEST_KUBECONFIG names, and where a program
    does not come up again.
    """

    @abstractmethod
    def _own(self) -> LocalControlPlane:
        """The programs, which must be one's own."""

    async def kill_api_server(self) -> None:
        """Kill the API server as a crash would; its port stays reserved."""
        await asyncio.to_thread(self._own().kill_api_server)

    async def restart_api_server(self) -> None:
        """Start the API server again, stopped first if it runs, and wait until it is ready."""
        await asyncio.to_thread(self._own().restart_api_server)

    async def restart_controller_manager(self) -> None:
        """Start the controller manager again, which then looks at everything anew.

        Its garbage collector can miss an owner's deletion while an API server is killed and
        started, and leave the children for good.
        """
        await asyncio.to_thread(self._own().restart_controller_manager)

    async def kill_etcd(self) -> None:
        """Kill etcd as a crash would; the API server runs on, and can neither read nor write."""
        await asyncio.to_thread(self._own().kill_etcd)

    async def restart_etcd(self) -> None:
        """Start etcd again, stopped first if it runs; wait until it and the API server are ready.

        The API server is left as it is, dead or alive.
        """
        await asyncio.to_thread(self._own().restart_etcd)

    async def snapshot(self) -> EtcdSnapshot:
        """Copy what etcd holds. It is stopped meanwhile, so requests may fail for a second."""
        return await asyncio.to_thread(self._own().snapshot)

    async def restore(self, snapshot: EtcdSnapshot) -> None:
        """Put an older state back, as after a disaster: resource versions go back.

        All programs are killed before and started anew; what came after the snapshot never was.

        Args:
            snapshot: Of this same control plane.
        """
        await asyncio.to_thread(self._own().restore, snapshot)

    async def compact(self) -> int:
        """Let every resource version older than the newest be answered by 410 Expired.

        etcd is compacted, and the API server killed and started anew: its own memory of the last
        changes would answer on.

        Returns:
            The newest resource version, of which etcd still knows.
        """
        return await asyncio.to_thread(self._own().compact)

    async def repair(self) -> None:
        """Start again what was killed, if anything was, and wait until it is ready."""
        await asyncio.to_thread(self._own().repair)
