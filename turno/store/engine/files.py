"""Removal of a tenant's unused files."""

from collections.abc import Sequence
from uuid import UUID

from turno.store.engine.engine import Engine
from turno.store.qualified import qualified


def unknown(engine: Engine, schema: str, files: Sequence[UUID]) -> list[UUID]:
    """Return those of these files in the folder that no row of the tenant names."""
    return [row[0] for row in engine.execute(qualified("SELECT {}.files_unknown(%s)", schema), (list(files),))]


def purge(engine: Engine, schema: str, limit: int) -> int:
    """Remove up to `limit` uploads of a tenant that no job has read in time; return how many."""
    return int(engine.value(qualified("SELECT {}.file_purge(%s)", schema), limit))
