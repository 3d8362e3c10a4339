"""What an Operator declares of webhooks: the functions, the converters, the certificate.

`Operator`'s decorators fill it; its manifests, its CRDs and `service`, which runs it, are made
from it. The decorators return the functions unchanged, with their types.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator.controller.checks import as_tuple, check_type
from rws_operator.errors import ConfigurationError, check_seconds
from rws_operator.manifests.names import check_label, check_subdomain
from rws_operator.resources import CustomResource, Kind, kind_of
from rws_operator.webhook.certificate_terms import LONGEST_SECONDS, YEAR_SECONDS, normal_name
from rws_operator.webhook.conversion import RawConversion, TypedConversion
from rws_operator.webhook.converters import Converters
from rws_operator.webhook.decorators import ConvertDecorator, MutateDecorator, ValidateDecorator
from rws_operator.webhook.registration import CONVERSION_PATH, default_path
from rws_operator.webhook.rotation import check_stages
from rws_operator.webhook.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.webhook.registration import RegistrationOptions, Verb, WebhookOptions

S = TypeVar("S", bound=CustomResource)
G = TypeVar("G", bound=CustomResource)

STAGE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class CertificateSettings:
    """How the webhooks' certificate is kept; see `Operator.certificate`."""

    secret: str
    service: str
    names: tuple[str, ...] = ()
    lifetime_seconds: float = YEAR_SECONDS
    stage_seconds: float = STAGE_SECONDS


class Declaration:
    """The webhooks of one Operator.

    Args:
        name: The operator's name, for errors.
        object_name: Name of the objects that install it.
    """

    def __init__(self, name: str, object_name: str) -> None:
        self._name = name
        self._object_name = object_name
        self.webhooks = Webhooks()
        self.converters = Converters()
        self._converts = False
        self.certificate = CertificateSettings(
            secret=f"{object_name}-webhook-certificate", service=object_name
        )

    def __bool__(self) -> bool:
        return bool(self.webhooks.endpoints)

    def copy(self) -> Declaration:
        """The same declarations, not run so far."""
        copied = copy.copy(self)
        copied.webhooks = self.webhooks.copy()
        return copied

    @property
    def call_seconds(self) -> float:
        """The longest time that a call may take."""
        return max((each.timeout_seconds for each in self.webhooks.endpoints), default=0.0)

    def validate(self, kind: Any, options: WebhookOptions) -> ValidateDecorator[Any]:
        """Make the decorator of a validating function."""
        return ValidateDecorator(self._registering("validate", kind, options))

    def mutate(self, kind: Any, options: WebhookOptions) -> MutateDecorator[Any]:
        """Make the decorator of a mutating function."""
        return MutateDecorator(self._registering("mutate", kind, options))

    def _registering(
        self, verb: Verb, kind: Any, options: WebhookOptions
    ) -> Callable[[Callable[..., Any]], None]:
        self._check_kind(verb, kind)
        path, others = _split(options, default_path(verb, kind_of(kind)))
        add = self.webhooks.mutate if verb == "mutate" else self.webhooks.validate

        def register(function: Callable[..., Any]) -> None:
            add(kind, path, function, **others)

        return register

    def convert(self, source: type[S], target: type[G]) -> ConvertDecorator[S, G]:
        """Make the decorator of a converting function."""
        for cls in (source, target):
            if not _is_class(cls):
                raise ConfigurationError(
                    f"operator {self._name}: convert({source!r}, {target!r})",
                    remedy="write @operator.convert(Source, Target), with CustomResource classes",
                )

        def register(function: Callable[..., Any]) -> None:
            self.webhooks.check_open(f"the conversion of {source.__name__} to {target.__name__}")
            self.converters.add(source, target, function)
            if not self._converts:
                self.webhooks.add(TypedConversion(CONVERSION_PATH, self.converters))
                self._converts = True

        return ConvertDecorator(register)

    def set_certificate(
        self,
        *,
        secret: str | None,
        service: str | None,
        names: Sequence[str],
        lifetime_seconds: float,
        stage_seconds: float,
    ) -> None:
        """Take how the certificate is kept.

        Raises:
            ConfigurationError: A name or a duration can't be used.
        """
        where = f"operator {self._name}: certificate"
        for each in as_tuple(f"{where}: names", names):
            check_type(each, str, f"{where}: one of names", "pass DNS names or IP addresses")
        lifetime_seconds = _positive(lifetime_seconds, f"{where}: lifetime_seconds")
        if lifetime_seconds > LONGEST_SECONDS:
            raise ConfigurationError(
                f"{where}: lifetime_seconds={lifetime_seconds:g}",
                remedy="use at most a hundred years; it is renewed by itself",
            )
        check_stages(lifetime_seconds, _positive(stage_seconds, f"{where}: stage_seconds"), where)
        default = self.certificate
        self.certificate = CertificateSettings(
            secret=check_subdomain(secret or default.secret, f"{where}: secret"),
            service=check_label(service or default.service, f"{where}: service"),
            names=tuple(map(normal_name, names)),
            lifetime_seconds=lifetime_seconds,
            stage_seconds=stage_seconds,
        )

    def _check_kind(self, verb: str, kind: Any) -> None:
        if not isinstance(kind, Kind) and not _is_class(kind):
            raise ConfigurationError(
                f"operator {self._name}: {verb}({kind!r})",
                remedy=f"write @operator.{verb}(Backup), with a CustomResource class or a Kind",
            )

    def classes(self) -> list[type[CustomResource]]:
        """The classes whose CRDs are this operator's: those of conversions and typed webhooks."""
        found = [each for versions in self.converters.kinds for each in versions]
        found += [kind for each in self._raw() for kind in each.kinds if isinstance(kind, type)]
        found += [
            each.resource for each in self.webhooks.registrations if isinstance(each.resource, type)
        ]
        return list(dict.fromkeys(found))

    def conversions(self) -> dict[str, str]:
        """The path where each kind is converted, by the name of its CRD.

        Raises:
            ConfigurationError: A kind is converted at two paths.
        """
        pairs = [(kind_of(versions[0]), CONVERSION_PATH) for versions in self.converters.kinds]
        pairs += [(kind_of(kind), each.path) for each in self._raw() for kind in each.kinds]
        found: dict[str, str] = {}
        for kind, path in pairs:
            if found.setdefault(kind.resource, path) != path:
                raise ConfigurationError(
                    f"operator {self._name}: {kind.resource} is converted at "
                    f"{found[kind.resource]} and at {path}",
                    remedy="its CRD can call only one of them; remove the other",
                )
        return found

    def check_complete(self, served: Sequence[type[CustomResource]]) -> None:
        """Refuse a conversion of unknown kinds, or one that leaves a served version out.

        Raises:
            ConfigurationError: Says what is missing and how to write it.
        """
        for each in self._raw():
            if not each.kinds:
                raise ConfigurationError(
                    f"operator {self._name}: nothing says what is converted at {each.path}",
                    remedy=f"write webhooks.convert({each.path!r}, function, kinds=[Backup, "
                    "BackupV1]), with the class of each version, or a Kind",
                )
        self.conversions()
        self.converters.check_complete(served)

    def needs_conversion(self, kind: Kind) -> bool:
        """Whether a list of the kind may need this operator's own conversion webhook."""
        return kind.resource in self.conversions()

    def _raw(self) -> list[RawConversion]:
        return [each for each in self.webhooks.endpoints if isinstance(each, RawConversion)]


def _is_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, CustomResource)


def _split(options: WebhookOptions, default: str) -> tuple[str, RegistrationOptions]:
    others: Any = dict(options)
    return others.pop("path", default), others


def _positive(seconds: float, what: str) -> float:
    if not 0 < check_seconds(seconds, what) < math.inf:
        raise ConfigurationError(
            f"{what}={seconds}", remedy="use a finite number of seconds above 0"
        )
    return seconds
