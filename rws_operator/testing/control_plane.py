"""A real Kubernetes control plane for tests and demos: etcd, API server and controller manager.

Tests run against it, because a fake API server runs no admission, garbage collection, finalizers or
status subresource. This is the public face: it chooses between a cluster that RWS_TEST_KUBECONFIG
names and one of its own (`local.py`), and keeps blocking work off the event loop.

Invariants: a control plane of one's own leaves neither process nor folder behind, however its owner
ends; a named cluster is left running, and stays the one that was looked at, whatever becomes of the
files that named it.
"""

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rws_operator.testing import programs
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.faults import Faults
from rws_operator.testing.folder import owned_folder
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.kubernetes_version import asked_version
from rws_operator.testing.local import LocalControlPlane
from rws_operator.testing.named import copy_named
from rws_operator.testing.tokens import request_token
from rws_operator.testing.waiting import run_cancellable


class ControlPlane(Faults):
    """A Kubernetes control plane without nodes.

    Use it as `async with ControlPlane() as cp` or, outside a loop, `with ControlPlane() as cp`. It
    belongs to no event loop: one instance may serve many. Where RWS_TEST_KUBECONFIG names a
    cluster, that cluster is used instead, unless something is asked that needs an own one. Faults
    (kills, restarts, `restore`, `compact`) need an own one.

    Args:
        audit: Write an audit log (see `audit_log`); needs an own control plane.
        api_server_args: Further kube-apiserver arguments, which win over the defaults; need an
            own control plane.
        dedicated: Start an own control plane even where RWS_TEST_KUBECONFIG is set, for instance
            to kill its API server.
        version: The Kubernetes version, `1.34.4`, one of those that are shipped; needs an own
            control plane. The default is RWS_TEST_KUBERNETES_VERSION's, else the newest; a cluster
            that RWS_TEST_KUBECONFIG names must be of the version that the variable asks for.

    Raises:
        ProgramsNotFound: No such version is shipped; the message lists those that are.
    """

    def __init__(
        self,
        *,
        audit: bool = False,
        api_server_args: Sequence[str] = (),
        dedicated: bool = False,
        version: str | None = None,
    ) -> None:
        self._audit = audit
        self._api_server_args = tuple(api_server_args)
        self._version = asked_version(version)
        own = dedicated or audit or bool(api_server_args) or version is not None
        self._existing = None if own else os.environ.get("RWS_TEST_KUBECONFIG")
        self._local: LocalControlPlane | None = None
        self._folder: Path | None = None
        self._cleanup = contextlib.ExitStack()

    async def start(self) -> Self:
        """Start the programs and wait until the control plane is ready for use.

        The first start on a machine may have to build them, which takes minutes and is shown on
        standard error; later ones take a few seconds.

        Raises:
            ControlPlaneError: A program ended, or was not ready within a minute; the message holds
                its last log lines. Or the cluster that RWS_TEST_KUBECONFIG names can't be used, or
                does not look like a throwaway one.
        """
        cancelled = threading.Event()
        starting = asyncio.ensure_future(asyncio.to_thread(run_cancellable, cancelled, self._start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread can't be cancelled from outside: ask it to end, then undo what it did.
            cancelled.set()
            await asyncio.wait([starting])
            await self.stop()
            if not starting.cancelled():
                starting.exception()  # is no news
            raise

    async def stop(self) -> None:
        """Stop the programs, each killed after 3 seconds, and remove the folder."""
        await asyncio.to_thread(self._stop)

    @property
    def is_dedicated(self) -> bool:
        """Whether this is a control plane of one's own rather than a named cluster."""
        return not self._existing

    @property
    def kubeconfig(self) -> Path:
        """The absolute path of the administrator's kubeconfig, there until the stop.

        Of a cluster that RWS_TEST_KUBECONFIG names it is a copy, with the one context.
        """
        if self._folder is None:
            raise ControlPlaneError("the control plane is not started")
        return self._folder / programs.ADMIN_KUBECONFIG

    @property
    def audit_log(self) -> Path:
        """The path of the audit log: one JSON object of audit.k8s.io/v1 a line.

        Writes carry the answer's body (`responseObject.metadata.resourceVersion`), except for
        Secrets and tokens. Every entry has `userAgent` and `user`, whose `extra` names the token or
        certificate under `authentication.kubernetes.io/credential-id`. An entry may appear a moment
        after the answer.
        """
        if not self._audit:
            raise ControlPlaneError("no audit log is written: use ControlPlane(audit=True)")
        return self._own().folder / programs.AUDIT_LOG

    async def service_account_kubeconfig(
        self, namespace: str, name: str, lifetime_seconds: int = 3600
    ) -> Path:
        """Write a kubeconfig with a new token of a ServiceAccount and return its path.

        Args:
            namespace: The ServiceAccount's namespace, also the kubeconfig's.
            name: The ServiceAccount's name.
            lifetime_seconds: The token's lifetime; the API server takes no less than 600.

        Raises:
            RequestRefused: The API server gave no token, for instance because there is no such
                ServiceAccount.
            KubeconfigError: The user of a named cluster has neither token nor certificate.
        """
        return await asyncio.to_thread(self._issue, namespace, name, lifetime_seconds)

    def __enter__(self) -> Self:
        return self._start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _start(self) -> Self:
        if self._folder is not None:
            raise ControlPlaneError("the control plane is started already")
        with contextlib.ExitStack() as stack:
            if self._existing:
                folder = stack.enter_context(owned_folder())
                copy_named(self._existing, folder / programs.ADMIN_KUBECONFIG, self._version)
            else:
                self._local = LocalControlPlane(
                    audit=self._audit,
                    api_server_args=self._api_server_args,
                    version=self._version,
                )
                stack.callback(self._local.close)
                folder = self._local.folder
            self._folder = folder
            self._cleanup = stack.pop_all()
        return self

    def _stop(self) -> None:
        self._local = self._folder = None
        self._cleanup.close()

    def _own(self) -> LocalControlPlane:
        if self._local is None:
            raise ControlPlaneError(
                "not available on the cluster that RWS_TEST_KUBECONFIG names:"
                " use ControlPlane(dedicated=True)"
                if self._existing
                else "the control plane is not started"
            )
        return self._local

    def _issue(self, namespace: str, name: str, lifetime_seconds: int) -> Path:
        if self._folder is None:
            raise ControlPlaneError("the control plane is not started")
        admin = Access.read(self.kubeconfig)
        token = request_token(admin, namespace, name, lifetime_seconds)
        access = Access(admin.server, admin.ca_pem, token=token)
        path = self._folder / f"{name}-{secrets.token_hex(4)}.kubeconfig"
        return access.write(path, namespace)
