"""`Registration`: one admission webhook, and what may be said of it.

Pure data, checked when it is made: what the API server would refuse of a configuration is refused
here, with the remedy. `admission` answers by it, `documents` writes it down.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from rws_operator.controller.handlers import name_of
from rws_operator.errors import ConfigurationError
from rws_operator.resources import Kind, KindLike, kind_of
from rws_operator.resources.names import check_qualified, is_subdomain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Verb = Literal["validate", "mutate"]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]
FailurePolicy = Literal["Fail", "Ignore"]
SideEffects = Literal["None", "NoneOnDryRun"]
MatchPolicy = Literal["Equivalent", "Exact"]
Reinvocation = Literal["Never", "IfNeeded"]


class RegistrationOptions(TypedDict, total=False):
    """What may be said of a webhook beside its kind, its path and its function.

    Keys:
        name: Name of the webhook in its configuration, at least three DNS labels; default e.g.
            ``validate.backups.example.com``.
        operations: Default ``("CREATE", "UPDATE")``.
        subresources: Subresources to be called for in place of the object itself, which is
            written ``""``, e.g. ``("", "status")``. Default: the object itself alone.
        failure_policy: Whether a request fails (default) where the webhook can't answer.
        timeout_seconds: Seconds the API server waits, 1 to 30; default 10.
        side_effects: ``NoneOnDryRun`` where the function writes elsewhere unless
            `AdmissionRequest.dry_run`; default ``None``.
        match_policy: Whether requests in other versions of the kind are converted and reviewed
            as well (default), or not.
        match_conditions: CEL expressions by name; the webhook is called where all are true.
        namespace_selector: Label selector of the objects' namespaces, as on the wire.
        object_selector: Label selector of the objects, as on the wire.
        reinvocation: Whether the API server may call again after later webhooks changed the
            object; of mutating webhooks only. Default ``Never``.
        exempt_own_namespace: Leave out the operator's own namespace, so that the webhook can't
            keep the operator from being started. Default: only for namespaced kinds that are
            given as a Kind, such as built-in ones.
    """

    name: str
    operations: Sequence[Operation]
    subresources: Sequence[str]
    failure_policy: FailurePolicy
    timeout_seconds: int
    side_effects: SideEffects
    match_policy: MatchPolicy
    match_conditions: Mapping[str, str]
    namespace_selector: Mapping[str, Any]
    object_selector: Mapping[str, Any]
    reinvocation: Reinvocation
    exempt_own_namespace: bool


class WebhookOptions(RegistrationOptions, total=False):
    """What the decorators take: the path as well.

    Keys:
        path: Default `default_path`.
    """

    path: str


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One webhook, its options resolved; see `RegistrationOptions`.

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
    timeout_seconds: int = 10
    side_effects: SideEffects = "None"
    match_policy: MatchPolicy = "Equivalent"
    match_conditions: Mapping[str, str] | None = None
    namespace_selector: Mapping[str, Any] | None = None
    object_selector: Mapping[str, Any] | None = None
    reinvocation: Reinvocation = "Never"
    exempt_own_namespace: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)
        if not is_subdomain(self.name) or self.name.count(".") < 2:
            raise _refused(self, f"the name {self.name!r} is not made of three DNS labels or more")
        _check_choices(self)
        _check_operations(self)
        _check_subresources(self)
        _check_timeout(self)
        for name in self.match_conditions or {}:
            check_qualified(name, f"{self.name}: the match condition's name")
        if self.reinvocation != "Never" and not self.mutating:
            raise _refused(self, "reinvocation is for mutating webhooks only")

    @property
    def resources(self) -> tuple[str, ...]:
        """What a rule names, e.g. ``("backups", "backups/status")``."""
        plural = self.kind.plural
        return tuple(f"{plural}/{sub}" if sub else plural for sub in self.subresources)


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
        "exempt_own_namespace": isinstance(resource, Kind) and kind.namespaced,
        **options,
    }
    for key in ("operations", "subresources"):
        if key in given:
            given[key] = _several(given[key], f"{given['name']}: {key}")
    unknown = given.keys() - Registration.__dataclass_fields__.keys()
    if unknown:
        raise ConfigurationError(
            f"{given['name']}: unknown option {min(unknown)!r}",
            remedy=f"the options are {', '.join(RegistrationOptions.__annotations__)}",
        )
    return Registration(
        kind=kind, resource=resource, mutating=mutating, path=path, function=function, **given
    )


def default_path(verb: Verb, kind: Kind) -> str:
    """The path of a webhook that names none, e.g. ``/validate/backups.example.com/v1``."""
    return f"/{verb}/{kind.plural}.{kind.group or 'core'}/{kind.version}"


CONVERSION_PATH = "/convert"


def check_path(path: str) -> str:
    """Return a path if a webhook's configuration may name it.

    Raises:
        ConfigurationError: It may not.
    """
    parts = path[1:].split("/")
    if not path.startswith("/") or (path != "/" and not all(map(is_subdomain, parts))):
        raise ConfigurationError(
            f"{path!r} can't be a webhook's path",
            remedy="begin it with '/', and let each part be of a-z, 0-9, '-' and '.'",
        )
    return path


def check_function(function: Callable[..., Any], what: str, *arguments: str) -> None:
    """Refuse what can't be called with the arguments.

    Raises:
        ConfigurationError: Names the function and how to write it.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        name = name_of(function)
        raise ConfigurationError(
            f"{what}: {name} can't be called with ({', '.join(arguments)}): {error}",
            remedy=f"define it as: async def {name}({', '.join(arguments)})",
        ) from None


def _several(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise ConfigurationError(f"{what} is the text {value!r}", remedy=f"write [{value!r}]")
    return tuple(value)


def _refused(
    registration: Registration, what: str, remedy: str | None = None
) -> ConfigurationError:
    verb = "mutate" if registration.mutating else "validate"
    return ConfigurationError(
        f"{verb} {registration.kind}: {what}", remedy=remedy or "see RegistrationOptions"
    )


_CHOICES: Mapping[str, Any] = {
    "failure_policy": FailurePolicy,
    "side_effects": SideEffects,
    "match_policy": MatchPolicy,
    "reinvocation": Reinvocation,
}


def _check_choices(registration: Registration) -> None:
    for option, choices in _CHOICES.items():
        value = getattr(registration, option)
        if value not in get_args(choices):
            raise _refused(
                registration,
                f"{option} {value!r} is unknown",
                f"it is one of {', '.join(get_args(choices))}",
            )


def _check_operations(registration: Registration) -> None:
    operations = registration.operations
    known = get_args(Operation)
    if not operations or not set(operations) <= set(known):
        raise _refused(
            registration,
            f"operations {list(operations)} can't be",
            f"name one or more of {', '.join(known)}",
        )
    if "*" in operations and len(operations) > 1:
        raise _refused(registration, "'*' stands for all operations", "leave the others out")


def _check_subresources(registration: Registration) -> None:
    subresources = registration.subresources
    if not subresources:
        raise _refused(registration, "subresources is empty", "'' stands for the object itself")
    if isinstance(registration.resource, Kind):
        return
    foreign = [each for each in subresources if each not in ("", "status")]
    if foreign:
        name = registration.resource.__name__
        raise _refused(
            registration,
            f"requests to {foreign[0]!r} hold no {name}",
            f"register kind_of({name}) for it: its handler gets dicts",
        )


def _check_timeout(registration: Registration) -> None:
    seconds: Any = registration.timeout_seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= 30:
        raise _refused(
            registration, f"timeout_seconds is {seconds!r}", "use a whole number from 1 to 30"
        )
