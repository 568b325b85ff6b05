"""The tasks of schedules and templates: make the jobs of due moments, and repair the copies in the control schema."""

import logging
from collections import deque
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from turno.capabilities.schedules.recurrence import AHEAD, MOST_MISSED, Firing, InvalidRule, firing
from turno.capabilities.schedules.recurring_job import stored_rule
from turno.jobs.label import counted
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.process_name import HOST
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.outage import busy, in_short, unreachable
from turno.store.statements import qualified

log = logging.getLogger(__name__)

# A back-off stays below the five minutes after which a moment counts as missed.
FIRE = TenantTask(name="schedules", budget=10, repeat=True, lock_timeout="500ms", longest=timedelta(minutes=1))
REPAIR = TenantTask(name="repair schedules", every=timedelta(minutes=5), statement_timeout="30s")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRule:
    """A schedule, or a copy of a `template`, with a first moment without a job that comes soon or is past.

    `now` is the database's time. With `restart` the moments are decided from `now` on: the rule is new, or the
    database's clock was set back after `next_at` was decided.
    """

    template: bool
    rule_id: UUID
    name: str
    cron: str | None
    every: int | None
    zone: str
    spread: int
    missed: Any
    next_at: datetime
    restart: bool
    now: datetime
    backend: str


def due_tenants(engine: Engine) -> list[int]:
    """Return the ids of the active tenants, not paused, with a due rule."""
    ids: list[int] = engine.value("SELECT schedule_tenants(%s)", AHEAD)
    return ids


def due(engine: Engine, tenant_id: int) -> list[DueRule]:
    """Return the tenant's rules that are due, the earliest first."""
    return engine.rows(DueRule, "SELECT * FROM schedules_due(%s, %s)", tenant_id, AHEAD)


def fire(engine: Engine, schema: str, rule: DueRule, decided: Firing, problem: str | None) -> int:
    """Make the jobs of these moments and set the next one; returns their number, 0 if another process was faster.

    If the next moment is that of the rule, only the problem is recorded.
    """
    statement = qualified("SELECT {}.schedule_fire(%s, %s, %s, %s::timestamptz[], %s, %s, %s, %s, %s)", schema)
    moments, next_at, missed = decided.moments, decided.next_at, decided.missed
    state = rule.template, rule.rule_id, rule.next_at
    return engine.value(statement, *state, moments, next_at, missed, problem, rule.backend, MOST_MISSED) or 0


def fire_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make every job that is due; the report names a refused rule as `tenant/rule`.

    A lock or statement timeout ends its tenant's turn. A rule that left moments out is logged.
    """
    rules: dict[int, deque[DueRule]] = {}  # of each tenant, read at its first call
    refused, problems = dict[str, str](), list[str]()

    def fire_next(session: Engine, tenant: TenantTurn) -> int | None:
        """Fire the tenant's next due rule; returns how many jobs, None if no rule is left."""
        if tenant.tenant_id not in rules:
            rules[tenant.tenant_id] = deque(due(session, tenant.tenant_id))
        if not rules[tenant.tenant_id]:
            return None
        rule = rules[tenant.tenant_id].popleft()
        name = f"{tenant.slug}/{'template ' if rule.template else ''}{rule.name}"
        decided, problem = _decide(rule, tenant.slug)
        if problem:
            problems.append(f"{name}: {problem}")
        try:
            with session.transaction():
                return fire(session, tenant.schema, rule, decided, problem)
        except psycopg.Error as error:
            if busy(error) or unreachable(error):
                raise
            refused[name] = in_short(error)
            refusal = f"its job was refused: {in_short(error)}"[:1000]
            return fire(session, tenant.schema, rule, Firing([], rule.next_at, 0), refusal)

    report = each_tenant.run(FIRE, fire_next, among=due_tenants(engine))
    report.troubles |= refused
    if problems:
        many = counted(len(problems), "schedule")
        log.warning("%s left moments out; the first: %s", many, problems[0], extra={"alert": "schedules"})
    return report


def repair(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the copies in the control schema agree with the schedules, as after a restore."""
    return each_tenant.run(
        REPAIR, lambda engine, tenant: int(engine.value(qualified("SELECT {}.schedule_repair()", tenant.schema)))
    )


def _decide(due: DueRule, tenant: str) -> tuple[Firing, str | None]:
    try:
        rule = stored_rule(asdict(due), tenant)
    except InvalidRule as error:
        # The rule was valid on the host that saved it. A host with, for example, data of its time zone fires it.
        return Firing([], due.next_at, 0), f"the host {HOST} cannot evaluate its rule: {error}"
    begin = due.now if due.restart else due.next_at
    ahead = timedelta(0) if due.template else AHEAD
    decided = firing(rule, due.missed, next_at=begin, now=due.now, ahead=ahead)
    if decided.missed:
        return decided, f"{decided.missed} moments were missed: no maintenance ran in time"
    return decided, None
