"""The command lines of etcd, kube-apiserver and kube-controller-manager.

Pure functions from a folder of keys and a few choices to argument lists; `control_plane.py` runs
them. etcd listens on Unix sockets in that folder, so nothing else on the machine can reach it.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml

from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.pki import CertificateAuthority, KeyPair, new_key, private_pem, public_pem

ETCD_SOCKET = "client:1"
ETCD_DATA = "etcd"
# etcd reads the part after // as a file name, relative to its working directory.
_ETCD_CLIENT = f"unix://{ETCD_SOCKET}"
_ETCD_PEER = "unix://peer:1"

ADMIN_KUBECONFIG = "admin.kubeconfig"
AUDIT_LOG = "audit.log"

# Writes with the answer's body (its resourceVersion), reads without; never a Secret or a token.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {
            "level": "Metadata",
            "resources": [{"group": "", "resources": ["secrets", "serviceaccounts/token"]}],
        },
        {"level": "Metadata", "resources": [{"group": "authentication.k8s.io"}]},
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
        },
        {"level": "Metadata"},
    ],
}


def write_credentials(folder: Path, port: int) -> Access:
    """Make the keys and files that the programs read; return the administrator's access."""
    ca = CertificateAuthority()
    _write_pair(folder / "serving", ca.serving())
    token_key = new_key()
    (folder / "token.key").write_bytes(private_pem(token_key))
    (folder / "token.pub").write_bytes(public_pem(token_key))
    (folder / "ca.crt").write_bytes(ca.cert_pem)
    (folder / "audit-policy.yaml").write_bytes(yaml.safe_dump(_AUDIT_POLICY).encode())
    server = f"https://127.0.0.1:{port}"
    admin = Access(server, ca.cert_pem, ca.client("rws-test-admin", "system:masters"))
    admin.write(folder / ADMIN_KUBECONFIG)
    controllers = ca.client("system:kube-controller-manager", "system:masters")
    Access(server, ca.cert_pem, controllers).write(folder / "controller-manager.kubeconfig")
    return admin


def etcd() -> list[str]:
    """Return etcd's arguments: one member, nothing kept on purpose over a power cut."""
    return [
        "--name=test",
        f"--data-dir={ETCD_DATA}",
        f"--listen-client-urls={_ETCD_CLIENT}",
        f"--advertise-client-urls={_ETCD_CLIENT}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=test={_ETCD_PEER}",
        "--unsafe-no-fsync",
        # By default each 10 minutes, and a kind that nobody writes to gets no bookmarks meanwhile.
        "--watch-progress-notify-interval=5s",
    ]


def kube_apiserver(port: int, audit: bool, extra: Sequence[str]) -> list[str]:
    """Return the API server's arguments; `extra` comes last and so wins."""
    arguments = [
        f"--etcd-servers={_ETCD_CLIENT}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # The owner holds the port with a socket of its own (see control_plane.py).
        "--permit-port-sharing=true",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--tls-cert-file=serving.crt",
        "--tls-private-key-file=serving.key",
        "--client-ca-file=ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=token.pub",
        "--service-account-signing-key-file=token.key",
        "--authorization-mode=RBAC",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if audit:
        arguments += [
            "--audit-policy-file=audit-policy.yaml",
            f"--audit-log-path={AUDIT_LOG}",
            "--audit-log-maxsize=0",  # never rotated: a test reads one file
        ]
    return [*arguments, *extra]


def kube_controller_manager() -> list[str]:
    """Return the controller manager's arguments: all its controllers, no port, no election."""
    return [
        "--kubeconfig=controller-manager.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--root-ca-file=ca.crt",
        "--service-account-private-key-file=token.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _write_pair(stem: Path, pair: KeyPair) -> None:
    stem.with_suffix(".crt").write_bytes(pair.cert_pem)
    stem.with_suffix(".key").write_bytes(pair.key_pem)
