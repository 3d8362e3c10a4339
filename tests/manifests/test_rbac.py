"""Rules are merged per resource, and the documents grant those rules and no others."""

from __future__ import annotations

import itertools

from rws_operator.manifests import PolicyRule, Rbac, merge_rules

READ = ("get", "list", "watch")


def test_rules_of_one_resource_become_one_rule_with_verbs_in_the_usual_order() -> None:
    """Two rules for one resource are one rule afterwards, verbs ordered as people expect."""
    rules = [
        PolicyRule("batch", ("cronjobs",), ("patch", "create")),
        PolicyRule("batch", ("cronjobs", "jobs"), ("watch", "list", "get")),
    ]
    assert merge_rules(rules) == [
        PolicyRule("batch", ("cronjobs",), ("get", "list", "watch", "create", "patch")),
        PolicyRule("batch", ("jobs",), READ),
    ]


def test_the_order_of_the_rules_does_not_matter() -> None:
    """Every permutation of the same rules gives the same result."""
    rules = [
        PolicyRule("", ("secrets",), ("get",), ("b", "a")),
        PolicyRule("", ("secrets",), ("update",), ("a", "b")),
        PolicyRule("example.com", ("backups", "backups/status"), ("get", "approve", "delete")),
        PolicyRule("", ("configmaps",), READ),
    ]
    results = [merge_rules(order) for order in itertools.permutations(rules)]
    assert all(result == results[0] for result in results)
    assert [rule.resources[0] for rule in results[0]] == [
        "configmaps",
        "secrets",
        "backups",
        "backups/status",
    ]
    assert results[0][1].resource_names == ("a", "b")
    assert results[0][2].verbs == ("get", "delete", "approve")


def test_named_objects_keep_a_rule_only_for_what_is_not_granted_on_all() -> None:
    """A verb granted on every object is not granted again by name."""
    merged = merge_rules(
        [
            PolicyRule("", ("secrets",), READ),
            PolicyRule("", ("secrets",), ("get", "update"), ("tls",)),
            PolicyRule("", ("secrets",), ("list",), ("other",)),
        ]
    )
    assert merged == [
        PolicyRule("", ("secrets",), READ),
        PolicyRule("", ("secrets",), ("update",), ("tls",)),
    ]


def test_all_verbs_swallow_the_others() -> None:
    """A star stands alone."""
    merged = merge_rules([PolicyRule("", ("pods",), ("get", "*"))])
    assert merged == [PolicyRule("", ("pods",), ("*",))]


def test_without_election_there_is_no_role() -> None:
    """ServiceAccount, ClusterRole and binding are all that is printed."""
    documents = Rbac("app", "apps").rules([PolicyRule("", ("pods",), READ)]).documents()
    assert [document["kind"] for document in documents] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    assert documents[0]["metadata"]["namespace"] == "apps"
    assert "namespace" not in documents[1]["metadata"]
    assert documents[2]["subjects"] == [
        {"kind": "ServiceAccount", "name": "app", "namespace": "apps"}
    ]


def test_the_lease_is_granted_by_name_in_its_own_namespace_only() -> None:
    """The Role holds create for any Lease and the rest for ours; the ClusterRole holds none."""
    rbac = Rbac("app", "apps").rules([PolicyRule("", ("pods",), READ)])
    documents = rbac.leader_election("app-lease", namespace="locks").documents()
    cluster_role, role, binding = documents[1], documents[3], documents[4]
    assert [rule["apiGroups"] for rule in cluster_role["rules"]] == [[""]]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "locks"
    assert binding["subjects"][0]["namespace"] == "apps"
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "list", "watch", "update"],
            "resourceNames": ["app-lease"],
        },
    ]
