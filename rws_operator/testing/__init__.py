"""A real control plane for tests, and what makes tests against it short.

`ControlPlane` runs etcd, kube-apiserver and kube-controller-manager; `TestCluster` adds a client,
namespaces and CRDs; `Gate` stands between a program and the API server and fails on demand;
`OperatorAccount` takes tokens and permissions away, `AuditLog` tells who wrote what, and when;
`Forwarder` stands for the Service of webhooks; `eventually` waits for what a controller brings
about; `round_trip_check` proves that converters lose nothing. The pytest plugin
(`pytest_rws_operator`, beside this package) offers most of them as fixtures.
"""

from rws_operator.testing.account import OperatorAccount
from rws_operator.testing.audit import AuditEntry, AuditLog
from rws_operator.testing.clock import OffsetClock
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import (
    ControlPlaneError,
    NotThrowaway,
    ProgramsNotFound,
    RequestRefused,
)
from rws_operator.testing.etcd import EtcdSnapshot
from rws_operator.testing.eventually import eventually
from rws_operator.testing.forwarder import Forwarder
from rws_operator.testing.gate import Fault, Gate, GateRequest, Hold
from rws_operator.testing.namespaced import NamespacedApi
from rws_operator.testing.recording import RecordedDelete, RecordedEvent, RecordingContext
from rws_operator.testing.round_trip import round_trip_check
from rws_operator.testing.running import RunningOperator
from rws_operator.testing.runs import OperatorRuns
from rws_operator.testing.virtual_time import VirtualTimeLoop

__all__ = [
    "AuditEntry",
    "AuditLog",
    "ControlPlane",
    "ControlPlaneError",
    "EtcdSnapshot",
    "Fault",
    "Forwarder",
    "Gate",
    "GateRequest",
    "Hold",
    "NamespacedApi",
    "NotThrowaway",
    "OffsetClock",
    "OperatorAccount",
    "OperatorRuns",
    "ProgramsNotFound",
    "RecordedDelete",
    "RecordedEvent",
    "RecordingContext",
    "RequestRefused",
    "RunningOperator",
    "TestCluster",
    "TestNamespace",
    "VirtualTimeLoop",
    "eventually",
    "round_trip_check",
]
