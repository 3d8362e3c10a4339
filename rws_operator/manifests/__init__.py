"""What installs an operator, printed from its code so that the two never drift apart.

`crd` makes a kind's CustomResourceDefinition, `Rbac` the permissions, `workload` what runs;
`installation` puts them together in order and `to_yaml` writes them down. All are plain
dictionaries as they stand on the wire, to be changed or added to freely before they are printed.
"""

from __future__ import annotations

from rws_operator.manifests.crd import crd
from rws_operator.manifests.installation import installation
from rws_operator.manifests.rbac import Rbac, merge_rules
from rws_operator.manifests.stream import print_on_request, to_yaml
from rws_operator.resources.policy_rule import PolicyRule

__all__ = [
    "PolicyRule",
    "Rbac",
    "crd",
    "installation",
    "merge_rules",
    "print_on_request",
    "to_yaml",
]
