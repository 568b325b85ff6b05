"""The task of files: delete expired uploads, and files in TURNO_FILES_FOLDER without a row."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from uuid import UUID

from turno.capabilities.files.folder import Folder
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask, Work
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.statements import qualified

UPLOADS_AT_ONCE = 10  # of up to 64 MB each
FILES_AT_ONCE = 500
EVERY = timedelta(minutes=5)
UPLOADS = TenantTask(name="purge uploads", every=EVERY, repeat=True)
FOLDERS = TenantTask(name="purge folders", every=EVERY, repeat=True)


def purge(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Delete uploads that no job has read in time, and files in the folder that no row names."""
    report = each_tenant.run(UPLOADS, purge_uploads)
    if root := each_tenant.settings.files_folder:
        folders = each_tenant.run(FOLDERS, files_without_row(root, dry_run=each_tenant.dry_run))
        report = TaskReport(report.done + folders.done, report.troubles | folders.troubles)
    return report


def purge_uploads(engine: Engine, tenant: TenantTurn) -> int | None:
    """Delete a batch of a tenant's expired uploads; returns their number, None for none."""
    return int(engine.value(qualified("SELECT {}.file_purge(%s)", tenant.schema), UPLOADS_AT_ONCE)) or None


def files_without_row(root: str, *, dry_run: bool) -> Work:
    """Return the work that removes files of deleted uploads and jobs, and of rolled-back work, a batch a call."""
    old = dict[str, Iterator[UUID]]()

    def remove(engine: Engine, tenant: TenantTurn) -> int | None:
        folder = Folder(root, tenant.schema)
        present = old.setdefault(tenant.schema, folder.old())
        if not (batch := list(islice(present, FILES_AT_ONCE))):
            return None
        rows = engine.execute(qualified("SELECT {}.files_unknown(%s)", tenant.schema), (batch,))
        unknown = [row[0] for row in rows]
        for file_id in unknown if not dry_run else ():
            folder.remove(file_id)
        return len(unknown)

    return remove
