"""Removal of old events."""

from datetime import timedelta

from turno.store.engine.engine import Engine
from turno.store.qualified import qualified


def purge(engine: Engine, schema: str, older_than: timedelta, limit: int) -> int:
    """Remove up to `limit` events that were published so long ago; return how many."""
    return int(engine.value(qualified("SELECT {}.event_purge(%s, %s)", schema), older_than, limit))
