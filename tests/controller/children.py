"""Children of many kinds, each with the foreign changes that an apply has to find and repair.

A child is what an author would write. `changes` are JSON patches of fields that the child names;
`settled` says that the child is written in the server's own form, so that even after a restart
nothing is sent.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Operation = dict[str, Any]


@dataclass
class Child:
    """One kind of child.

    Attributes:
        document: What is applied; names and namespaces are filled in by the test.
        changes: Each a JSON patch that changes something of ours.
        settled: Written in the server's own form.
    """

    document: dict[str, Any]
    changes: list[list[Operation]] = field(default_factory=list)
    settled: bool = True

    def named(self, name: str) -> dict[str, Any]:
        """A document of its own under a name."""
        document = copy.deepcopy(self.document)
        document["metadata"]["name"] = name
        return document


def put(path: str, value: Any) -> list[Operation]:
    """A change that sets one value."""
    return [{"op": "add", "path": path, "value": value}]


def drop(path: str) -> list[Operation]:
    """A change that removes one value."""
    return [{"op": "remove", "path": path}]


def move(source: str, target: str) -> list[Operation]:
    """A change of the order of a list."""
    return [{"op": "move", "from": source, "path": target}]


LABEL = [put("/metadata/labels/app", "other"), drop("/metadata/labels/app")]


def _child(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    labels = {"app": "web", "version": "1.0"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"labels": labels}, **fields}


def _containers() -> list[dict[str, Any]]:
    return [
        {
            "name": "web",
            "image": "web:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}],
            "ports": [
                {"name": "dns", "containerPort": 53, "protocol": "TCP"},
                {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"},
            ],
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        },
        {"name": "log", "image": "log:1"},
    ]


def _pod_spec(**fields: Any) -> dict[str, Any]:
    return {"containers": _containers(), **fields}


def _template(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": _pod_spec(**fields)}


_SELECTOR = {"matchLabels": {"app": "web"}}

_TEMPLATE_CHANGES = [
    put("/spec/template/spec/containers/0/image", "web:2"),
    put("/spec/template/spec/containers/0/env/0/value", "1.0"),
    move("/spec/template/spec/containers/1", "/spec/template/spec/containers/0"),
    move("/spec/template/spec/containers/0/env/1", "/spec/template/spec/containers/0/env/0"),
    drop("/spec/template/spec/containers/0/ports/1"),
    put("/spec/template/spec/containers/0/resources/requests/cpu", "0.6"),
    drop("/spec/template/spec/containers/1"),
]

_JOB_SPEC = {"template": _template(restartPolicy="Never"), "backoffLimit": 2, "suspend": True}

NAMESPACED: dict[str, Child] = {
    "Deployment": Child(
        _child("apps/v1", "Deployment", spec={"selector": _SELECTOR, "template": _template()}),
        [*LABEL, *_TEMPLATE_CHANGES],
    ),
    "Deployment in the author's form": Child(
        _child(
            "apps/v1",
            "Deployment",
            spec={
                "replicas": 2,
                "selector": _SELECTOR,
                "strategy": {},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": {}},
                    "spec": {
                        "hostNetwork": False,
                        "securityContext": {},
                        "containers": [
                            {
                                "name": "web",
                                "image": "web:1",
                                "resources": {"requests": {"cpu": 1, "memory": "1024Mi"}},
                                "env": [
                                    {
                                        "name": "POD",
                                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                                    }
                                ],
                            }
                        ],
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                    },
                },
            },
        ),
        [
            put("/spec/replicas", 1),
            put("/spec/template/spec/containers/0/resources/requests/cpu", "1001m"),
            put("/spec/template/spec/containers/0/resources/requests/memory", "1025Mi"),
        ],
        settled=False,
    ),
    "StatefulSet": Child(
        _child(
            "apps/v1",
            "StatefulSet",
            spec={
                "serviceName": "web",
                "selector": _SELECTOR,
                "template": _template(),
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ],
            },
        ),
        [*LABEL, *_TEMPLATE_CHANGES],
        settled=False,  # a whole claim is one value, and the server fills it
    ),
    "DaemonSet": Child(
        _child("apps/v1", "DaemonSet", spec={"selector": _SELECTOR, "template": _template()}),
        [*LABEL, *_TEMPLATE_CHANGES],
    ),
    "ReplicaSet": Child(
        _child("apps/v1", "ReplicaSet", spec={"selector": _SELECTOR, "template": _template()}),
        [*LABEL, *_TEMPLATE_CHANGES],
    ),
    "ReplicationController": Child(
        _child(
            "v1",
            "ReplicationController",
            spec={"replicas": 0, "selector": {"app": "web"}, "template": _template()},
        ),
        [*LABEL, put("/spec/replicas", 3), *_TEMPLATE_CHANGES],
    ),
    "Job": Child(
        _child("batch/v1", "Job", spec=_JOB_SPEC),
        [*LABEL, put("/spec/backoffLimit", 3)],
    ),
    "CronJob": Child(
        _child(
            "batch/v1",
            "CronJob",
            spec={"schedule": "*/5 * * * *", "suspend": True, "jobTemplate": {"spec": _JOB_SPEC}},
        ),
        [
            *LABEL,
            put("/spec/schedule", "*/6 * * * *"),
            put("/spec/suspend", False),
            move(
                "/spec/jobTemplate/spec/template/spec/containers/1",
                "/spec/jobTemplate/spec/template/spec/containers/0",
            ),
            put("/spec/jobTemplate/spec/template/spec/containers/0/env/1/value", "2"),
        ],
    ),
    "Pod": Child(
        _child("v1", "Pod", spec=_pod_spec(nodeName="nowhere", tolerations=[])),
        [*LABEL, put("/spec/containers/0/image", "web:2")],
        settled=False,
    ),
    "PodTemplate": Child(
        _child("v1", "PodTemplate", template=_template()),
        [*LABEL, put("/template/spec/containers/0/image", "web:2")],
    ),
    "Service": Child(
        _child(
            "v1",
            "Service",
            spec={
                "selector": {"app": "web"},
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "TCP"},
                    {"name": "dns-udp", "port": 53, "protocol": "UDP"},
                    {"name": "http", "port": 80, "targetPort": "http"},
                ],
            },
        ),
        [
            *LABEL,
            drop("/spec/ports/1"),
            put("/spec/ports/2/targetPort", "web"),
            put("/spec/ports/2/targetPort", 8080),
            move("/spec/ports/1", "/spec/ports/0"),
            put("/spec/selector/app", "db"),
        ],
    ),
    "ConfigMap": Child(
        _child("v1", "ConfigMap", data={"version": "1.0", "on": "true", "memory": "1Gi"}),
        [
            *LABEL,
            put("/data/version", "1"),
            put("/data/memory", "1024Mi"),
            put("/data/on", "True"),
            drop("/data/on"),
            put("/metadata/labels/version", "1"),
        ],
    ),
    "ConfigMap of bytes": Child(
        _child("v1", "ConfigMap", binaryData={"key": "AAEC"}, immutable=False),
        [*LABEL, put("/binaryData/key", "AAED")],
    ),
    "Secret": Child(
        _child("v1", "Secret", type="Opaque", stringData={"password": "s3cret"}),
        [*LABEL, put("/data/password", "b3RoZXI="), drop("/data/password")],
    ),
    "Secret of data": Child(
        _child("v1", "Secret", data={"password": "czNjcmV0"}),
        [*LABEL, put("/data/password", "b3RoZXI=")],
    ),
    "ServiceAccount": Child(
        _child("v1", "ServiceAccount", automountServiceAccountToken=False),
        [*LABEL, put("/automountServiceAccountToken", True)],
    ),
    "Endpoints": Child(
        _child(
            "v1",
            "Endpoints",
            subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}],
        ),
        [*LABEL, put("/subsets/0/addresses/0/ip", "10.1.1.2")],
        settled=False,  # the subsets are one value, and the server fills the protocol
    ),
    "EndpointSlice": Child(
        _child(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            addressType="IPv4",
            endpoints=[
                {"addresses": ["10.1.1.1"], "conditions": {}},
                {"addresses": ["10.1.1.2"], "conditions": {}},
            ],
            ports=[{"name": "", "port": 80, "protocol": "TCP"}],
        ),
        [*LABEL, put("/ports/0/port", 81), move("/endpoints/1", "/endpoints/0")],
    ),
    "Lease": Child(
        _child(
            "coordination.k8s.io/v1",
            "Lease",
            spec={"holderIdentity": "a", "leaseDurationSeconds": 15},
        ),
        [*LABEL, put("/spec/holderIdentity", "b"), put("/spec/leaseDurationSeconds", 16)],
    ),
    "Lease with times": Child(
        _child(
            "coordination.k8s.io/v1",
            "Lease",
            spec={"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z"},
        ),
        [*LABEL, put("/spec/renewTime", "2026-01-01T00:00:01.000000Z")],
    ),
    "PersistentVolumeClaim": Child(
        _child(
            "v1",
            "PersistentVolumeClaim",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1024Mi"}},
                "storageClassName": "none",
            },
        ),
        [*LABEL],
    ),
    "ResourceQuota": Child(
        _child(
            "v1",
            "ResourceQuota",
            spec={"hard": {"cpu": "1000m", "memory": "0.5Gi", "pods": 10, "secrets": "1e2"}},
        ),
        [
            *LABEL,
            put("/spec/hard/cpu", "1001m"),
            put("/spec/hard/pods", "11"),
            put("/spec/hard/memory", "513Mi"),
        ],
        settled=False,  # 1e2
    ),
    "ResourceQuota of quantities": Child(
        _child(
            "v1",
            "ResourceQuota",
            spec={"hard": {"cpu": "1000m", "memory": "0.5Gi", "pods": 10, "secrets": "1000"}},
        ),
        [put("/spec/hard/cpu", "1001m"), put("/spec/hard/memory", "536870912")],
    ),
    "LimitRange": Child(
        _child(
            "v1",
            "LimitRange",
            spec={
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "1000m"},
                        "defaultRequest": {"cpu": "500m"},
                    }
                ]
            },
        ),
        [*LABEL, put("/spec/limits/0/default/cpu", "2")],
    ),
    "Ingress": Child(
        _child(
            "networking.k8s.io/v1",
            "Ingress",
            spec={
                "ingressClassName": "none",
                "rules": [
                    {
                        "host": "a.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                }
                            ]
                        },
                    },
                    {"host": "b.example.com"},
                ],
                "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
            },
        ),
        [
            *LABEL,
            put("/spec/rules/0/host", "c.example.com"),
            move("/spec/rules/1", "/spec/rules/0"),
            put("/spec/rules/0/http/paths/0/backend/service/port/number", 81),
            drop("/spec/tls/0"),
        ],
    ),
    "NetworkPolicy": Child(
        _child(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
            },
        ),
        [
            *LABEL,
            put("/spec/ingress/0/ports/0/protocol", "TCP"),
            move("/spec/policyTypes/1", "/spec/policyTypes/0"),
        ],
    ),
    "PodDisruptionBudget": Child(
        _child("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": 1}),
        [*LABEL, put("/spec/maxUnavailable", "1%")],
    ),
    "HorizontalPodAutoscaler": Child(
        _child(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={
                "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 70},
                        },
                    }
                ],
            },
        ),
        [
            *LABEL,
            put("/spec/maxReplicas", 6),
            put("/spec/metrics/0/resource/target/averageUtilization", 71),
        ],
    ),
    "Role": Child(
        _child(
            "rbac.authorization.k8s.io/v1",
            "Role",
            rules=[
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]},
            ],
        ),
        [
            *LABEL,
            move("/rules/1", "/rules/0"),
            put("/rules/0/verbs/1", "watch"),
            drop("/rules/1"),
        ],
    ),
    "RoleBinding": Child(
        _child(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
            subjects=[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}],
        ),
        [*LABEL, put("/subjects/0/name", "b"), drop("/subjects/0")],
    ),
    "ControllerRevision": Child(
        _child("apps/v1", "ControllerRevision", data={"any": {"thing": [1, "1"]}}, revision=1),
        [*LABEL, put("/revision", 2)],
    ),
}

_RULE = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    "scope": "*",
}

CLUSTER_SCOPED: dict[str, Child] = {
    "ClusterRole": Child(
        _child(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            rules=[{"nonResourceURLs": ["/nothing"], "verbs": ["get"]}],
        ),
        [*LABEL, put("/rules/0/verbs/0", "post")],
    ),
    "ClusterRoleBinding": Child(
        _child(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no"},
            subjects=[{"kind": "ServiceAccount", "namespace": "none", "name": "a"}],
        ),
        [*LABEL, put("/subjects/0/name", "b")],
    ),
    "PersistentVolume": Child(
        _child(
            "v1",
            "PersistentVolume",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1024Mi"},
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": "none", "name": "none"},
                "storageClassName": "none",
            },
        ),
        [*LABEL, put("/spec/capacity/storage", "2Gi")],
    ),
    "StorageClass": Child(
        _child(
            "storage.k8s.io/v1",
            "StorageClass",
            provisioner="none.example.com",
            parameters={"a": "1.0"},
            allowVolumeExpansion=True,
        ),
        [*LABEL, put("/allowVolumeExpansion", False)],
    ),
    "PriorityClass": Child(
        _child("scheduling.k8s.io/v1", "PriorityClass", value=5, description="low"),
        [*LABEL, put("/description", "high")],
    ),
    "CSIDriver": Child(
        _child("storage.k8s.io/v1", "CSIDriver", spec={"attachRequired": False}),
        [*LABEL],
    ),
    "RuntimeClass": Child(
        _child("node.k8s.io/v1", "RuntimeClass", handler="none"),
        [*LABEL],
    ),
    "IngressClass": Child(
        _child("networking.k8s.io/v1", "IngressClass", spec={"controller": "none.example.com/a"}),
        [*LABEL],
    ),
    "ValidatingAdmissionPolicy": Child(
        _child(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            spec={
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": [_RULE]},
                "validations": [
                    {"expression": "object.metadata.name != 'no'", "message": "a"},
                    {"expression": "object.metadata.name != 'never'", "message": "b"},
                ],
            },
        ),
        [
            *LABEL,
            put("/spec/validations/0/message", "c"),
            move("/spec/validations/1", "/spec/validations/0"),
            put("/spec/failurePolicy", "Fail"),
        ],
        settled=False,  # the constraints are one value, and the server fills it
    ),
    "ValidatingAdmissionPolicyBinding": Child(
        _child(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
            spec={"policyName": "none", "validationActions": ["Warn", "Audit"]},
        ),
        [*LABEL, drop("/spec/validationActions/1")],
    ),
    "ValidatingWebhookConfiguration": Child(
        _child(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            webhooks=[
                {
                    "name": f"{name}.example.com",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://none.example.com"},
                    "failurePolicy": "Ignore",
                    "sideEffects": "None",
                    "rules": [{**_RULE, "resources": ["nothing"]}],
                }
                for name in ("a", "b")
            ],
        ),
        [
            *LABEL,
            put("/webhooks/0/clientConfig/url", "https://other.example.com"),
            move("/webhooks/1", "/webhooks/0"),
            drop("/webhooks/1"),
        ],
    ),
    "FlowSchema": Child(
        _child(
            "flowcontrol.apiserver.k8s.io/v1",
            "FlowSchema",
            spec={
                "matchingPrecedence": 9999,
                "priorityLevelConfiguration": {"name": "global-default"},
                "rules": [
                    {
                        "subjects": [{"kind": "User", "user": {"name": "nobody"}}],
                        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/none"]}],
                    }
                ],
            },
        ),
        [*LABEL, put("/spec/matchingPrecedence", 9998)],
    ),
    "Namespace": Child(
        _child("v1", "Namespace"),
        [*LABEL],
    ),
    "CustomResourceDefinition": Child(
        _child(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            spec={
                "group": "children.apply.test.example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "properties": {"size": {"type": "integer", "default": 1}},
                                    }
                                },
                            }
                        },
                    }
                ],
            },
        ),
        [*LABEL],
    ),
}
