"""The caBundle of webhook entries: which entries are ours, and the patch that changes them.

A patch names each entry by its position, so it tests first that the entry there is still the one
that was read; if anything else was written meanwhile, the API server refuses it whole.
Invariant: nothing but `caBundle` is changed, and that only in entries of ours.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rws_operator.resources.kind import Kind

Authorities = tuple[str, ...]


@dataclass(frozen=True)
class BundleTargets:
    """Whose caBundle is ours to keep.

    Args:
        service: (name, namespace) of our Service; None where the API server calls a URL.
        validating: Name of a ValidatingWebhookConfiguration → names of our entries in it.
        mutating: The same of MutatingWebhookConfigurations.
        crds: Names of the CRDs that we convert.
    """

    service: tuple[str, str] | None = None
    validating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mutating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    crds: tuple[str, ...] = ()

    def objects(self) -> list[BundleObject]:
        """The objects that hold a caBundle of ours."""
        return [
            *(
                BundleObject(kinds.ValidatingWebhookConfiguration, *each)
                for each in self.validating.items()
            ),
            *(
                BundleObject(kinds.MutatingWebhookConfiguration, *each)
                for each in self.mutating.items()
            ),
            *(BundleObject(kinds.CustomResourceDefinition, name) for name in self.crds),
        ]


@dataclass(frozen=True)
class BundleObject:
    """A webhook configuration, or a CRD.

    Args:
        kind: Which of them.
        name: Its name.
        entries: Names of our entries in a configuration.
    """

    kind: Kind
    name: str
    entries: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind.resource}/{self.name}"


@dataclass(frozen=True)
class BundleEntry:
    """A place where a caBundle stands.

    Args:
        path: JSON pointer of its clientConfig.
        client_config: As it was read.
        identity: What tells that the entry at this place is the one that was read: a JSON
            pointer and its value.
        name: The entry's name; "" in a CRD.
    """

    path: str
    client_config: Mapping[str, Any]
    identity: tuple[str, str]
    name: str = ""

    @property
    def holds(self) -> Authorities:
        """The CAs of its caBundle; none where that can't be read."""
        from rws_operator.webhook.inspection import authorities  # takes a while to import

        try:
            encoded = self.client_config.get("caBundle") or ""
            text = base64.b64decode(encoded).decode(errors="replace")  # comments may be in any
            return authorities(text) if text.strip() else ()
        except (binascii.Error, ConfigurationError):
            return ()


def all_entries(of: BundleObject, wire: Mapping[str, Any]) -> list[BundleEntry]:
    """The entries of an object, whoever's they are; none of a CRD that no webhook converts."""
    if of.kind == kinds.CustomResourceDefinition:
        conversion = (wire.get("spec") or {}).get("conversion") or {}
        if conversion.get("strategy") != "Webhook":
            return []
        config = (conversion.get("webhook") or {}).get("clientConfig") or {}
        identity = ("/spec/conversion/strategy", "Webhook")
        return [BundleEntry("/spec/conversion/webhook/clientConfig", config, identity)]
    return [
        BundleEntry(
            f"/webhooks/{i}/clientConfig",
            entry["clientConfig"],
            (f"/webhooks/{i}/name", entry["name"]),
            entry["name"],
        )
        for i, entry in enumerate(wire.get("webhooks") or ())
    ]


def our_entries(
    of: BundleObject, wire: Mapping[str, Any], service: tuple[str, str] | None
) -> list[BundleEntry]:
    """The entries of an object that call us: ours by name, and at our Service or by URL."""
    return [entry for entry in _named_entries(of, wire) if _calls_us(entry.client_config, service)]


def elsewhere(
    of: BundleObject, wire: Mapping[str, Any], service: tuple[str, str] | None
) -> list[str]:
    """What bears our name in an object and yet calls another Service: a line for each.

    Its caBundle is not ours to write. Where nobody meant that, this process and what was
    installed differ in the namespace or the Service's name.
    """
    ours = "/".join(reversed(service)) if service is not None else "none"
    lines = []
    for entry in _named_entries(of, wire):
        if not _calls_us(entry.client_config, service):
            called = entry.client_config.get("service") or {}
            where = f"{called.get('namespace')}/{called.get('name')}"
            lines.append(
                f"{f'{of} {entry.name}'.strip()} calls Service {where}, not ours ({ours}): its"
                " caBundle is left alone; if it should call us, check POD_NAMESPACE and install"
                " the manifests of that namespace"
            )
    return lines


def patch_of(
    entries: list[BundleEntry], wanted: Callable[[Authorities], Authorities]
) -> list[dict[str, Any]]:
    """The JSON patch that gives each entry the CAs it is to hold; [] where each does.

    Args:
        entries: Of one object.
        wanted: The CAs that an entry is to hold, from those that it holds.
    """
    operations: list[dict[str, Any]] = []
    for entry in entries:
        holds = entry.holds
        bundle = wanted(holds)
        if bundle == holds:
            continue
        pointer, value = entry.identity
        encoded = base64.b64encode("".join(bundle).encode()).decode()
        operations += [
            {"op": "test", "path": pointer, "value": value},
            {"op": "test", "path": entry.path, "value": entry.client_config},
            {"op": "add", "path": f"{entry.path}/caBundle", "value": encoded},
        ]
    return operations


def _named_entries(of: BundleObject, wire: Mapping[str, Any]) -> list[BundleEntry]:
    return [
        entry
        for entry in all_entries(of, wire)
        if entry.name in of.entries or of.kind == kinds.CustomResourceDefinition
    ]


def _calls_us(config: Mapping[str, Any], service: tuple[str, str] | None) -> bool:
    called = config.get("service")
    if not called:
        return "url" in config
    return service is not None and (called.get("name"), called.get("namespace")) == service
