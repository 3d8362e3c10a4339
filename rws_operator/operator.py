"""The Operator: what a program's controllers and webhooks have in common, declared once.

An Operator is a definition: its name, its controllers, its webhooks, whether replicas elect a
leader. From the definition come the permissions (`rules`), the objects that install it
(`manifests`), the process that runs it (`run`, whose order `lifecycle` keeps), copies that run
elsewhere and the command line around it (`main`). Nothing here speaks to an API server.

Two parts of an Operator stand by themselves, and are inherited: how webhooks are declared
(`webhook.declaring`), and how the run is seen from outside (`run_view`). Invariant: a copy knows
nothing of the run of what it was copied from.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack, overload

from rws_operator import documents
from rws_operator.controller.checks import check_type
from rws_operator.controller.controller import Controller, ControllerOptions
from rws_operator.controller.shards import check_shards
from rws_operator.election.settings import ElectionSettings
from rws_operator.election.timing import Timing
from rws_operator.errors import ConfigurationError, check_seconds
from rws_operator.lifecycle import Lifecycle
from rws_operator.manifests import merge_rules
from rws_operator.manifests.names import check_label, check_qualified, check_subdomain, object_name
from rws_operator.manifests.webhook import TIMEOUT_SECONDS
from rws_operator.manifests.workload import WEBHOOK_PORT
from rws_operator.resources import CustomResource, PolicyRule
from rws_operator.run_view import RunView
from rws_operator.runnable import Runnable
from rws_operator.webhook.declaration import Declaration
from rws_operator.webhook.declaring import DeclaresWebhooks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rws_operator.client import Client
    from rws_operator.manifests.extras import Extras
    from rws_operator.resources import Kind
    from rws_operator.webhook.service import TlsFiles, WebhookService

_C = TypeVar("_C", bound=CustomResource)
_R = TypeVar("_R", bound=Runnable)

__all__ = ["Operator", "Runnable"]

DEVELOPMENT_DRAIN_SECONDS = 0.2
"""How long `for_development` lets reconciles go on at a stop: somebody waits for the reload."""


class Operator(DeclaresWebhooks, RunView):
    """Controllers and webhooks that run together in one process.

    Args:
        name: Field manager of every write and reporter of every event, e.g.
            ``backup-operator`` or ``example.com/backup-operator``. Don't change it later: the
            new name would not own what the old one wrote.
        client: The API server to use; the caller closes it. By default `run` makes one: the
            pod's own server and ServiceAccount, else KUBECONFIG, else ``~/.kube/config``.
        drain_seconds: How long running reconciles may go on once a stop was asked for; then they
            are cancelled. The Deployment's grace period follows from it.
        lag_seconds: How long webhooks are answered still after readiness fell: what it takes
            until no API server sends calls here any more.

    Raises:
        ConfigurationError: The name is no qualified name, or a duration no finite time.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | None = None,
        drain_seconds: float = 30.0,
        lag_seconds: float = 5.0,
    ) -> None:
        check_type(name, str, "operator name", 'pass a text: Operator("backup-operator")')
        self.name = check_qualified(name, "operator name")
        self.drain_seconds = _finite(drain_seconds, f"operator {name}: drain_seconds")
        self.lag_seconds = _finite(lag_seconds, f"operator {name}: lag_seconds")
        self._object_name = object_name(name)
        DeclaresWebhooks.__init__(self, Declaration(name, self._object_name))
        RunView.__init__(self)
        self._client = client
        self._election: ElectionSettings | None = None
        self._runnables: dict[str, Runnable] = {}
        self._rules: list[PolicyRule] = []
        self._is_confined = False

    def leader_election(
        self,
        namespace: str | None = None,
        lease: str | None = None,
        *,
        lease_seconds: int = 15,
        renew_seconds: int = 10,
        retry_seconds: int = 2,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Let only one of several replicas work at a time: the holder of a Lease.

        Args:
            namespace: The Lease's namespace; by default the pod's own.
            lease: The Lease's name; by default the operator's.
            lease_seconds: How long the others wait after a leader's last sign of life.
            renew_seconds: How long a leader may write after its last renewal.
            retry_seconds: Time between two renewals.
            wall_clock: Seconds since the epoch as they are written to the Lease, for people to
                read: nothing is judged by them. For tests with clocks that differ.

        Raises:
            ConfigurationError: A name can't be used, or the durations are out of order.
        """
        if namespace is not None:
            check_label(namespace, "leader election: namespace")
        self._election = ElectionSettings(
            namespace,
            check_subdomain(lease or self._object_name, "leader election: lease"),
            Timing(lease_seconds, renew_seconds, retry_seconds),
            wall_clock,
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
        self._check_not_run(
            f"operator {self.name}: {runnable.name} was added after the start",
            "add controllers before run()",
        )
        if runnable.name in self._runnables:
            raise ConfigurationError(
                f"operator {self.name}: two controllers are named {runnable.name}",
                remedy="give one of them another name: controller(..., name='...')",
            )
        self._runnables[runnable.name] = runnable
        return runnable

    def rule(self, rule: PolicyRule) -> None:
        """Add a permission that no controller's declaration says, e.g. a webhook handler's.

        Raises:
            ConfigurationError: It is no PolicyRule, or the operator runs already.
        """
        remedy = 'write PolicyRule("", ("secrets",), ("get",))'
        check_type(rule, PolicyRule, f"operator {self.name}: rule", remedy)
        self._check_not_run(
            f"operator {self.name}: a rule was added after the start",
            "add rules before run(); they are printed with the manifests",
        )
        self._rules.append(rule)

    def rules(self) -> list[PolicyRule]:
        """The permissions that controllers need and `rule` added, merged.

        Those on the Lease, the certificate and the caBundles stand apart.
        """
        declared = [rule for each in self._runnables.values() for rule in each.rules()]
        return merge_rules([*declared, *self._rules])

    def kinds(self) -> list[Kind]:
        """The kinds that the controllers serve, each once."""
        return list(
            dict.fromkeys(kind for each in self._runnables.values() for kind in each.kinds())
        )

    def finalizers(self) -> dict[Kind, list[str]]:
        """The finalizers that the controllers put on objects, by kind."""
        found: dict[Kind, list[str]] = {}
        for each in self._controllers():
            if each.finalizer_name is not None:
                found.setdefault(each.kind, []).append(each.finalizer_name)
        return found

    def crds(
        self, *, namespace: str | None = None, webhook_url: str | None = None
    ) -> list[dict[str, Any]]:
        """The CustomResourceDefinitions of the kinds that are given as classes.

        Args:
            namespace: Where the operator runs, for the kinds it converts; by default a namespace
                of its own name.
            webhook_url: Where its webhooks are called instead of by its Service.

        Raises:
            ResourceDefinitionError: A class says something that a CRD can't hold.
        """
        webhooks = self._declaration
        target = documents.target_of(webhooks, namespace or self._object_name, webhook_url)
        return documents.crds(self._versions(), webhooks, target)

    def check_complete(self) -> None:
        """Refuse a definition that could not run.

        Raises:
            ConfigurationError: It has neither controllers nor webhooks, a controller has no
                reconcile, two share a finalizer and are no shards, or a version of a converted
                kind has no converter.
        """
        if not self._runnables and not self._declaration:
            raise ConfigurationError(
                f"operator {self.name} has neither controllers nor webhooks",
                remedy="add one: operator.controller(Kind), or @operator.validate(Kind)",
            )
        for each in self._controllers():
            each.check_complete()
        if not self._is_confined:  # then shards have one namespace, and were looked at before
            check_shards(self._controllers(), f"operator {self.name}")
        self._declaration.check_complete([each for kind in self._versions() for each in kind])

    def manifests(
        self,
        *,
        namespace: str | None = None,
        image: str | None = None,
        replicas: int = 2,
        webhook_url: str | None = None,
        **extras: Unpack[Extras],
    ) -> list[dict[str, Any]]:
        """All documents that install this operator, in the order to apply them.

        Args:
            namespace: Where it runs; by default a namespace of its own name.
            image: Container image; by default the operator's name with the tag ``latest``.
            replicas: Number of pods.
            webhook_url: Where the API server calls its webhooks, e.g. ``https://host:9443``; by
                default by its Service.
            **extras: What is printed on request only:
                network_policy (bool): Shut the pods off, but for the webhooks' port and, with
                ``service_monitor``, namespaces labelled ``metrics: enabled``.
                service_monitor (bool): Have Prometheus scrape the replicas.
                prometheus_rule (bool): Alert on what needs a person.
                dashboard (bool): A Grafana dashboard, in a ConfigMap.

        Raises:
            ConfigurationError: Something can't be used, or can't be expressed as a CRD.
        """
        namespace = namespace or self._object_name
        return documents.manifests(
            self._object_name,
            self._declaration,
            namespace=namespace,
            target=documents.target_of(self._declaration, namespace, webhook_url),
            election=self._election,
            crds=self.crds(namespace=namespace, webhook_url=webhook_url),
            rules=self.rules(),
            image=self.default_image if image is None else image,
            replicas=replicas,
            drain_seconds=self.stop_seconds,
            **extras,
        )

    def unnamed_host(self, webhook_url: str, namespace: str | None = None) -> str | None:
        """The URL's host, if webhooks are called there and their certificate does not name it.

        Args:
            webhook_url: Where the API server calls them.
            namespace: Where it runs; by default a namespace of its own name.
        """
        where = namespace or self._object_name
        return documents.unnamed_host(self._declaration, where, webhook_url)

    def converts(self, crd: Mapping[str, Any], namespace: str | None = None) -> bool:
        """Whether a CRD, as it is in a cluster, calls this operator for conversions.

        Args:
            crd: The CustomResourceDefinition, whoever wrote it.
            namespace: Where the operator runs; by default a namespace of its own name.
        """
        return documents.converts(self._declaration, namespace or self._object_name, crd)

    @property
    def default_image(self) -> str:
        """The image that the manifests name when none is given."""
        return f"{self._object_name}:latest"

    @property
    def stop_seconds(self) -> float:
        """How long what is under way may go on at a stop: reconciles, then webhook calls.

        The bound of a stop and the pods' grace period follow from it. Of the calls only what is
        longer than the default counts: the rest runs beside the end of cancelled reconciles.
        """
        if not self._declaration:
            return self.drain_seconds
        longer = max(0.0, self._declaration.call_seconds - TIMEOUT_SECONDS)
        return max(self.drain_seconds, self.lag_seconds) + longer

    async def run(
        self,
        *,
        http_port: int | None = None,
        webhook_port: int | None = WEBHOOK_PORT,
        tls_files: TlsFiles | None = None,
        kubeconfig: str | None = None,
        context: str | None = None,
    ) -> None:
        """Run everything until `stop` is called, or something ends that must not.

        A cancellation cuts running reconciles short and drops events that wait; the Lease is
        released all the same.

        Args:
            http_port: Serve metrics and probes on this port; 0 for any free one, None for none.
            webhook_port: Serve the webhooks, if there are any, on this port; 0 for any free one,
                None to leave them to others.
            tls_files: Serve them with the certificate and key in these files, and follow their
                changes, instead of one that the operator looks after itself.
            kubeconfig: Path of a kubeconfig, unless the operator was given a client.
            context: Name of a context in it, or in those of KUBECONFIG; by default the current one.

        Raises:
            ConfigurationError: The definition is incomplete, or the surroundings are wrong.
            LeadershipLost: Another replica leads, or may; the process must end.
        """
        self._check_not_run(
            f"operator {self.name} was run before", "make a new Operator for each run"
        )
        self.check_complete()
        self.webhooks.seal()
        self._lifecycle = Lifecycle(
            self.name,
            list(self._runnables.values()),
            election=self._election,
            drain_seconds=self.drain_seconds,
            webhooks=self._service(webhook_port, tls_files),
            lag_seconds=self.lag_seconds,
        )
        await self._lifecycle.run(
            self._client, http_port=http_port, kubeconfig=kubeconfig, context=context
        )

    def confined(self, namespace: str, client: Client | None = None) -> Operator:
        """A copy that works in one namespace alone, beside others, and has not run so far.

        For tests, which run one definition again and again, and at the same time. Controllers
        watch only that namespace, but for kinds that live in none and what a `Watch` names, and
        the Lease is in it; a stop does not wait until no API server calls any more. A `Runnable`
        of one's own is shared by all copies.

        Args:
            namespace: The namespace.
            client: The API server to use; the caller closes it. By default the original's.

        Raises:
            ConfigurationError: Two controllers share a finalizer and are no shards.
        """
        check_shards(self._controllers(), f"operator {self.name}")
        copied = self._copied(client or self._client, namespace)
        copied._is_confined = True
        if self._election is not None:
            copied._election = replace(self._election, namespace=namespace)
        return copied

    def for_development(self, client: Client, *, alone: bool) -> Operator:
        """A copy that ends at once, and has not run so far.

        Args:
            client: The API server to use; the caller closes it.
            alone: Whether nobody else can run it there; then it works without a Lease.
        """
        copied = self._copied(client)
        copied.drain_seconds = min(self.drain_seconds, DEVELOPMENT_DRAIN_SECONDS)
        if alone:
            copied._election = None
        return copied

    def main(self, argv: Sequence[str] | None = None) -> NoReturn:
        """Be the program's command line: ``serve``, ``dev``, ``uninstall``, ``--manifests``.

        Args:
            argv: Arguments without the program's name; by default those of the process.

        Raises:
            SystemExit: Always, with the exit code.
        """
        from rws_operator.cli import main

        raise SystemExit(main(self, argv))

    def _copied(self, client: Client | None, namespace: str | None = None) -> Operator:
        """A copy that has not run so far, whatever this one does, and leaves without a lag.

        Controllers, webhooks and rules that are declared on it stay there. Shared are Runnables
        of the author's own, and the functions that convert.
        """
        copied = copy.copy(self)
        copied.lag_seconds = 0.0
        copied._client = client
        copied._lifecycle = None
        copied._runnables = {
            name: each.confined(namespace) if isinstance(each, Controller) else each
            for name, each in self._runnables.items()
        }
        copied._rules = self._rules.copy()
        copied._declaration = self._declaration.copy()
        return copied

    def _controllers(self) -> list[Controller[Any]]:
        return [each for each in self._runnables.values() if isinstance(each, Controller)]

    def _versions(self) -> list[list[type[CustomResource]]]:
        return documents.versions(self._runnables.values(), self._declaration)

    def _service(self, port: int | None, tls_files: TlsFiles | None) -> WebhookService | None:
        if not self._declaration or port is None:
            return None
        from rws_operator.webhook.service import WebhookService  # brings cryptography along

        return WebhookService(
            self._declaration,
            name=self.name,
            object_name=self._object_name,
            port=port,
            tls_files=tls_files,
        )


def _finite(seconds: float, what: str) -> float:
    if not 0 <= check_seconds(seconds, what) < math.inf:
        raise ConfigurationError(
            f"{what}={seconds}", remedy="use a finite number of seconds from 0"
        )
    return seconds
