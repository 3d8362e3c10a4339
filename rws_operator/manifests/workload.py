"""The objects that run an operator: Namespace, Deployment, Service, PodDisruptionBudget.

They fit the runtime's own times: the pods' grace period is longer than the drain of running
reconciles and the Lease's release together, and a rollout starts a replica before it stops one,
so that a warm standby is always there. The pods pass the ``restricted`` Pod Security Standard.
"""

from __future__ import annotations

import math
from typing import Any

from rws_operator.errors import ConfigurationError
from rws_operator.manifests.names import labels, selector
from rws_operator.manifests.webhook_target import SERVICE_PORT

HTTP_PORT = 8080
"""Default port of metrics and probes."""

WEBHOOK_PORT = 9443
"""Default port of the webhooks."""

AFTER_DRAIN_SECONDS = 15
"""Time a pod has after the drain: for the Lease's release, the events' flush, and reserve."""

_NON_ROOT = 65532
_REPLICAS_END = 2**31
_PORTS_END = 65535


POD_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}
"""The label of a namespace that admits only pods of the strictest Pod Security Standard."""


def namespace(name: str, app: str, *, is_restricted: bool = True) -> dict[str, Any]:
    """A namespace of an operator.

    Args:
        name: Its name.
        app: Name of the operator's other objects.
        is_restricted: Whether it admits only pods that pass the ``restricted`` Pod Security
            Standard, as the operator's do. False where pods of others may run.
    """
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels(app) | (POD_SECURITY if is_restricted else {})},
    }


def deployment(
    name: str,
    namespace: str,
    *,
    image: str,
    replicas: int = 2,
    drain_seconds: float = 30.0,
    webhook_port: int | None = None,
) -> dict[str, Any]:
    """The Deployment of an operator: replicas elect a leader, the others stand by, warm.

    The image's own entry point starts it (``python -m app serve``), settings come from the
    environment. Memory is limited, CPU is not: a throttled process renews its Lease too late.

    Args:
        name: Name of the Deployment, of its ServiceAccount and of the label of its pods.
        namespace: Namespace of all of them.
        image: Container image.
        replicas: How many pods; 1 leaves a gap at each rollout and node drain.
        drain_seconds: How long running reconciles and webhook calls may go on at a stop.
        webhook_port: The container's port of the webhooks, None without webhooks.

    Raises:
        ConfigurationError: The image is no image name, or the API has no such number of
            replicas or such a port.
    """
    if not image or any(character.isspace() for character in image):
        raise ConfigurationError(
            f"image {image!r} is not an image name", remedy="pass --image REGISTRY/NAME:TAG"
        )
    if not 0 <= replicas < _REPLICAS_END:
        raise ConfigurationError(
            f"{replicas} replicas", remedy=f"pass --replicas 0 or more, below {_REPLICAS_END}"
        )
    if webhook_port is not None and (
        not 1 <= webhook_port <= _PORTS_END or webhook_port == HTTP_PORT
    ):
        raise ConfigurationError(
            f"webhook port {webhook_port} of the pods",
            remedy=f"use 1 to {_PORTS_END}, but not {HTTP_PORT}: metrics and probes are there",
        )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector(name)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {"labels": labels(name)},
                "spec": _pod(name, image, drain_seconds, webhook_port),
            },
        },
    }


def _pod(name: str, image: str, drain_seconds: float, webhook_port: int | None) -> dict[str, Any]:
    return {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": math.ceil(drain_seconds) + AFTER_DRAIN_SECONDS,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NON_ROOT,
            "runAsGroup": _NON_ROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(name)},
                # Old and new pods of a rollout are spread apart from each other, not mixed.
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
        "containers": [_container(image, webhook_port)],
        # The root file system is read-only; this is what Python's tempfile finds.
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }


def _container(image: str, webhook_port: int | None) -> dict[str, Any]:
    ports = {"http": HTTP_PORT}
    if webhook_port is not None:
        ports["webhook"] = webhook_port
    return {
        "name": "operator",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_NAMESPACE", "metadata.namespace"),
            *(
                {"name": f"RWS_CONFIG_{each.upper()}_PORT", "value": str(port)}
                for each, port in ports.items()
            ),
        ],
        "ports": [
            {"name": each, "containerPort": port, "protocol": "TCP"} for each, port in ports.items()
        ],
        "livenessProbe": _probe("/livez", period=10, timeout=5),
        "readinessProbe": _probe("/readyz", period=5, timeout=3),
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the pod
    }


def _from_field(name: str, path: str) -> dict[str, Any]:
    # With its default: the whole is one value to server-side apply, which else sees a conflict.
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _probe(path: str, *, period: int, timeout: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": 3,
    }


def service(name: str, namespace: str, *, has_webhooks: bool = False) -> dict[str, Any]:
    """The Service in front of an operator's metrics, and of its webhooks.

    It leads to ready pods only: what is called by the API server is ready to be.
    """
    ports = {"http": HTTP_PORT} | ({"webhook": SERVICE_PORT} if has_webhooks else {})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "selector": selector(name),
            "ports": [
                {"name": each, "port": port, "targetPort": each, "protocol": "TCP"}
                for each, port in ports.items()
            ],
        },
    }


def pod_disruption_budget(name: str, namespace: str) -> dict[str, Any]:
    """Let node drains take one replica at a time, and unready ones always."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(name)},
        },
    }
