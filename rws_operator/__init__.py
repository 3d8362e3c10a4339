"""A runtime for Kubernetes operators: declare an Operator, give it controllers, call `main`.

The names that operators are written with. Nothing else happens here, but that a container's first
process heeds SIGTERM from here on (`rws_operator.first_process`). Beside them stand, to be
imported by those names, `rws_operator.manifests` (what installs an operator),
`rws_operator.errors` (every error), `rws_operator.testing` (a real API server for tests) and
`rws_operator.client`: a client of one's own is had by ``from rws_operator.client import client``
and ``await client()``.
"""

from rws_operator import first_process

first_process.heed_sigterm()  # before what takes long

from rws_operator.client import Client, current_namespace, identity
from rws_operator.controller.action import Action
from rws_operator.controller.backoff import Backoff, backoff
from rws_operator.controller.blocking import BlockingContext
from rws_operator.controller.context import Context
from rws_operator.controller.controller import Controller
from rws_operator.controller.environment import Environment
from rws_operator.controller.triggers import Watch
from rws_operator.election import LeaderElector, LeaderHandle
from rws_operator.errors import Denied, OperatorError, PermanentError, RetryAfter
from rws_operator.metrics import metrics_text
from rws_operator.operator import Operator, Runnable
from rws_operator.resources import (
    Column,
    Condition,
    CustomResource,
    Duration,
    Field,
    IntOrString,
    Kind,
    ListType,
    Model,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    PolicyRule,
    Quantity,
    Rule,
    Scale,
    group_and_plural,
    kind_of,
    kinds,
)
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.request import AdmissionRequest
from rws_operator.webhook.webhooks import Webhooks

__all__ = [
    "Action",
    "AdmissionRequest",
    "Backoff",
    "BlockingContext",
    "Client",
    "Column",
    "Condition",
    "Context",
    "Controller",
    "CustomResource",
    "Denied",
    "Duration",
    "Environment",
    "Field",
    "IntOrString",
    "Kind",
    "LeaderElector",
    "LeaderHandle",
    "ListType",
    "Model",
    "ObjectKey",
    "ObjectMeta",
    "Operator",
    "OperatorError",
    "OwnerReference",
    "PermanentError",
    "PolicyRule",
    "Quantity",
    "RetryAfter",
    "Rule",
    "Runnable",
    "Scale",
    "Watch",
    "WebhookCertificate",
    "Webhooks",
    "backoff",
    "current_namespace",
    "group_and_plural",
    "identity",
    "kind_of",
    "kinds",
    "metrics_text",
]
