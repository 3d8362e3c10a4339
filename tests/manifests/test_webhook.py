"""Webhook entries, rules, targets and selectors: what they become, and what is refused."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rws_operator.errors import ConfigurationError
from rws_operator.manifests import (
    WebhookRule,
    WebhookTarget,
    configuration_of,
    webhook,
    webhook_configuration,
    with_conversion_webhook,
)

SERVICE = WebhookTarget(service="app", namespace="apps", path="/validate")
RULE = WebhookRule("example.com", "v1", "backups", ["CREATE", "UPDATE"])
ENTRY: dict[str, Any] = {
    "name": "validate.backups.example.com",
    "mutating": False,
    "target": SERVICE,
    "rules": [RULE],
}


def authority() -> tuple[str, str]:
    """A CA certificate and its key, in PEM form."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def test_an_entry_says_everything_and_has_no_ca_bundle() -> None:
    """Defaults are written out, so that a change of the server's own can't change ours."""
    assert webhook(**ENTRY) == {
        "name": "validate.backups.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": "app", "namespace": "apps", "path": "/validate", "port": 443}
        },
        "rules": [
            {
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["backups"],
                "scope": "*",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }


def test_each_option_reaches_its_field() -> None:
    """What is asked for stands where the API server looks."""
    entry = webhook(
        "mutate.pods.core",
        True,
        SERVICE,
        [WebhookRule("", "v1", ("pods", "pods/status"), "UPDATE", "Namespaced")],
        fail_closed=False,
        timeout_seconds=30,
        side_effects="NoneOnDryRun",
        match_policy="Exact",
        match_conditions={"not-mine": "request.userInfo.username != 'me'"},
        namespace_selector={"matchLabels": {"a.example.com/b": "c"}},
        object_selector={"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        reinvocation="IfNeeded",
    )
    assert entry["failurePolicy"] == "Ignore"
    assert entry["timeoutSeconds"] == 30
    assert entry["sideEffects"] == "NoneOnDryRun"
    assert entry["matchPolicy"] == "Exact"
    assert entry["matchConditions"] == [
        {"name": "not-mine", "expression": "request.userInfo.username != 'me'"}
    ]
    assert entry["namespaceSelector"] == {"matchLabels": {"a.example.com/b": "c"}}
    assert entry["objectSelector"] == {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert entry["reinvocationPolicy"] == "IfNeeded"
    rule = entry["rules"][0]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/status"], ["UPDATE"])
    assert rule["scope"] == "Namespaced"


@pytest.mark.parametrize(
    ("name", "mutating", "entry"),
    [
        ("backups", False, "backups.validate.webhook"),
        ("backups.example", True, "backups.example.mutate.webhook"),
        ("check.backups.example.com", False, "check.backups.example.com"),
    ],
)
def test_a_configuration_names_its_only_entry(name: str, mutating: bool, entry: str) -> None:
    """A short name, such as the operator's, becomes one of three parts."""
    made = webhook_configuration(name, mutating, SERVICE, [RULE], False, timeout_seconds=5)
    assert made["kind"] == f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration"
    assert made["metadata"] == {"name": name}
    (only,) = made["webhooks"]
    assert only["name"] == entry
    assert (only["failurePolicy"], only["timeoutSeconds"]) == ("Ignore", 5)


@pytest.mark.parametrize(
    ("target", "client_config"),
    [
        ({"url": "https://h:1"}, {"url": "https://h:1"}),
        ({"url": "https://h:1/a/", "path": "/b"}, {"url": "https://h:1/a/b"}),
        ({"url": "https://[::1]:9443", "path": "/b/"}, {"url": "https://[::1]:9443/b/"}),
        (
            {"service": "s", "namespace": "n", "port": 8443},
            {"service": {"name": "s", "namespace": "n", "path": "/", "port": 8443}},
        ),
    ],
)
def test_where_a_target_is_called(target: dict[str, Any], client_config: dict[str, Any]) -> None:
    """A path is put behind a URL, but "/" leaves it as it is."""
    assert WebhookTarget(**target).client_config() == client_config


def test_a_ca_is_written_as_the_api_server_reads_it() -> None:
    """The bundle is the PEM text in base64."""
    certificate, _ = authority()
    config = WebhookTarget(url="https://h", ca_pem=certificate).client_config()
    assert base64.b64decode(config["caBundle"]).decode() == certificate


def test_a_target_at_another_path_is_the_same_server() -> None:
    """Many webhooks share one server; a path that can't be called is refused here too."""
    moved = SERVICE.at("/other")
    assert (moved.path, moved.service, SERVICE.path) == ("/other", "app", "/validate")
    with pytest.raises(ConfigurationError, match="path '/a_b' is not one"):
        SERVICE.at("/a_b")


def test_a_key_in_a_ca_is_refused_without_being_shown() -> None:
    """Nobody prints a private key for all to read, nor into a log."""
    certificate, key = authority()
    with pytest.raises(ConfigurationError, match="holds a private key") as refused:
        WebhookTarget(url="https://h", ca_pem=certificate + key)
    assert key.splitlines()[1] not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "give exactly one of the two"),
        ({"service": "a", "url": "https://h"}, "give exactly one of the two"),
        ({"service": "a"}, "the namespace of the Service a is missing: pass namespace="),
        ({"service": "A", "namespace": "n"}, "service 'A' is not a DNS label"),
        ({"service": 5, "namespace": "n"}, "service=5: pass a text"),
        ({"service": "a", "namespace": "n.m"}, "namespace 'n.m' is not a DNS label"),
        ({"service": "a", "namespace": "n", "port": 0}, "port 0: use 1 to 65535"),
        ({"service": "a", "namespace": "n", "port": "443"}, "port='443': pass a number"),
        ({"url": "http://h"}, "does not start with https://"),
        ({"url": "h:9443"}, "does not start with https://"),
        ({"url": "https://"}, "has no host"),
        ({"url": "https://:9443"}, "has no host"),
        ({"url": "https://h:0"}, "has port 0"),
        ({"url": "https://h:x"}, "is no URL"),
        ({"url": "https://h:99999"}, "is no URL"),
        ({"url": "https://h/?a=b"}, "holds a query: write https://HOST:PORT; each webhook"),
        ({"url": "https://h?"}, "holds a query"),
        ({"url": "https://h/#a"}, "holds a fragment"),
        ({"url": "https://h /a"}, "holds white space"),
        ({"url": "https://h", "path": "x"}, "path 'x' is not one that the API server calls"),
        ({"url": "https://h", "path": "//"}, "path '//' is not one"),
        ({"url": "https://h", "path": "/a//b"}, "path '/a//b' is not one"),
        ({"url": "https://h", "path": "/Upper"}, "path '/Upper' is not one"),
        ({"url": "https://h", "path": "/a?b"}, "path '/a.b' is not one"),
        ({"url": "https://h", "path": 1}, "path=1: pass a text"),
        ({"url": "https://h", "ca_pem": "nonsense"}, "holds no PEM certificate"),
        ({"url": "https://h", "ca_pem": b"x"}, "ca_pem=b'x': pass the PEM text"),
    ],
)
def test_a_target_that_can_not_be_called_is_refused(target: dict[str, Any], message: str) -> None:
    """The error says what is wrong and how to write it."""
    with pytest.raises(ConfigurationError, match=message):
        WebhookTarget(**target)


def test_a_password_in_a_url_is_refused_without_being_shown() -> None:
    """The message may end up in a log."""
    with pytest.raises(ConfigurationError, match="holds a user or password") as refused:
        WebhookTarget(url="https://me:secret@h")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("g.com", "", "pods", "CREATE"), "version '': write it alone"),
        (("g.com", "g.com/v1", "pods", "CREATE"), "version 'g.com/v1': write it alone"),
        (("g.com", "v1", (), "CREATE"), "no resource"),
        (("g.com", "v1", "Pod", "CREATE"), "'Pod' is no plural name"),
        (("g.com", "v1", "pods/", "CREATE"), "'pods/' is no plural name"),
        (("g.com", "v1", "", "CREATE"), "'' is no plural name"),
        (("g.com", "v1", "pods", ()), r"operations \(\): use one or more of CREATE"),
        (("g.com", "v1", "pods", "create"), r"operations \('create',\): use one or more"),
        (("g.com", "v1", "pods", ("*", "CREATE")), "let it stand alone"),
        (("g.com", "v1", ("*", "pods"), "*"), r"'\*' holds 'pods' already"),
        (("g.com", "v1", ("pods/status", "pods/*"), "*"), "holds 'pods/status' already"),
        (("g.com", "v1", ("*/status", "pods/status"), "*"), "holds 'pods/status' already"),
        (("g.com", "v1", ("*/*", "*"), "*"), r"'\*/\*' holds '\*' already"),
        (("g.com", "v1", "pods", "*", "All"), "scope 'All': use one of"),
    ],
)
def test_a_rule_that_never_matches_is_refused(rule: tuple[Any, ...], message: str) -> None:
    """What the API server refuses, or would silently never match."""
    with pytest.raises(ConfigurationError, match=message):
        WebhookRule(*rule)


@pytest.mark.parametrize("resources", [("*", "*/status"), ("pods/*", "*/scale"), ("*", "pods/*")])
def test_rules_that_do_not_hold_each_other_are_taken(resources: tuple[str, ...]) -> None:
    """A wildcard on objects says nothing of subresources."""
    assert WebhookRule("", "v1", resources, "*").to_wire()["resources"] == list(resources)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "backups.example"}, "fewer than three parts: write a domain"),
        ({"name": "Validate.backups.example.com"}, "is not a DNS subdomain"),
        ({"name": 5}, "webhook name=5: pass a text"),
        ({"rules": []}, "has no rules"),
        ({"rules": ["pods"]}, r"rules='pods': pass WebhookRule\(...\) values"),
        ({"timeout_seconds": 0}, "timeout_seconds=0: use a whole number of seconds from 1 to 30"),
        ({"timeout_seconds": 31}, "timeout_seconds=31"),
        ({"timeout_seconds": 2.5}, "timeout_seconds=2.5"),
        ({"timeout_seconds": True}, "timeout_seconds=True"),
        ({"fail_closed": "Ignore"}, "fail_closed='Ignore': use True or False"),
        ({"side_effects": "Some"}, "side_effects='Some': use one of None, NoneOnDryRun"),
        ({"match_policy": "Like"}, "match_policy='Like': use one of Equivalent, Exact"),
        ({"reinvocation": "Always"}, "reinvocation='Always': use one of Never, IfNeeded"),
        ({"reinvocation": "IfNeeded"}, "only mutating webhooks again"),
        ({"match_conditions": ["true"]}, r"match_conditions=\['true'\]: pass CEL expressions by"),
        ({"match_conditions": {"two words": "true"}}, "'two words' is not a qualified name"),
        ({"match_conditions": {"a": " "}}, "match condition a: ' ' is no CEL expression"),
        ({"match_conditions": {"a": True}}, "match condition a=True: pass a CEL expression"),
        ({"match_conditions": {f"a{n}": "true" for n in range(65)}}, "65 match conditions"),
        ({"object_selector": "a=b"}, "object_selector='a=b' is no label selector"),
        ({"object_selector": {"app": "db"}}, "'app' is no part of a label selector"),
        ({"object_selector": {"matchLabels": ["a"]}}, r"matchLabels=\['a'\] is no mapping"),
        ({"namespace_selector": {"matchLabels": {"a": 1}}}, "1 is no label value"),
        ({"namespace_selector": {"matchLabels": {"a": "b c"}}}, "'b c' is no label value"),
        ({"namespace_selector": {"matchLabels": {"a b": "c"}}}, "'a b' is not a qualified name"),
        ({"object_selector": {"matchExpressions": "a"}}, "matchExpressions='a' is no list"),
        (
            {"object_selector": {"matchExpressions": [{"key": "a", "operator": "in"}]}},
            r"matchExpressions\[0\]: operator 'in': use one of In",
        ),
        (
            {"object_selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "In has values=None: give a list",
        ),
        (
            {
                "object_selector": {
                    "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]
                }
            },
            "Exists has values: leave them out",
        ),
        (
            {"object_selector": {"matchExpressions": [{"operator": "Exists"}]}},
            "key None is no text",
        ),
    ],
)
def test_an_entry_that_the_api_server_refuses_is_refused_first(
    change: dict[str, Any], message: str
) -> None:
    """The error names the webhook, the argument and the remedy."""
    with pytest.raises(ConfigurationError, match=message):
        webhook(**(ENTRY | change))


def test_two_entries_of_one_name_are_refused() -> None:
    """The API server would refuse them, and an apply could not tell them apart."""
    entry = webhook(**ENTRY)
    with pytest.raises(ConfigurationError, match=r"2 webhooks are named validate\.backups"):
        configuration_of("app", False, [entry, entry])
    with pytest.raises(ConfigurationError, match="name 'App' is not a DNS subdomain"):
        configuration_of("App", False, [entry])


def test_a_conversion_webhook_is_put_into_a_copy() -> None:
    """The definition that was given stays as it was; something else is refused."""
    crd: dict[str, Any] = {"kind": "CustomResourceDefinition", "spec": {"group": "example.com"}}
    made = with_conversion_webhook(crd, SERVICE.at("/convert"))
    assert crd["spec"] == {"group": "example.com"}
    assert made["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {"name": "app", "namespace": "apps", "path": "/convert", "port": 443}
            },
        },
    }
    other: Any
    for other in ({"kind": "Deployment"}, "crd"):
        with pytest.raises(ConfigurationError, match=r"with_conversion_webhook\(crd\(Backup\)"):
            with_conversion_webhook(other, SERVICE)
