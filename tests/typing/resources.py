"""What type checkers see of custom resources: checked by mypy and pyright, never run.

A line that must be refused carries the checkers' own ignore; one that they would not refuse any
more is reported as an unused ignore.
"""

from typing import Any, Literal, assert_type

from kubernetes_asyncio.client import V1CronJob

from rws_operator.resources import (
    Condition,
    CustomResource,
    Field,
    Kind,
    Model,
    ObjectMeta,
    Quantity,
    kind_of,
    kinds,
    to_wire,
)


class BackupSpec(Model):
    """A spec."""

    schedule: str = Field(description="Cron schedule.", pattern=r"^(\S+\s+){4}\S+$")
    retention_days: int = Field(default=7, ge=1, le=365)
    hosts: list[str] = Field(default_factory=list, list_type="set")
    memory: Quantity = Quantity("1Gi")
    note: str | None = None


class BackupStatus(Model):
    """A status."""

    ready: bool = False
    conditions: list[Condition] = []


class Backup(CustomResource, group="example.com", version="v1"):
    """A backup."""

    spec: BackupSpec
    status: BackupStatus = BackupStatus()


backup = Backup(
    metadata=ObjectMeta(name="a", labels={"x": "y"}),
    spec=BackupSpec(schedule="* * * * *", retention_days=3),
)
assert_type(backup.spec.schedule, str)
assert_type(backup.spec.retention_days, int)
assert_type(backup.spec.hosts, list[str])
assert_type(backup.spec.note, str | None)
assert_type(backup.status.conditions[0].status, Literal["True", "False", "Unknown"])
assert_type(backup.name, str)
assert_type(backup.namespace, str | None)
assert_type(Backup.from_wire(b"{}"), Backup)
assert_type(backup.to_wire(), dict[str, Any])
assert_type(kind_of(Backup), Kind)
assert_type(kinds.Deployment, Kind)


def model(cron_job: V1CronJob) -> dict[str, Any]:
    """The library's models go on the wire."""
    return to_wire(cron_job)


BackupSpec()  # type: ignore[call-arg]
BackupSpec(schedule=1)  # type: ignore[arg-type]
BackupSpec(schedule="", retentionDays=1)  # type: ignore[call-arg]
Backup(spec=BackupSpec(schedule=""))  # type: ignore[call-arg]
Condition(type="Ready", status="Maybe", reason="x")  # type: ignore[arg-type]
to_wire(3)  # type: ignore[arg-type]


class Wrong(Model):
    """Defaults that don't fit."""

    size: int = Field(default="x", ge=1)  # type: ignore[assignment]
    odd: int = Field(default=1, minimum=1)  # type: ignore[call-overload]
