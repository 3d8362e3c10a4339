"""`Registration`: one admission webhook, and what may be said of it.

Pure data, checked when it is made, by the same code that writes it down: what the API server would
refuse of a configuration is refused here, with the remedy. `admission` answers by it, `documents`
puts its entry into a configuration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from rws_operator.controller.checks import as_tuple, check_type
from rws_operator.controller.handlers import name_of
from rws_operator.errors import ConfigurationError
from rws_operator.manifests.label_selector import check_selector, outside_namespace
from rws_operator.manifests.webhook import TIMEOUT_SECONDS, EntryOptions, check_entry_name, webhook
from rws_operator.manifests.webhook_rule import Operation, WebhookRule
from rws_operator.manifests.webhook_target import WebhookTarget
from rws_operator.manifests.webhook_target import check_path as check_callable
from rws_operator.resources import Kind, KindLike, kind_of, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Verb = Literal["validate", "mutate"]
FailurePolicy = Literal["Fail", "Ignore"]


class RegistrationOptions(EntryOptions, total=False):
    """What may be said of a webhook beside its kind, its path and its function.

    As `WebhookOptions`, without the path.
    """

    name: str
    operations: Sequence[Operation]
    subresources: Sequence[str]
    failure_policy: FailurePolicy
    exempt_own_namespace: bool


class WebhookOptions(RegistrationOptions, total=False):
    """What `Operator.validate` and `Operator.mutate` take: the path as well.

    Keys:
        path: Where it answers; default e.g. ``/validate/backups.example.com/v1``.
        name: Name of the webhook in its configuration, at least three DNS labels; default e.g.
            ``validate.backups.example.com``.
        operations: Default ``("CREATE", "UPDATE")``.
        subresources: Subresources to be called for in place of the object itself, which is
            written ``""``, e.g. ``("", "status")``. Default: the object itself alone.
        failure_policy: ``Fail`` (default) where a request fails if the webhook can't answer,
            ``Ignore`` where it goes on.
        timeout_seconds: Seconds the API server waits, 1 to 30; default 10.
        side_effects: ``NoneOnDryRun`` where the function writes elsewhere unless
            `AdmissionRequest.dry_run`; default ``None``.
        match_policy: ``Equivalent`` (default) where requests in other versions of the kind are
            converted and reviewed as well, else ``Exact``.
        match_conditions: CEL expressions by name; the webhook is called where all are true.
            Default: none.
        namespace_selector: Label selector of the objects' namespaces, as on the wire. Default:
            all.
        object_selector: Label selector of the objects, as on the wire. Default: all.
        reinvocation: ``IfNeeded`` where the API server may call again after later webhooks
            changed the object; of mutating webhooks only. Default ``Never``.
        exempt_own_namespace: Leave out the operator's own namespace, so that the webhook can't
            keep the operator from being started. Default: only for kinds that are given as a
            Kind, such as built-in ones, and have a namespace or are one.
    """

    path: str


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One webhook, its options resolved; see `WebhookOptions`.

    Raises:
        ConfigurationError: The API server would refuse it, or it can't do what it says.
    """

    kind: Kind
    resource: KindLike
    mutating: bool
    path: str
    name: str
    function: Callable[..., Any]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresources: tuple[str, ...] = ("",)
    failure_policy: FailurePolicy = "Fail"
    exempt_own_namespace: bool = False
    options: EntryOptions = field(default_factory=EntryOptions)
    """What goes into the entry as it is."""

    def __post_init__(self) -> None:
        check_entry_name(self.name)
        check_path(self.path)
        what = f"webhook {self.name}: exempt_own_namespace"
        check_type(self.exempt_own_namespace, bool, what, "use True or False")
        for key in ("match_conditions", "namespace_selector", "object_selector"):
            given = self.options.get(key)
            if given is not None:
                remedy = "pass a dict, or leave it out"
                check_type(given, Mapping, f"webhook {self.name}: {key}", remedy)
        if self.failure_policy not in get_args(FailurePolicy):
            raise ConfigurationError(
                f"webhook {self.name}: failure_policy={self.failure_policy!r}",
                remedy=f"use one of {', '.join(get_args(FailurePolicy))}",
            )
        _check_subresources(self)
        self.entry(WebhookTarget(url="https://somewhere"), "somewhere")

    @property
    def timeout_seconds(self) -> int:
        """Seconds the API server waits."""
        return self.options.get("timeout_seconds", TIMEOUT_SECONDS)

    @property
    def resources(self) -> tuple[str, ...]:
        """What a rule names, e.g. ``("backups", "backups/status")``."""
        plural = self.kind.plural
        return tuple(f"{plural}/{sub}" if sub else plural for sub in self.subresources)

    def entry(self, target: WebhookTarget, own_namespace: str) -> dict[str, Any]:
        """Its entry in a webhook configuration.

        Args:
            target: The server; the path is put behind it.
            own_namespace: Where the operator runs.

        Raises:
            ConfigurationError: The API server would not take it.
        """
        kind = self.kind
        scope: Literal["Namespaced", "Cluster"] = "Namespaced" if kind.namespaced else "Cluster"
        rule = WebhookRule(kind.group, kind.version, self.resources, self.operations, scope)
        options = self.options.copy()
        if self.exempt_own_namespace:
            # Checked first: what is merged must be a selector.
            what = f"webhook {self.name}: namespace_selector"
            selector = check_selector(options.get("namespace_selector") or {}, what)
            options["namespace_selector"] = outside_namespace(selector, own_namespace)
        return webhook(
            self.name,
            self.mutating,
            target.at(self.path),
            [rule],
            fail_closed=self.failure_policy == "Fail",
            **options,
        )


def register(
    mutating: bool,
    resource: KindLike,
    path: str,
    function: Callable[..., Any],
    **options: Unpack[RegistrationOptions],
) -> Registration:
    """Make a registration, what was left open filled in.

    Raises:
        ConfigurationError: As `Registration`; or the function can't be called with a request.
    """
    kind = kind_of(resource)
    verb: Verb = "mutate" if mutating else "validate"
    check_function(function, f"{verb} {kind}", "request")
    given: dict[str, Any] = {
        "name": f"{verb}.{kind.plural}.{kind.group or 'core'}",
        "exempt_own_namespace": _may_stop_us(resource),
        **options,
    }
    for key in ("operations", "subresources"):
        if key in given:
            what = f"webhook {given['name']}: {key}"
            given[key] = as_tuple(what, given[key])
            for each in given[key]:
                check_type(each, str, f"{what}: one of them", "pass texts")
    unknown = given.keys() - RegistrationOptions.__annotations__.keys()
    if unknown:
        raise ConfigurationError(
            f"webhook {given['name']}: unknown option {min(unknown)!r}",
            remedy=f"the options are {', '.join(RegistrationOptions.__annotations__)}",
        )
    of_entry: Any = {key: given.pop(key) for key in EntryOptions.__annotations__ if key in given}
    return Registration(
        kind=kind,
        resource=resource,
        mutating=mutating,
        path=path,
        function=function,
        options=of_entry,
        **given,
    )


def default_path(verb: Verb, kind: Kind) -> str:
    """The path of a webhook that names none, e.g. ``/validate/backups.example.com/v1``."""
    return f"/{verb}/{kind.plural}.{kind.group or 'core'}/{kind.version}"


CONVERSION_PATH = "/convert"


def check_path(path: str) -> str:
    """Return a path if the API server calls it as it stands.

    Raises:
        ConfigurationError: It does not.
    """
    check_type(path, str, "webhook: path", 'pass a text: "/validate-backups"')
    if check_callable(path, "webhook").endswith("/") and path != "/":
        raise ConfigurationError(
            f"webhook: path {path!r} ends with '/'",
            remedy="leave the last '/' out: the API server takes it, but calls without",
        )
    return path


def check_function(function: Callable[..., Any], what: str, *arguments: str) -> None:
    """Refuse what can't be called with the arguments.

    Raises:
        ConfigurationError: Names the function and how to write it.
    """
    name = name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{what}: {name} is a generator: a call of it runs nothing",
            remedy="leave yield out, and return or raise",
        )
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{what}: {name} can't be called with ({', '.join(arguments)}): {error}",
            remedy=f"define it as: async def {name}({', '.join(arguments)})",
        ) from None


_is_subresource = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?").fullmatch


def _may_stop_us(resource: KindLike) -> bool:
    """Whether nobody could start the operator where its webhook does not answer."""
    return isinstance(resource, Kind) and (resource.namespaced or resource == kinds.Namespace)


def _check_subresources(registration: Registration) -> None:
    where, subresources = f"webhook {registration.name}", registration.subresources
    if not subresources:
        raise ConfigurationError(
            f"{where}: subresources is empty", remedy="write '' for the object itself"
        )
    for each in subresources:
        if each and not _is_subresource(each):
            raise ConfigurationError(
                f"{where}: {each!r} is no subresource",
                remedy="write it as behind the object's name in a path, e.g. 'status', or '*'",
            )
    if isinstance(registration.resource, Kind):
        return
    foreign = [each for each in subresources if each not in ("", "status")]
    if foreign:
        name = registration.resource.__name__
        raise ConfigurationError(
            f"{where}: requests to {foreign[0]!r} hold no {name}",
            remedy=f"register kind_of({name}) for it: its handler gets dicts",
        )
