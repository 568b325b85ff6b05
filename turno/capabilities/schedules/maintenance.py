"""The tasks of schedules: create the jobs of due moments, and repair the copies in the control schema."""

import logging
from datetime import timedelta

from turno.capabilities.schedules import due_schedules
from turno.jobs.firing import AHEAD
from turno.maintenance import recurring
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.maintenance.recurring import RuleSource
from turno.store.engine.engine import Engine

log = logging.getLogger(__name__)

# A back-off below the five minutes after which a moment counts as missed.
SCHEDULES = TenantTask(name="schedules", budget=10, repeat=True, lock_timeout="500ms", longest=timedelta(minutes=1))
REPAIR = TenantTask(name="repair schedules", every=timedelta(minutes=5), statement_timeout="30s")
SOURCE = RuleSource(SCHEDULES, AHEAD, due_schedules.due_tenants, due_schedules.due, due_schedules.fire)


def repair(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the copies in the control schema agree with the schedules, as after a restore."""
    return each_tenant.run(REPAIR, lambda engine, tenant: due_schedules.repair(engine, tenant.schema))


def fire_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make every job that is due; the report names a refused schedule as `tenant/schedule`."""
    report, problems = recurring.fire_due(engine, each_tenant, SOURCE)
    if problems:
        log.warning(
            "%d schedules left moments out; the first: %s", len(problems), problems[0], extra={"alert": "schedules"}
        )
    return report
