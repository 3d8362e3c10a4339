"""Keeps a CronJob for every Backup, and reports on it in the Backup's status.

Everything a controller needs is on this page: the custom resource, what to do when one changes,
what to clean up when one goes, and the operator that runs it all. Its webhooks are on another.
"""

from typing import Any

from rws_operator import (
    Action,
    Column,
    Condition,
    Context,
    CustomResource,
    Field,
    Model,
    Operator,
    Rule,
    kinds,
)


class BackupSpec(Model):
    """What to back up, and when."""

    schedule: str = Field(description="Cron schedule of the backup.", pattern=r"^(\S+\s+){4}\S+$")
    database: str = Field(default="postgres", description="Name of the database.")
    retention_days: int = Field(default=7, ge=1, le=365, description="Days a backup is kept.")
    owner: str | None = Field(default=None, description="Who is told when a backup fails.")


class BackupStatus(Model):
    """What the operator has seen to."""

    ready: bool = False
    schedule: str | None = None
    conditions: list[Condition] = []


class Backup(
    CustomResource,
    group="example.com",
    version="v1",
    short_names=["bk"],
    columns=[
        Column("Schedule", ".spec.schedule"),
        Column("Owner", ".spec.owner"),
        Column("Ready", ".status.ready"),
        Column("Age", ".metadata.creationTimestamp"),
    ],
    rules=[
        Rule(
            "self.spec.retentionDays < 90 || self.spec.schedule != '* * * * *'",
            "a backup each minute can be kept for less than 90 days only",
        )
    ],
):
    """A scheduled backup of a database."""

    spec: BackupSpec
    status: BackupStatus = BackupStatus()


operator = Operator("backup-operator")
operator.leader_election(lease="backup-operator")
backups = operator.controller(Backup, owns=[kinds.CronJob])


@backups.reconcile
async def reconcile(backup: Backup, ctx: Context) -> Action:
    """Make the CronJob and the status say what the spec says."""
    await ctx.apply_owned(backup, cron_job(backup))
    if backup.status.schedule != backup.spec.schedule:
        await ctx.event(backup, "Scheduled", f"backs up on {backup.spec.schedule}")
    await ctx.set_condition(backup, "Ready", True, "Scheduled", "the CronJob is up to date")
    await ctx.patch_status(backup, {"ready": True, "schedule": backup.spec.schedule})
    return Action.await_change()


@backups.finalizer("example.com/backup-data")
async def cleanup(backup: Backup, ctx: Context) -> None:
    """Remove what Kubernetes can't: the stored backups (here, only a line in the log)."""
    ctx.log.info("removing stored backups of %s", backup.spec.database)
    await ctx.event(backup, "DataRemoved", f"removed the backups of {backup.spec.database}")


def cron_job(backup: Backup) -> dict[str, Any]:
    """The CronJob that takes the backups."""
    command = f"pg_dump {backup.spec.database} | store --keep-days {backup.spec.retention_days}"
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": backup.name, "labels": {"app.kubernetes.io/managed-by": "backups"}},
        "spec": {
            "schedule": backup.spec.schedule,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {
                            "restartPolicy": "OnFailure",
                            "containers": [
                                {
                                    "name": "backup",
                                    "image": "example.com/backup:1",
                                    "command": ["sh", "-c", command],
                                }
                            ],
                        }
                    }
                }
            },
        },
    }
