"""An object's metadata as the API server keeps it, typed; fields not named here survive."""

from __future__ import annotations

from datetime import datetime

from rws_operator.resources.field import Field
from rws_operator.resources.model import Model


class OwnerReference(Model):
    """One owner of an object; the object is collected when its owners are gone."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """What every object carries: its name, its identity and its lifecycle."""

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)
