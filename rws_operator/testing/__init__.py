"""A real control plane for tests, and what makes tests against it short.

`ControlPlane` runs etcd, kube-apiserver and kube-controller-manager; `TestCluster` adds a client,
namespaces and CRDs; `eventually` waits for what a controller brings about. The pytest plugin
(`plugin.py`) offers them as fixtures.
"""

from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ControlPlaneError, ProgramsNotFound, RequestRefused
from rws_operator.testing.eventually import eventually
from rws_operator.testing.virtual_time import VirtualTimeLoop

__all__ = [
    "ControlPlane",
    "ControlPlaneError",
    "ProgramsNotFound",
    "RequestRefused",
    "TestCluster",
    "TestNamespace",
    "VirtualTimeLoop",
    "eventually",
]
