"""Make the jobs of recurrence rules that are due, tenant by tenant, a transaction for each rule."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from turno.jobs.firing import Firing, firing
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.process_name import HOST
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.outage import busy, in_short, unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRule:
    """A stored rule whose first moment without a job comes soon or is past; `now` is the database's time.

    `version` is None if no handler of its type is known. With `restart` the moments are decided from `now` on: the rule
    is new, or the database's clock was set back after `next_at` was decided.
    """

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
    version: int | None
    queue: str | None
    max_attempts: int | None
    backend: str


class RuleSource(NamedTuple):
    """Where due rules are stored, and how their jobs are made, `ahead` of their moments.

    `fire(engine, schema, rule, firing, problem)` makes the jobs and sets the next moment; it returns the number of
    jobs, 0 if another process was faster. If the next moment is unchanged it records the problem alone.
    """

    task: TenantTask
    ahead: timedelta
    tenants: Callable[[Engine, timedelta], list[int]]
    due: Callable[[Engine, int, timedelta], list[DueRule]]
    fire: Callable[[Engine, str, DueRule, Firing, str | None], int]


def fire_due(engine: Engine, each_tenant: EachTenant, source: RuleSource) -> tuple[TaskReport, list[str]]:
    """Make every job that is due; returns the report, and the problems of rules that left moments out.

    Both name a rule as `tenant/rule`. A lock or statement timeout ends its tenant's turn.
    """
    turn = _Turn(source)
    report = each_tenant.run(source.task, turn.fire_next, among=source.tenants(engine, source.ahead))
    report.troubles |= turn.refused
    return report, turn.problems


class _Turn:
    """The due rules of each tenant, read at its first call."""

    def __init__(self, source: RuleSource) -> None:
        self._source = source
        self._due: dict[int, deque[DueRule]] = {}
        self.refused: dict[str, str] = {}
        self.problems: list[str] = []

    def fire_next(self, engine: Engine, tenant: TenantTurn) -> int | None:
        """Fire the tenant's next due rule; returns how many jobs, None if no rule is left."""
        if tenant.tenant_id not in self._due:
            self._due[tenant.tenant_id] = deque(self._source.due(engine, tenant.tenant_id, self._source.ahead))
        due = self._due[tenant.tenant_id]
        if not due:
            return None
        return self._fire(engine, tenant, due.popleft())

    def _fire(self, engine: Engine, tenant: TenantTurn, rule: DueRule) -> int:
        name = f"{tenant.slug}/{rule.name}"
        decided, problem = _decide(rule, tenant.slug, self._source.ahead)
        if problem:
            self.problems.append(f"{name}: {problem}")
        try:
            with engine.transaction():
                return self._source.fire(engine, tenant.schema, rule, decided, problem)
        except psycopg.Error as error:
            if busy(error) or unreachable(error):
                raise
            self.refused[name] = in_short(error)
            refusal = f"its job was refused: {in_short(error)}"[:1000]
            return self._source.fire(engine, tenant.schema, rule, Firing([], rule.next_at, 0), refusal)


def _decide(due: DueRule, tenant: str, ahead: timedelta) -> tuple[Firing, str | None]:
    from turno.jobs.recurrence import InvalidRule, rule_of  # noqa: PLC0415 - most maintenance runs find nothing due

    try:
        rule = rule_of(
            cron=due.cron,
            every=due.every,
            zone=due.zone,
            spread=due.spread,
            missed=due.missed,
            name=due.name,
            tenant=tenant,
        )
    except InvalidRule as error:
        # The rule was valid on the host that saved it. A host with, for example, data of its time zone fires it.
        return Firing([], due.next_at, 0), f"the host {HOST} cannot evaluate its rule: {error}"
    begin = due.now if due.restart else due.next_at
    decided = firing(rule, due.missed, next_at=begin, now=due.now, ahead=ahead)
    if decided.missed:
        return decided, f"{decided.missed} moments were missed: no maintenance ran in time"
    return decided, None
