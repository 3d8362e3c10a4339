"""Three programs as one control plane on loopback: order of start and stop, readiness, faults.

`control_plane.py` is the public face and adds asyncio. Everything here blocks and belongs to no
event loop.

Invariants: after `close` neither process nor folder is left, also after a failed start; a program
that ends by itself while others wait for it is reported with its last log lines.
"""

import contextlib
import time
from collections.abc import Callable, Sequence

from rws_operator.testing import programs
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.etcd import Etcd, EtcdSnapshot
from rws_operator.testing.find import find_programs, in_use
from rws_operator.testing.folder import owned_folder, reserved_port
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.kubernetes_version import check_version
from rws_operator.testing.process import ChildProcess
from rws_operator.testing.waiting import pause

_ETCD, _API_SERVER, _CONTROLLERS = "etcd", "kube-apiserver", "kube-controller-manager"
_SNAPSHOTS = "snapshots"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_NAMESPACE = "/api/v1/namespaces/default"
_DEFAULT_SERVICE_ACCOUNT = f"{_NAMESPACE}/serviceaccounts/default"


class LocalControlPlane:
    """A running control plane of one's own; made started, ended by `close`.

    Args:
        audit: Write an audit log.
        api_server_args: Further kube-apiserver arguments, which win over the defaults.
        version: The Kubernetes version asked for, `v1.34.4`; None leaves it open.

    Attributes:
        folder: Holds logs, keys, kubeconfigs and etcd's data.
        admin: The administrator's access.
    """

    def __init__(self, *, audit: bool, api_server_args: Sequence[str], version: str | None) -> None:
        self._version = version
        self._cleanup = contextlib.ExitStack()
        self._running: dict[str, ChildProcess] = {}
        paths = find_programs(version=version)
        with contextlib.ExitStack() as starting:
            starting.enter_context(in_use(paths.values()))
            self.folder = starting.enter_context(owned_folder())
            port = starting.enter_context(reserved_port())
            self.admin = programs.write_credentials(self.folder, port)
            arguments = {
                _ETCD: programs.etcd(),
                _API_SERVER: programs.kube_apiserver(port, audit, api_server_args),
                _CONTROLLERS: programs.kube_controller_manager(),
            }
            self._etcd = Etcd(self.folder / programs.ETCD_SOCKET, self.folder / programs.ETCD_DATA)
            self._argv = {name: [str(paths[name]), *arguments[name]] for name in arguments}
            self._start_all(starting)
            self._cleanup = starting.pop_all()

    def close(self) -> None:
        """Stop controller manager, API server and etcd, in that order; remove the folder."""
        self._cleanup.close()

    def kill_api_server(self) -> None:
        """Kill the API server as a crash would; its port stays reserved."""
        self._kill(_API_SERVER)

    def restart_api_server(self) -> None:
        """Start the API server again, stopped first if it runs, and wait until it is ready."""
        self._stop(_API_SERVER)
        self._start_api_server()

    def restart_controller_manager(self) -> None:
        """Start the controller manager again, stopped first."""
        self._stop(_CONTROLLERS)
        self._run(_CONTROLLERS)

    def kill_etcd(self) -> None:
        """Kill etcd as a crash would; the API server runs on without it."""
        self._kill(_ETCD)

    def restart_etcd(self) -> None:
        """Start etcd again, stopped first if it runs, and wait until it and its user are ready."""
        self._stop(_ETCD)
        self._start_etcd()
        if _API_SERVER in self._running:
            self._wait(_API_SERVER, self._reads_etcd)

    def snapshot(self) -> EtcdSnapshot:
        """Copy etcd's data, for which it stands still for a moment."""
        snapshots = self.folder / _SNAPSHOTS
        snapshots.mkdir(exist_ok=True)
        revision = self._etcd.revision()
        path = snapshots / str(len(list(snapshots.iterdir())))
        self._stop(_ETCD)
        self._etcd.copy_data(path)
        self.restart_etcd()
        return EtcdSnapshot(revision, path)

    def restore(self, snapshot: EtcdSnapshot) -> None:
        """Put older data back, and start all programs anew on it."""
        for name in reversed(self._argv):
            self._kill(name)
        self._etcd.replace_data(snapshot.path)
        self._start_etcd()
        self._start_api_server()
        self._run(_CONTROLLERS)

    def compact(self) -> int:
        """Compact etcd, and start the API server anew, whose cache would remember; the revision."""
        revision = self._etcd.compact()
        self._kill(_API_SERVER)
        self._start_api_server()
        return revision

    def repair(self) -> None:
        """Start what does not run, whether it was killed or ended by itself."""
        dead = [name for name in self._argv if not self._is_running(name)]
        for name in dead:
            self._stop(name)
        for name, start in (
            (_ETCD, self._start_etcd),
            (_API_SERVER, self._start_api_server),
            (_CONTROLLERS, lambda: self._run(_CONTROLLERS)),
        ):
            if name in dead:
                start()

    def _is_running(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def _start_all(self, starting: contextlib.ExitStack) -> None:
        for name in self._argv:
            starting.callback(self._stop, name)
            self._run(name)
            if name == _API_SERVER:
                self._wait_for_api_server()
                self._check_version()
        self._wait(_CONTROLLERS, self._has_service_account)

    def _start_etcd(self) -> None:
        self._run(_ETCD)
        self._wait(_ETCD, self._etcd.is_healthy)

    def _start_api_server(self) -> None:
        self._run(_API_SERVER)
        self._wait_for_api_server()

    def _wait_for_api_server(self) -> None:
        self._wait(_API_SERVER, lambda: is_ready(self.admin))

    def _reads_etcd(self) -> bool:
        """Whether the API server has found etcd again; its own report comes late."""
        return self.admin.request("GET", _NAMESPACE)[0] == 200 and is_ready(self.admin)

    def _run(self, name: str) -> None:
        self._running[name] = ChildProcess(name, self._argv[name], self.folder)

    def _stop(self, name: str) -> None:
        if process := self._running.pop(name, None):
            process.stop()

    def _kill(self, name: str) -> None:
        if process := self._running.pop(name, None):
            process.kill()

    def _check_version(self) -> None:
        if self._version is not None:
            program = f"the kube-apiserver {self._argv[_API_SERVER][0]}"
            check_version(self._version, served_version(self.admin), program)

    def _has_service_account(self) -> bool:
        return self.admin.request("GET", _DEFAULT_SERVICE_ACCOUNT)[0] == 200

    def _wait(self, name: str, is_done: Callable[[], bool]) -> None:
        """Wait until a program has done its part; etcd's end shows as the API server's."""
        give_up = time.monotonic() + _START_SECONDS
        while True:
            for process in self._running.values():
                process.check()
            with contextlib.suppress(OSError):
                if is_done():
                    return
            if time.monotonic() > give_up:
                tail = self._running[name].tail()
                raise ControlPlaneError(
                    f"{name} was not ready after {_START_SECONDS:.0f} s; its last lines:\n{tail}"
                )
            pause(_POLL_SECONDS)


def served_version(access: Access) -> str:
    """Return what the API server calls its Kubernetes version: `v1.37.2`, `v1.37.2+k3s1`.

    Raises:
        OSError: It could not be reached.
        RequestRefused: It did not tell.
    """
    return str(access.request_json("GET", "/version")["gitVersion"])


def is_ready(access: Access) -> bool:
    """Return whether the API server says that it is ready.

    Raises:
        OSError: It could not be reached.
    """
    return access.request("GET", "/readyz")[0] == 200
