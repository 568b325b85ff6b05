"""The tasks of schedules: create the jobs of due moments, and repair the copies in the control schema."""

import logging
from collections import deque
from datetime import timedelta

import psycopg

from turno.capabilities.schedules import due_schedules
from turno.capabilities.schedules.due_schedules import DueSchedule
from turno.capabilities.schedules.firing import AHEAD, MOST_MISSED, Firing, firing
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.process_name import HOST
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.outage import busy, in_short, unreachable

log = logging.getLogger(__name__)

# A back-off below the five minutes after which a moment counts as missed.
SCHEDULES = TenantTask(name="schedules", budget=10, repeat=True, lock_timeout="500ms", longest=timedelta(minutes=1))


REPAIR = TenantTask(name="repair schedules", every=timedelta(minutes=5), statement_timeout="30s")


def repair(_engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the copies in the control schema agree with the schedules, as after a restore."""
    return each_tenant.run(REPAIR, lambda engine, tenant: due_schedules.repair(engine, tenant.schema))


def fire_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make every job that is due, a transaction for each schedule.

    The report names a refused schedule as `tenant/schedule`. A lock or statement timeout ends its tenant's turn.
    """
    turn = _Turn()
    report = each_tenant.run(SCHEDULES, turn.fire_next, among=due_schedules.due_tenants(engine, AHEAD))
    report.troubles |= turn.refused
    if turn.problems:
        log.warning(
            "%d schedules left moments out; the first: %s",
            len(turn.problems),
            turn.problems[0],
            extra={"alert": "schedules"},
        )
    return report


class _Turn:
    """The due schedules of each tenant, read at its first call."""

    def __init__(self) -> None:
        self._due: dict[int, deque[DueSchedule]] = {}
        self.refused: dict[str, str] = {}
        self.problems: list[str] = []

    def fire_next(self, engine: Engine, tenant: TenantTurn) -> int | None:
        """Fire the tenant's next due schedule; returns how many jobs, None if no schedule is left."""
        if tenant.tenant_id not in self._due:
            self._due[tenant.tenant_id] = deque(due_schedules.due(engine, tenant.tenant_id, AHEAD))
        due = self._due[tenant.tenant_id]
        if not due:
            return None
        return self._fire(engine, tenant, due.popleft())

    def _fire(self, engine: Engine, tenant: TenantTurn, schedule: DueSchedule) -> int:
        name = f"{tenant.slug}/{schedule.name}"
        decided, problem = _decide(schedule, tenant.slug)
        if problem:
            self.problems.append(f"{name}: {problem}")
        try:
            with engine.transaction():
                return due_schedules.fire(
                    engine,
                    tenant.schema,
                    schedule,
                    decided.moments,
                    decided.next_at,
                    decided.missed,
                    problem,
                    MOST_MISSED,
                )
        except psycopg.Error as error:
            if busy(error) or unreachable(error):
                raise
            self.refused[name] = in_short(error)
            unchanged = (schedule.next_at, 0, f"its job was refused: {in_short(error)}"[:1000])
            return due_schedules.fire(engine, tenant.schema, schedule, [], *unchanged, MOST_MISSED)


def _decide(schedule: DueSchedule, tenant: str) -> tuple[Firing, str | None]:
    from turno.capabilities.schedules.rule import InvalidRule, rule_of  # noqa: PLC0415 - most maintenance runs find nothing due

    try:
        rule = rule_of(
            cron=schedule.cron,
            every=schedule.every,
            zone=schedule.zone,
            spread=schedule.spread,
            missed=schedule.missed,
            name=schedule.name,
            tenant=tenant,
        )
    except InvalidRule as error:
        # The rule was valid on the host that saved it. A host with, for example, data of its time zone fires it.
        return Firing([], schedule.next_at, 0), f"the host {HOST} cannot evaluate its rule: {error}"
    begin = schedule.now if schedule.set_back else schedule.next_at
    decided = firing(rule, schedule.missed, next_at=begin, now=schedule.now)
    if decided.missed:
        return decided, f"{decided.missed} moments were missed: no maintenance ran in time"
    return decided, None
