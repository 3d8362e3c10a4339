"""The client: the only package that speaks HTTP to the API server.

`load` and `kubeconfig` find the server, `credentials` and `tls` say who we are, `transport`
sends one request, `retry` repeats those that may be, `rest` gives each its deadline and fence,
`api` holds Kubernetes' verbs, `connect` puts it together. Nothing above this package opens a
connection to the API server.

A program gets one by ``from rws_operator.client import client`` and ``await client()``.
"""

from rws_operator.client.answer import Answer
from rws_operator.client.api import Client
from rws_operator.client.config import ClientConfig
from rws_operator.client.connect import client
from rws_operator.client.fence import Fence
from rws_operator.client.identity import current_namespace, identity
from rws_operator.client.impersonation import Impersonation
from rws_operator.client.load import load_config
from rws_operator.client.observer import WriteObserver

__all__ = [
    "Answer",
    "Client",
    "ClientConfig",
    "Fence",
    "Impersonation",
    "WriteObserver",
    "client",
    "current_namespace",
    "identity",
    "load_config",
]
