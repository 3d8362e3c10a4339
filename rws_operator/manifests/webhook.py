"""Webhook configurations and a CRD's conversion webhook as documents.

`webhook` makes one entry, `webhook_configuration` a configuration of one, `configuration_of` one
of several. A document that is printed without a caBundle leaves the one in the cluster as it is
when it is applied again, by the client's merge and by the server's.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from rws_operator.controller.checks import check_type
from rws_operator.errors import ConfigurationError
from rws_operator.manifests.label_selector import check_selector
from rws_operator.manifests.names import check_qualified, check_subdomain
from rws_operator.manifests.webhook_rule import WebhookRule

if TYPE_CHECKING:
    from rws_operator.manifests.webhook_target import WebhookTarget

SideEffects = Literal["None", "NoneOnDryRun"]
MatchPolicy = Literal["Equivalent", "Exact"]
Reinvocation = Literal["Never", "IfNeeded"]

TIMEOUT_SECONDS = 10
"""How long the API server waits for an answer unless it is told otherwise."""
_TIMEOUTS = (1, 30)
_CONDITIONS_END = 64
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class EntryOptions(TypedDict, total=False):
    """What `webhook_configuration` hands on to `webhook`."""

    timeout_seconds: int
    side_effects: SideEffects
    match_policy: MatchPolicy
    match_conditions: Mapping[str, str] | None
    namespace_selector: Mapping[str, Any] | None
    object_selector: Mapping[str, Any] | None
    reinvocation: Reinvocation


def webhook(
    name: str,
    mutating: bool,
    target: WebhookTarget,
    rules: Iterable[WebhookRule],
    *,
    fail_closed: bool = True,
    timeout_seconds: int = TIMEOUT_SECONDS,
    side_effects: SideEffects = "None",
    match_policy: MatchPolicy = "Equivalent",
    match_conditions: Mapping[str, str] | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
    object_selector: Mapping[str, Any] | None = None,
    reinvocation: Reinvocation = "Never",
) -> dict[str, Any]:
    """One entry of a webhook configuration.

    Args:
        name: A DNS name of at least three parts, e.g. ``validate.backups.example.com``.
        mutating: Whether it may change objects.
        target: Where it is called.
        rules: Which requests are sent to it.
        fail_closed: Whether a request is refused that it gives no answer to.
        timeout_seconds: How long the API server waits for the answer, 1 to 30.
        side_effects: ``NoneOnDryRun`` if it has effects outside of the object, but for dry runs.
        match_policy: Whether ``rules`` also mean the same objects under other versions.
        match_conditions: CEL expressions by name, all of which must hold for the webhook to be
            called, e.g. ``{"not-ours": "request.userInfo.username != 'me'"}``.
        namespace_selector: A label selector for the object's namespace.
        object_selector: A label selector for the object.
        reinvocation: Whether a mutating webhook is called again after others changed the object.

    Raises:
        ConfigurationError: The API server would not take it.
    """
    where = f"webhook {check_entry_name(name)}"
    _check_choice(where, "side_effects", side_effects, SideEffects)
    _check_choice(where, "match_policy", match_policy, MatchPolicy)
    _check_choice(where, "reinvocation", reinvocation, Reinvocation)
    check_type(fail_closed, bool, f"{where}: fail_closed", "use True or False")
    entry: dict[str, Any] = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": target.client_config(),
        "rules": _rules(rules, where),
        "failurePolicy": "Fail" if fail_closed else "Ignore",
        "matchPolicy": match_policy,
        "sideEffects": side_effects,
        "timeoutSeconds": check_timeout(timeout_seconds, where),
    }
    if match_conditions:
        entry["matchConditions"] = _conditions(match_conditions, where)
    if namespace_selector:
        entry["namespaceSelector"] = check_selector(
            namespace_selector, f"{where}: namespace_selector"
        )
    if object_selector:
        entry["objectSelector"] = check_selector(object_selector, f"{where}: object_selector")
    if mutating:
        entry["reinvocationPolicy"] = reinvocation
    elif reinvocation != "Never":
        raise ConfigurationError(
            f"{where}: reinvocation={reinvocation!r} of a webhook that validates",
            remedy="leave it out: the API server calls only mutating webhooks again",
        )
    return entry


def webhook_configuration(
    name: str,
    mutating: bool,
    target: WebhookTarget,
    rules: Iterable[WebhookRule],
    fail_closed: bool = True,
    **options: Unpack[EntryOptions],
) -> dict[str, Any]:
    """A Validating- or MutatingWebhookConfiguration of one webhook.

    Args:
        name: Name of the configuration. Its entry has the same where that has three parts, else
            one made from it, e.g. ``backups.validate.webhook``.
        mutating: Whether it may change objects.
        target: Where it is called.
        rules: Which requests are sent to it.
        fail_closed: Whether a request is refused that it gives no answer to.
        options: The others of `webhook`.

    Raises:
        ConfigurationError: The API server would not take it.
    """
    check_type(name, str, "webhook configuration: name", 'pass a text: "backups"')
    suffix = ".mutate.webhook" if mutating else ".validate.webhook"
    entry = name if name.count(".") >= 2 else name + suffix
    only = webhook(entry, mutating, target, rules, fail_closed=fail_closed, **options)
    return configuration_of(name, mutating, [only])


def configuration_of(
    name: str,
    mutating: bool,
    entries: Sequence[Mapping[str, Any]],
    *,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A Validating- or MutatingWebhookConfiguration of the given entries.

    Args:
        name: Name of the configuration.
        mutating: Whether its webhooks may change objects.
        entries: What `webhook` gave, each under a name of its own.
        labels: Labels of the configuration.

    Raises:
        ConfigurationError: The name can't be used, or two entries share theirs.
    """
    check_type(name, str, "webhook configuration: name", 'pass a text: "backups"')
    metadata: dict[str, Any] = {"name": check_subdomain(name, "webhook configuration: name")}
    if labels:
        metadata["labels"] = dict(labels)
    names = [entry["name"] for entry in entries]
    for each in names:
        if names.count(each) > 1:
            raise ConfigurationError(
                f"webhook configuration {name}: {names.count(each)} webhooks are named {each}",
                remedy="give each its own name",
            )
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
        "metadata": metadata,
        "webhooks": [dict(entry) for entry in entries],
    }


def with_conversion_webhook(crd: dict[str, Any], target: WebhookTarget) -> dict[str, Any]:
    """A copy of a CustomResourceDefinition whose versions are converted by a webhook.

    Args:
        crd: The CustomResourceDefinition, e.g. from `crd`.
        target: Where it is called.

    Raises:
        ConfigurationError: ``crd`` is something else.
    """
    remedy = "pass the document of one: with_conversion_webhook(crd(Backup), target)"
    check_type(crd, dict, "CustomResourceDefinition", remedy)
    if crd.get("kind") != "CustomResourceDefinition":
        raise ConfigurationError(f"{crd.get('kind')} is no CustomResourceDefinition", remedy=remedy)
    document = copy.deepcopy(crd)
    document["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": target.client_config(),
        },
    }
    return document


def check_entry_name(name: str) -> str:
    """Return ``name`` if it can name a webhook.

    Raises:
        ConfigurationError: It is no DNS name of three parts or more.
    """
    check_type(name, str, "webhook name", 'pass a text: "validate.backups.example.com"')
    check_subdomain(name, "webhook name")
    if name.count(".") < 2:
        raise ConfigurationError(
            f"webhook name {name!r} has fewer than three parts",
            remedy='write a domain of yours behind it, e.g. "validate.backups.example.com"',
        )
    return name


def check_timeout(seconds: int, where: str) -> int:
    """Return ``seconds`` if the API server can wait so long for a webhook.

    Raises:
        ConfigurationError: It is no whole number from 1 to 30.
    """
    first, last = _TIMEOUTS
    if type(seconds) is not int or not first <= seconds <= last:
        raise ConfigurationError(
            f"{where}: timeout_seconds={seconds!r}",
            remedy=f"use a whole number of seconds from {first} to {last}",
        )
    return seconds


def _rules(rules: Iterable[WebhookRule], where: str) -> list[dict[str, Any]]:
    listed = list(rules)
    for each in listed:
        check_type(each, WebhookRule, f"{where}: rules", "pass WebhookRule(...) values")
    if not listed:
        raise ConfigurationError(
            f"{where} has no rules",
            remedy="say which requests it is for: it would never be called",
        )
    return [each.to_wire() for each in listed]


def _conditions(conditions: Mapping[str, str], where: str) -> list[dict[str, str]]:
    """Match conditions on the wire; a mapping's names are unique already."""
    remedy = "pass CEL expressions by name: {'has-spec': 'has(object.spec)'}"
    check_type(conditions, Mapping, f"{where}: match_conditions", remedy)
    if len(conditions) > _CONDITIONS_END:
        raise ConfigurationError(
            f"{where}: {len(conditions)} match conditions",
            remedy=f"join some by '&&': the API server takes {_CONDITIONS_END}",
        )
    for name, expression in conditions.items():
        check_type(name, str, f"{where}: match condition", "name it by a text")
        check_qualified(name, f"{where}: match condition")
        what = f"{where}: match condition {name}"
        check_type(expression, str, what, "pass a CEL expression as text")
        if not expression.strip() or _CONTROL.search(expression):
            raise ConfigurationError(
                f"{what}: {expression!r} is no CEL expression", remedy="write what must hold"
            )
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def _check_choice(where: str, option: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        raise ConfigurationError(
            f"{where}: {option}={value!r}", remedy=f"use one of {', '.join(get_args(choices))}"
        )
