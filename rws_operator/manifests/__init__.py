"""What installs an operator, printed from its code so that the two never drift apart.

`crd` makes a kind's CustomResourceDefinition, `Rbac` the permissions, `workload` what runs,
`webhook_configuration` what the API server calls; `installation` puts them together in order and
`to_yaml` writes them down. All are plain dictionaries as they stand on the wire, to be changed or
added to freely before they are printed.
"""

from __future__ import annotations

from rws_operator.manifests.crd import crd
from rws_operator.manifests.installation import installation
from rws_operator.manifests.rbac import Rbac, bundle_rules, certificate_rules, merge_rules
from rws_operator.manifests.stream import print_on_request, to_yaml
from rws_operator.manifests.webhook import (
    configuration_of,
    webhook,
    webhook_configuration,
    with_conversion_webhook,
)
from rws_operator.manifests.webhook_rule import WebhookRule
from rws_operator.manifests.webhook_target import WebhookTarget
from rws_operator.resources.policy_rule import PolicyRule

__all__ = [
    "PolicyRule",
    "Rbac",
    "WebhookRule",
    "WebhookTarget",
    "bundle_rules",
    "certificate_rules",
    "configuration_of",
    "crd",
    "installation",
    "merge_rules",
    "print_on_request",
    "to_yaml",
    "webhook",
    "webhook_configuration",
    "with_conversion_webhook",
]
