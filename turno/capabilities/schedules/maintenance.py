"""The tasks of schedules: create the jobs of due moments, and repair the copies in the control schema."""

from datetime import timedelta
from functools import partial

from turno.jobs.recurrence import AHEAD
from turno.maintenance import recurring
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.maintenance.recurring import RuleSource
from turno.store.engine.engine import Engine
from turno.store.statements import qualified

SOURCE = RuleSource("schedule", AHEAD)
REPAIR = TenantTask(name="repair schedules", every=timedelta(minutes=5), statement_timeout="30s")
fire_due = partial(recurring.fire_due, source=SOURCE)


def repair(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the copies in the control schema agree with the schedules, as after a restore."""
    return each_tenant.run(
        REPAIR, lambda engine, tenant: int(engine.value(qualified("SELECT {}.schedule_repair()", tenant.schema)))
    )
