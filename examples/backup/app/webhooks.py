"""What the API server asks before it stores a Backup, and how it serves the first version of one.

A schema and CEL rules see one object. These handlers see more: who asks, and the other objects.
"""

from rws_operator import AdmissionRequest, CustomResource, Denied, Field, Model

from .backup import Backup, BackupSpec, BackupStatus, operator


@operator.mutate(Backup, operations=["CREATE"])
def belong_to_author(request: AdmissionRequest[Backup]) -> Backup:
    """Whoever creates a Backup owns it, unless it says otherwise."""
    backup = request.object
    if backup.spec.owner is None:
        backup.spec.owner = request.user.username
    return backup


@operator.validate(Backup, operations=["CREATE", "UPDATE"])
async def one_for_each_database(request: AdmissionRequest[Backup]) -> None:
    """Deny a second Backup of one database in a namespace."""
    database = request.object.spec.database
    if request.old_object is not None and request.old_object.spec.database == database:
        return
    for other in await request.client.list(Backup, request.namespace):
        if other.spec.database == database and other.name != request.name:
            raise Denied(f"Backup {other.name} has the database {database} already")


class BackupSpecV1Alpha1(Model):
    """What to back up, and when, as it was written at first."""

    cron: str = Field(description="Cron schedule of the backup.", pattern=r"^(\S+\s+){4}\S+$")
    database: str = Field(default="postgres", description="Name of the database.")
    keep: str = Field(
        default="7d",
        description="How long a backup is kept, 1d to 365d.",
        pattern=r"^([1-9][0-9]?|[12][0-9]{2}|3[0-5][0-9]|36[0-5])d$",
    )
    owner: str | None = Field(default=None, description="Who is told when a backup fails.")


class BackupV1Alpha1(
    CustomResource,
    group="example.com",
    version="v1alpha1",
    kind="Backup",
    short_names=["bk"],
    storage=False,
):
    """A scheduled backup of a database, as it was written at first."""

    spec: BackupSpecV1Alpha1
    status: BackupStatus = BackupStatus()


@operator.convert(BackupV1Alpha1, Backup)
def upgrade(old: BackupV1Alpha1) -> Backup:
    """To the version that is stored."""
    spec = BackupSpec(
        schedule=old.spec.cron,
        database=old.spec.database,
        retention_days=int(old.spec.keep.removesuffix("d")),
        owner=old.spec.owner,
    )
    return Backup(metadata=old.metadata, spec=spec, status=old.status)


@operator.convert(Backup, BackupV1Alpha1)
def downgrade(backup: Backup) -> BackupV1Alpha1:
    """For a client that still asks for v1alpha1."""
    spec = BackupSpecV1Alpha1(
        cron=backup.spec.schedule,
        database=backup.spec.database,
        keep=f"{backup.spec.retention_days}d",
        owner=backup.spec.owner,
    )
    return BackupV1Alpha1(metadata=backup.metadata, spec=spec, status=backup.status)
