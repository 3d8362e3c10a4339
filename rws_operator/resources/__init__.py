"""Kinds, custom resources and their schema, conditions, owners: pure data, nothing speaks HTTP.

The user's edge of the runtime. Objects come in from the API server through `from_wire` and
leave through `to_wire`; `kind_of` says which resource of the server they belong to.
"""

from rws_operator.resources import kinds
from rws_operator.resources.conditions import Change, Condition, find_condition, set_condition
from rws_operator.resources.custom_resource import CustomResource
from rws_operator.resources.definition import Column, ResourceDefinition, Scale
from rws_operator.resources.field import Field, ListType
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.metadata import ObjectMeta, OwnerReference
from rws_operator.resources.model import Model
from rws_operator.resources.owners import add_owner, check_owner
from rws_operator.resources.policy_rule import PolicyRule
from rws_operator.resources.quantity import Duration, IntOrString, Quantity
from rws_operator.resources.rule import Rule
from rws_operator.resources.wire import KindLike, group_and_plural, kind_of, to_wire

__all__ = [
    "Change",
    "Column",
    "Condition",
    "CustomResource",
    "Duration",
    "Field",
    "IntOrString",
    "Kind",
    "KindLike",
    "ListType",
    "Model",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "PolicyRule",
    "Quantity",
    "ResourceDefinition",
    "Rule",
    "Scale",
    "add_owner",
    "check_owner",
    "find_condition",
    "group_and_plural",
    "kind_of",
    "kinds",
    "set_condition",
    "to_wire",
]
