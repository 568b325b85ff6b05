"""Remove the files in FILES_FOLDER that no row names: of removed uploads and jobs, and of work that was rolled back."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from turno.files.folder import Folder
from turno.store.engine import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from turno.maintenance.each_tenant import Work
    from turno.store.engine.engine import Engine, TenantTurn

BATCH = 500  # files a statement


def files_without_row(root: str, *, dry_run: bool) -> Work:
    """Return the work that removes them from one tenant's folder, a batch a call."""
    old: dict[str, Iterator[UUID]] = {}

    def remove(engine: Engine, tenant: TenantTurn) -> int | None:
        folder = Folder(root, tenant.schema)
        present = old.setdefault(tenant.schema, folder.old())
        if not (batch := list(islice(present, BATCH))):
            return None
        unknown = files.unknown(engine, tenant.schema, batch)
        for file_id in unknown if not dry_run else ():
            folder.remove(file_id)
        return len(unknown)

    return remove
