"""The controller: which kind it serves, what it watches besides, and the author's handlers.

A Controller is a definition first; it can be made, read (`rules`, `kinds`) and checked with no
cluster in sight. `bind` gives it an Operator's environment and subscribes it to its informers;
`run` works until the environment is stopping. The work itself is `rws_operator.controller.loop`.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

from rws_operator import metrics
from rws_operator.controller.backoff import Backoff
from rws_operator.controller.checks import (
    as_tuple,
    check_finalizer,
    check_name,
    check_namespaces,
    check_reporter,
    check_selector,
    check_type,
)
from rws_operator.controller.finalizer import Finalizer
from rws_operator.controller.form import reader_of_kind
from rws_operator.controller.handlers import check_handler, name_of
from rws_operator.controller.loop import Loop
from rws_operator.controller.mapping import MappedTrigger
from rws_operator.controller.observer import Observer
from rws_operator.controller.reconciler import Cleanup, Reconciler
from rws_operator.controller.strays import Strays
from rws_operator.controller.triggers import Watch
from rws_operator.controller.watched import WatchedInformers
from rws_operator.errors import ConfigurationError, check_seconds
from rws_operator.resources import CustomResource, Kind, KindLike, PolicyRule, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rws_operator.controller.action import Action
    from rws_operator.controller.blocking import BlockingContext
    from rws_operator.controller.context import Context
    from rws_operator.controller.environment import Environment

T = TypeVar("T")
R = TypeVar("R", bound=CustomResource)

_BACKOFF = Backoff()
_READ = ("get", "list", "watch")
_OWN = (*_READ, "create", "patch", "delete")


class ControllerOptions(TypedDict, total=False):
    """The keywords of `Controller`, for type checkers; what they mean stands there."""

    name: str | None
    owns: Sequence[KindLike]
    watches: Sequence[Watch]
    reads: Sequence[KindLike]
    versions: Sequence[type[CustomResource]]
    namespaces: Sequence[str] | None
    label_selector: str | None
    field_selector: str | None
    workers: int
    deadline_seconds: float
    on_error: Backoff
    reporter: str | None


class Controller(Generic[T]):
    """Keeps the objects of one kind as their spec says.

    Args:
        kind: What it serves: a CustomResource class gives handlers instances, a Kind dicts.
        name: Label of its metrics and logs; unique within an Operator, default the kind's name.
        owns: Kinds of its children; a change of a child runs its owner.
        watches: Further kinds whose changes run objects, each through a mapping.
        reads: Further kinds for cached ``get`` and ``list``, whose changes run nothing.
        versions: The kind's other versions as classes, for its CRD.
        namespaces: Where it watches; None for all namespaces.
        label_selector: Restricts the objects it serves, e.g. ``shard=1``. One that leaves the
            selection counts as gone, and keeps its finalizer. If it is deleted later it is cleaned
            up here, too, unless another controller with the same finalizer has done so within a
            minute: so what may clean up for each other shares a finalizer, and nothing else does.
            Controllers that split a kind by label know nothing of each other's runs: an object
            that moves from one to another may be run by both at once.
        field_selector: Restricts the objects it serves, e.g. ``metadata.name=x``.
        workers: How many objects it runs at once.
        deadline_seconds: How long one run may take; then it is cancelled and backs off. A plain
            function's thread, or one of `asyncio.to_thread`, can't be cancelled: its object stays
            locked until it ends.
        on_error: How long to wait after a failure.
        reporter: Its event reporter, default the operator's name.

    Raises:
        ConfigurationError: An argument is not as it must be; says which and why.
    """

    @overload
    def __init__(
        self: Controller[dict[str, Any]], kind: Kind, **options: Unpack[ControllerOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Controller[R], kind: type[R], **options: Unpack[ControllerOptions]
    ) -> None: ...
    def __init__(
        self,
        kind: KindLike,
        *,
        name: str | None = None,
        owns: Sequence[KindLike] = (),
        watches: Sequence[Watch] = (),
        reads: Sequence[KindLike] = (),
        versions: Sequence[type[CustomResource]] = (),
        namespaces: Sequence[str] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        workers: int = 8,
        deadline_seconds: float = 120.0,
        on_error: Backoff = _BACKOFF,
        reporter: str | None = None,
    ) -> None:
        self.kind = kind_of(kind)
        self.name = self.kind.kind if name is None else name
        self.resource: KindLike = kind
        self.versions = as_tuple("versions", versions)
        self.owns = as_tuple("owns", owns)
        self.watches = as_tuple("watches", watches)
        self.reads = as_tuple("reads", reads)
        self.namespaces = check_namespaces(namespaces, f"controller {self.name}")
        self.label_selector = label_selector
        self.field_selector = field_selector
        self.workers = workers
        self.deadline_seconds = deadline_seconds
        self.on_error = on_error
        self.reporter = reporter
        self.finalizer_name: str | None = None
        self._reconcile: Callable[..., Any] | None = None
        self._cleanup: Callable[..., Any] | None = None
        self._rules: list[PolicyRule] = []
        self._loop: Loop | None = None
        self._mappings: list[MappedTrigger] = []
        self._check()

    def __repr__(self) -> str:
        return f"Controller({self.name!r}, kind={self.kind})"

    @overload
    def reconcile(
        self, function: Callable[[T, Context], Coroutine[Any, Any, Action | None]]
    ) -> Callable[[T, Context], Coroutine[Any, Any, Action | None]]: ...
    @overload
    def reconcile(
        self, function: Callable[[T, BlockingContext], Action | None]
    ) -> Callable[[T, BlockingContext], Action | None]: ...
    def reconcile(self, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Decorate the function that brings about what an object's spec says.

        It is called with the object and a Context (a plain function: in a thread, with a
        BlockingContext) and answers an Action or None. What it raises is retried with back-off,
        but for PermanentError and RetryAfter, and for the refusal to create anything in the
        object's namespace while that is being deleted: then the object's own deletion is next.
        An object being deleted never reaches it.

        One run of an object at a time. A run lasts as long as what it gives to threads with
        `asyncio.to_thread` (the loop's default executor), also if the handler no longer waits for
        that: no thread can be cancelled. But await your tasks, by a TaskGroup and not by `gather`,
        which leaves the others where one fails: what a task gives later is not the run's. Where
        you run `Operator.run` in a loop of yours, only plain functions are waited for like that.

        Raises:
            ConfigurationError: There is one already, or it takes other arguments.
        """
        if function is None:
            raise ConfigurationError(
                f"controller {self.name}: reconcile() was called without a function",
                remedy="write @<controller>.reconcile, without parentheses",
            )
        check_handler(function, f"the reconcile of controller {self.name}")
        if self._reconcile is not None:
            raise ConfigurationError(
                f"controller {self.name} has two reconciles: {name_of(self._reconcile)} "
                f"and {name_of(function)}",
                remedy="keep one, or make a second controller of another name",
            )
        self._reconcile = function
        return function

    def finalizer(self, name: str) -> _FinalizerDecorator[T]:
        """Decorate the function that cleans up before an object may go.

        Every object gets the finalizer before reconcile sees it. When the object is deleted the
        function is called; once it answers None (or ``Action.await_change()``) the finalizer is
        taken off. ``Action.requeue(seconds)`` means: not done, call again. It runs at least
        once, so it must be idempotent.

        Args:
            name: The finalizer, a domain of yours and a name, e.g. ``example.com/backup-data``.

        Raises:
            ConfigurationError: The name is no qualified name, or there is a finalizer already.
        """
        if callable(name):
            raise ConfigurationError(
                f"controller {self.name}: the finalizer of {name_of(name)} has no name",
                remedy='name it: @<controller>.finalizer("example.com/backup-data")',
            )
        check_finalizer(name, f"controller {self.name}")
        return _FinalizerDecorator(self, name)

    def rule(self, rule: PolicyRule) -> None:
        """Add a permission that the handlers need beyond what the declarations say."""
        self._rules.append(rule)

    def rules(self) -> list[PolicyRule]:
        """The permissions it needs."""
        group, plural = self.kind.group, self.kind.plural
        rules = [
            PolicyRule(group, (plural,), (*_READ, "patch")),
            PolicyRule(group, (f"{plural}/status",), ("get", "patch")),
            PolicyRule("events.k8s.io", ("events",), ("create", "patch")),
        ]
        if self.owns:
            # OwnerReferencesPermissionEnforcement asks for it where blockOwnerDeletion is set.
            rules.append(PolicyRule(group, (f"{plural}/finalizers",), ("update",)))
        rules += [_rule(kind_of(each), _OWN) for each in self.owns]
        rules += [_rule(kind_of(each.kind), _READ) for each in self.watches]
        rules += [_rule(kind_of(each), _READ) for each in self.reads]
        return rules + self._rules

    def kinds(self) -> list[Kind]:
        """The kinds it serves."""
        return [self.kind]

    def check_complete(self) -> Callable[..., Any]:
        """Return the reconcile.

        Raises:
            ConfigurationError: There is none.
        """
        if self._reconcile is None:
            raise ConfigurationError(
                f"controller {self.name} has no reconcile",
                remedy="decorate a function with @<controller>.reconcile",
            )
        return self._reconcile

    def confined(self, namespace: str | None) -> Controller[T]:
        """A copy that has not run, and watches one namespace, where its kind lives in any.

        Args:
            namespace: None to watch what this one does.
        """
        copied = copy.copy(self)
        copied._rules = self._rules.copy()
        copied._loop, copied._mappings = None, []
        if namespace is not None and self.kind.namespaced:
            copied.namespaces = check_namespaces([namespace], f"controller {self.name}")
        return copied

    def bind(self, environment: Environment) -> None:
        """Take what an Operator lends, and subscribe to the informers.

        Raises:
            ConfigurationError: It has no reconcile.
        """
        reconcile = self.check_complete()
        metrics.declare_controller(self.name, workers=self.workers)
        environment.threads.reserve(self.workers)
        watched = WatchedInformers(self.name, self.namespaces, environment.informers)
        main = watched.declare(
            self.kind, label_selector=self.label_selector, field_selector=self.field_selector
        )
        strays = Strays.beside(main, self.finalizer_name, environment.informers)
        reconciler = self._reconciler(reconcile, environment, watched)
        loop = Loop(
            name=self.name,
            main=main,
            strays=strays,
            watched=watched,
            environment=environment,
            reconciler=reconciler,
            observer=Observer(
                self.name,
                self.kind,
                environment.recorder,
                self.reporter,
                reconciler.handler_names,
            ),
            workers=self.workers,
            deadline_seconds=self.deadline_seconds,
            on_error=self.on_error,
        )
        for informer in main:
            informer.subscribe(loop.object_changed)
        strays.subscribe(loop.stray_changed)
        self._subscribe(loop, watched)
        self._loop = loop

    async def run(self) -> None:
        """Reconcile until ``environment.stopping`` is set, once synced and leading.

        A cancellation cuts the work at once instead of letting it end.

        Raises:
            ConfigurationError: It is not bound.
        """
        if self._loop is None:
            raise ConfigurationError(
                f"controller {self.name} runs without an operator",
                remedy="add it to an Operator: operator.add(controller)",
            )
        try:
            await self._loop.run()
        finally:
            for mapping in self._mappings:
                mapping.close()

    @property
    def left_behind(self) -> int:
        """How many runs are still at work after `run` has ended: handlers that hang."""
        return self._loop.left_behind if self._loop is not None else 0

    def _subscribe(self, loop: Loop, watched: WatchedInformers) -> None:
        child_changed = loop.child_changed(self.kind)
        for owned in self.owns:
            for informer in watched.declare(kind_of(owned), keep_own_fields=True):
                informer.subscribe(child_changed)
        self._mappings = []
        for watch in self.watches:
            mapping = MappedTrigger(watch, self.kind, self.name, loop.add, loop.add_all)
            self._mappings.append(mapping)
            # Runs may write there too: which fields are ours tells their writes from others'.
            declared = watched.declare(
                kind_of(watch.kind),
                keep_own_fields=True,
                namespaces=watch.namespaces,
                label_selector=watch.label_selector,
            )
            for informer in declared:
                informer.subscribe(mapping)
        for read in self.reads:
            watched.declare(kind_of(read))

    def _reconciler(
        self,
        reconcile: Callable[..., Any],
        environment: Environment,
        watched: WatchedInformers,
    ) -> Reconciler:
        cleanup = None
        if self._cleanup is not None and self.finalizer_name is not None:
            finalizer = Finalizer(self.finalizer_name, environment.client, environment.operator)
            cleanup = Cleanup(finalizer, self._cleanup)
        read = reader_of_kind(self.resource)
        return Reconciler(reconcile, cleanup, read, environment, watched, self.reporter)

    def _add_cleanup(self, finalizer: str, function: Callable[..., Any]) -> None:
        check_handler(function, f"the cleanup of controller {self.name}")
        if self.finalizer_name is not None:
            raise ConfigurationError(
                f"controller {self.name} has two finalizers: {self.finalizer_name} and {finalizer}",
                remedy="keep one; its cleanup can do both",
            )
        self.finalizer_name = finalizer
        self._cleanup = function

    def _check(self) -> None:
        where = f"controller {self.name}"
        check_name(self.name, where)
        if self.reporter is not None:
            check_reporter(self.reporter, where)
        check_selector("label_selector", self.label_selector, where)
        check_selector("field_selector", self.field_selector, where)
        if type(self.workers) is not int or self.workers < 1:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}", remedy="use a whole number from 1"
            )
        deadline = check_seconds(self.deadline_seconds, f"{where}: deadline_seconds")
        if not 0 < deadline < math.inf:
            raise ConfigurationError(
                f"{where}: deadline_seconds={deadline}",
                remedy="use a finite number of seconds above 0",
            )
        check_type(self.on_error, Backoff, f"{where}: on_error", "pass Backoff(first=...)")
        for watch in self.watches:
            check_type(watch, Watch, f"{where}: one of watches", "pass Watch(kind, to=...)")
        self._check_kinds()

    def _check_kinds(self) -> None:
        def refuse(what: str, remedy: str) -> None:
            raise ConfigurationError(f"controller {self.name}: {what}", remedy=remedy)

        if self.namespaces and not self.kind.namespaced:
            refuse(f"{self.kind.kind} lives in no namespace", "leave namespaces= out")
        for owned in map(kind_of, self.owns):
            if self.kind.namespaced and not owned.namespaced:
                refuse(
                    f"a namespaced {self.kind.kind} can't own the cluster-scoped {owned.kind}",
                    "watch it with a mapping (watches=) and delete it in a finalizer",
                )
        for version in self.versions:
            other = kind_of(version)
            if (other.group, other.kind) != (self.kind.group, self.kind.kind):
                refuse(f"{other} is no version of {self.kind}", "pass classes of the same kind")


class _FinalizerDecorator(Generic[T]):
    """What `Controller.finalizer` returns; keeps the types of what it decorates."""

    def __init__(self, controller: Controller[T], name: str) -> None:
        self._controller = controller
        self._name = name

    @overload
    def __call__(
        self, function: Callable[[T, Context], Coroutine[Any, Any, Action | None]]
    ) -> Callable[[T, Context], Coroutine[Any, Any, Action | None]]: ...
    @overload
    def __call__(
        self, function: Callable[[T, BlockingContext], Action | None]
    ) -> Callable[[T, BlockingContext], Action | None]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self._controller._add_cleanup(self._name, function)
        return function


def _rule(kind: Kind, verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(kind.group, (kind.plural,), verbs)
