"""Remove from FILES_FOLDER what no row knows: of uploads and jobs that are gone, and of work that was undone."""

from itertools import islice

from turno.files.folder import Folder
from turno.store.engine import recovery, tickets
from turno.store.engine_link import EngineLink

ASKED_AT_ONCE = 500


def sweep_files(engine: EngineLink, root: str, *, dry_run: bool) -> int:
    """Look at the folders of the tenants that are active; returns how many files were removed, or would be."""
    removed = 0
    for _, schema in engine.run(tickets.active_tenants):
        folder = Folder(root, schema)
        old = folder.old()
        while asked := list(islice(old, ASKED_AT_ONCE)):
            unknown = engine.run(recovery.unknown_files, schema, asked)
            removed += len(unknown)
            for file_id in unknown if not dry_run else ():
                folder.remove(file_id)
    return removed
