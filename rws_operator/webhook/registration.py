"""`Registration`: one admission webhook, and what may be said of it.

Pure data, checked when it is made: what the API server would refuse of a configuration is refused
here, with the remedy. `admission` answers by it, `documents` writes it down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rws_operator.resources import CustomResource, Kind

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
    """One webhook, its options resolved; see `RegistrationOptions`."""

    kind: Kind
    resource: Kind | type[CustomResource]
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

    @property
    def resources(self) -> tuple[str, ...]:
        """What a rule names, e.g. ``("backups", "backups/status")``."""
        plural = self.kind.plural
        return tuple(f"{plural}/{sub}" if sub else plural for sub in self.subresources)


def default_path(verb: Literal["validate", "mutate"], kind: Kind) -> str:
    """The path of a webhook that names none, e.g. ``/validate/backups.example.com/v1``."""
    return f"/{verb}/{kind.plural}.{kind.group or 'core'}/{kind.version}"


CONVERSION_PATH = "/convert"
