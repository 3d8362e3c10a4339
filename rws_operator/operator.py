"""The Operator: what a program's controllers have in common, declared once.

An Operator is a definition: its name, its controllers, whether replicas elect a leader. From the
definition come the permissions (`rules`), the objects that install it (`manifests`), the process
that runs it (`run`, whose order `lifecycle` keeps) and the command line around it (`main`).
Nothing here speaks to an API server.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack, overload

from rws_operator.controller.checks import check_type
from rws_operator.controller.controller import Controller, ControllerOptions
from rws_operator.election.timing import Timing
from rws_operator.errors import ConfigurationError, check_seconds
from rws_operator.lifecycle import Election, Lifecycle, Runnable
from rws_operator.manifests import crd, installation, merge_rules
from rws_operator.manifests.names import check_label, check_qualified, check_subdomain, object_name
from rws_operator.resources import CustomResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.client import Client
    from rws_operator.resources import Kind, PolicyRule

_C = TypeVar("_C", bound=CustomResource)
_R = TypeVar("_R", bound=Runnable)

__all__ = ["Operator", "Runnable"]


class Operator:
    """A set of controllers that run together in one process.

    Args:
        name: Field manager of every write and reporter of every event, e.g.
            ``backup-operator`` or ``example.com/backup-operator``. Don't change it later: the
            new name would not own what the old one wrote.
        client: The API server to use; the caller closes it. By default `run` makes one: the
            pod's own server and ServiceAccount, else KUBECONFIG, else ``~/.kube/config``.
        drain_seconds: How long running reconciles may go on once a stop was asked for; then they
            are cancelled. The Deployment's grace period follows from it.

    Raises:
        ConfigurationError: The name is no qualified name, or the drain no finite time.
    """

    def __init__(
        self, name: str, *, client: Client | None = None, drain_seconds: float = 30.0
    ) -> None:
        check_type(name, str, "operator name", 'pass a text: Operator("backup-operator")')
        self.name = check_qualified(name, "operator name")
        self.drain_seconds = check_seconds(drain_seconds, f"operator {name}: drain_seconds")
        if not 0 <= drain_seconds < math.inf:
            raise ConfigurationError(
                f"operator {name}: drain_seconds={drain_seconds}",
                remedy="use a finite number of seconds from 0",
            )
        self._object_name = object_name(name)
        self._client = client
        self._election: Election | None = None
        self._runnables: dict[str, Runnable] = {}
        self._lifecycle: Lifecycle | None = None

    def leader_election(
        self,
        namespace: str | None = None,
        lease: str | None = None,
        *,
        lease_seconds: int = 15,
        renew_seconds: int = 10,
        retry_seconds: int = 2,
    ) -> None:
        """Let only one of several replicas work at a time: the holder of a Lease.

        Args:
            namespace: The Lease's namespace; by default the pod's own.
            lease: The Lease's name; by default the operator's.
            lease_seconds: How long the others wait after a leader's last sign of life.
            renew_seconds: How long a leader may write after its last renewal.
            retry_seconds: Time between two renewals.

        Raises:
            ConfigurationError: A name can't be used, or the durations are out of order.
        """
        if namespace is not None:
            check_label(namespace, "leader election: namespace")
        self._election = Election(
            namespace,
            check_subdomain(lease or self._object_name, "leader election: lease"),
            Timing(lease_seconds, renew_seconds, retry_seconds),
        )

    @overload
    def controller(
        self, kind: type[_C], **options: Unpack[ControllerOptions]
    ) -> Controller[_C]: ...

    @overload
    def controller(
        self, kind: Kind, **options: Unpack[ControllerOptions]
    ) -> Controller[dict[str, Any]]: ...

    def controller(self, kind: Any, **options: Unpack[ControllerOptions]) -> Controller[Any]:
        """Add a controller of one kind; the arguments are those of `Controller`.

        Raises:
            ConfigurationError: An argument can't be used, or the name is taken.
        """
        return self.add(Controller(kind, **options))

    def add(self, runnable: _R) -> _R:
        """Add a controller made elsewhere, or any other `Runnable`, and return it.

        Raises:
            ConfigurationError: Another one has its name, or the operator runs already.
        """
        if self._lifecycle is not None:
            raise ConfigurationError(
                f"operator {self.name}: {runnable.name} was added after the start",
                remedy="add controllers before run()",
            )
        if runnable.name in self._runnables:
            raise ConfigurationError(
                f"operator {self.name}: two controllers are named {runnable.name}",
                remedy="give one of them another name: controller(..., name='...')",
            )
        self._runnables[runnable.name] = runnable
        return runnable

    def rules(self) -> list[PolicyRule]:
        """The permissions that the controllers need, merged; those on the Lease stand apart."""
        return merge_rules(rule for each in self._runnables.values() for rule in each.rules())

    def kinds(self) -> list[Kind]:
        """The kinds that the controllers serve, each once."""
        return list(
            dict.fromkeys(kind for each in self._runnables.values() for kind in each.kinds())
        )

    def crds(self) -> list[dict[str, Any]]:
        """The CustomResourceDefinitions of the controllers' own kinds.

        Raises:
            ResourceDefinitionError: A class says something that a CRD can't hold.
        """
        versions: dict[str, dict[type[CustomResource], None]] = {}
        for each in self._runnables.values():
            if isinstance(each, Controller) and isinstance(each.resource, type):
                classes = versions.setdefault(each.kind.resource, {})
                classes.update(dict.fromkeys((each.resource, *each.versions)))
        return [_crd(list(classes)) for classes in versions.values()]

    def check_complete(self) -> None:
        """Refuse a definition that could not run.

        Raises:
            ConfigurationError: It has no controllers, or one of them has no reconcile.
        """
        if not self._runnables:
            raise ConfigurationError(
                f"operator {self.name} has no controllers",
                remedy="add one: operator.controller(Kind)",
            )
        for each in self._runnables.values():
            if isinstance(each, Controller):
                each.check_complete()

    def manifests(
        self, *, namespace: str | None = None, image: str | None = None, replicas: int = 2
    ) -> list[dict[str, Any]]:
        """All documents that install this operator, in the order to apply them.

        Args:
            namespace: Where it runs; by default a namespace of its own name.
            image: Container image; by default the operator's name with the tag ``latest``.
            replicas: Number of pods.

        Raises:
            ConfigurationError: Something can't be used, or can't be expressed as a CRD.
        """
        election = self._election
        return installation(
            self._object_name,
            namespace or self._object_name,
            crds=self.crds(),
            rules=self.rules(),
            lease=election.lease if election else None,
            lease_namespace=election.namespace if election else None,
            image=self.default_image if image is None else image,
            replicas=replicas,
            drain_seconds=self.drain_seconds,
        )

    @property
    def default_image(self) -> str:
        """The image that the manifests name when none is given."""
        return f"{self._object_name}:latest"

    async def run(self, *, http_port: int | None = None, kubeconfig: str | None = None) -> None:
        """Run everything until `stop` is called, or something ends that must not.

        A cancellation cuts running reconciles short; the Lease is released all the same.

        Args:
            http_port: Serve metrics and probes on this port; 0 for any free one, None for none.
            kubeconfig: Path of a kubeconfig, unless the operator was given a client.

        Raises:
            ConfigurationError: The definition is incomplete, or the surroundings are wrong.
            LeadershipLost: Another replica leads, or may; the process must end.
        """
        if self._lifecycle is not None:
            raise ConfigurationError(
                f"operator {self.name} was run before", remedy="make a new Operator for each run"
            )
        self.check_complete()
        self._lifecycle = Lifecycle(
            self.name,
            list(self._runnables.values()),
            election=self._election,
            drain_seconds=self.drain_seconds,
        )
        await self._lifecycle.run(self._client, http_port=http_port, kubeconfig=kubeconfig)

    def stop(self) -> None:
        """Ask `run` to end well: drain, release the Lease, publish the last events, return."""
        if self._lifecycle is not None:
            self._lifecycle.stop()

    @property
    def http_port(self) -> int | None:
        """The port of metrics and probes while `run` serves them, e.g. after it was given 0."""
        return self._lifecycle.http_port if self._lifecycle is not None else None

    def has_lost_lease(self) -> bool:
        """Whether this replica led and may not write any more; any thread may ask."""
        return self._lifecycle is not None and self._lifecycle.has_lost_lease()

    def main(self, argv: Sequence[str] | None = None) -> NoReturn:
        """Be the program's command line: ``serve``, ``--manifests``, or help.

        Args:
            argv: Arguments without the program's name; by default those of the process.

        Raises:
            SystemExit: Always, with the exit code.
        """
        from rws_operator.cli import main

        raise SystemExit(main(self, argv))


def _crd(classes: list[type[CustomResource]]) -> dict[str, Any]:
    storage = [each for each in classes if each.resource_definition.storage]
    first = storage[0] if storage else classes[0]
    return crd(first, versions=[each for each in classes if each is not first])
