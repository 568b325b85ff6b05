"""The task of events: delete old events."""

from datetime import timedelta

from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.statements import qualified

BATCH = 1000  # events a statement: locks are short
PURGE = TenantTask(name="purge events", every=timedelta(minutes=5), repeat=True)


def purge(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Delete events that are older than the retention of jobs; their jobs stay."""
    kept = timedelta(days=each_tenant.settings.retention_days)

    def purge_batch(engine: Engine, tenant: TenantTurn) -> int | None:
        statement = qualified("SELECT {}.event_purge(%s, %s)", tenant.schema)
        return int(engine.value(statement, kept, BATCH)) or None

    return each_tenant.run(PURGE, purge_batch)
