"""The task of templates: create the jobs of due moments, tenant by tenant."""

import logging
from datetime import timedelta

from turno.jobs.firing import MOST_MISSED, Firing
from turno.maintenance import recurring
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.maintenance.recurring import DueRule, RuleSource
from turno.store.engine.engine import Engine
from turno.store.statements import qualified

log = logging.getLogger(__name__)

# A back-off below the five minutes after which a moment counts as missed.
TEMPLATES = TenantTask(name="templates", budget=10, repeat=True, lock_timeout="500ms", longest=timedelta(minutes=1))


def fire_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make every job that is due; the report names a refused copy as `tenant/template`."""
    report, problems = recurring.fire_due(engine, each_tenant, SOURCE)
    if problems:
        log.warning(
            "%d copies of templates left moments out; the first: %s",
            len(problems),
            problems[0],
            extra={"alert": "schedules"},
        )
    return report


def _tenants(engine: Engine, _ahead: timedelta) -> list[int]:
    ids: list[int] = engine.value("SELECT template_tenants()")
    return ids


def _due(engine: Engine, tenant_id: int, _ahead: timedelta) -> list[DueRule]:
    return engine.rows(DueRule, "SELECT * FROM templates_due(%s)", tenant_id)


def _fire(engine: Engine, schema: str, rule: DueRule, decided: Firing, problem: str | None) -> int:
    made = engine.value(
        qualified(
            "SELECT {}.template_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s::smallint, %s, %s, %s, %s)", schema
        ),
        rule.rule_id,
        rule.next_at,
        decided.moments,
        decided.next_at,
        decided.missed,
        problem,
        rule.version,
        rule.queue,
        rule.max_attempts,
        rule.backend,
        MOST_MISSED,
    )
    return int(made or 0)


# No job is made ahead of its moment, so that a pause or a change has no job to take back.
SOURCE = RuleSource(TEMPLATES, timedelta(0), _tenants, _due, _fire)
