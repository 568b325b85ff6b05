"""Make the jobs of recurrence rules that are due, tenant by tenant, a transaction for each rule."""

import logging
from collections import deque
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg

from turno.jobs.recurrence import MOST_MISSED, Firing, firing
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.process_name import HOST
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.outage import busy, in_short, unreachable
from turno.store.statements import qualified

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRule:
    """A stored rule with a first moment without a job that comes soon or is past; `now` is the database's time.

    With `restart` the moments are decided from `now` on: the rule is new, or the database's clock was set back after
    `next_at` was decided.
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
    backend: str


class RuleSource(NamedTuple):
    """Rules in tables of a capability, and how long `ahead` of their moments jobs are made.

    The statements call three functions: `<name>_tenants(ahead)` returns the ids of tenants with due rules,
    `<name>s_due(tenant, ahead)` the DueRules of a tenant, and `<name>_fire` makes jobs in the schema of a tenant.
    """

    name: LiteralString
    ahead: timedelta

    @property
    def task(self) -> TenantTask:
        """Return the task, with a back-off below the five minutes after which a moment counts as missed."""
        longest = timedelta(minutes=1)
        return TenantTask(name=f"{self.name}s", budget=10, repeat=True, lock_timeout="500ms", longest=longest)

    def tenants(self, engine: Engine) -> list[int]:
        """Return the ids of the active tenants, not paused, with a rule due within `ahead`."""
        ids: list[int] = engine.value("SELECT " + self.name + "_tenants(%s)", self.ahead)
        return ids

    def due(self, engine: Engine, tenant_id: int) -> list[DueRule]:
        """Return the tenant's rules that are due within `ahead`, the earliest first."""
        statement = "SELECT * FROM " + self.name + "s_due(%s, %s)"  # noqa: S608 - a literal name
        return engine.rows(DueRule, statement, tenant_id, self.ahead)

    def fire(self, engine: Engine, schema: str, rule: DueRule, decided: Firing, problem: str | None) -> int:
        """Make the jobs of these moments and set the next one; returns their number, 0 if another process was faster.

        If the next moment is that of the rule, only the problem is recorded.
        """
        call: LiteralString = "SELECT {}." + self.name + "_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s, %s)"
        made = engine.value(
            qualified(call, schema),
            rule.rule_id,
            rule.next_at,
            decided.moments,
            decided.next_at,
            decided.missed,
            problem,
            rule.backend,
            MOST_MISSED,
        )
        return int(made or 0)


def fire_due(engine: Engine, each_tenant: EachTenant, source: RuleSource) -> TaskReport:
    """Make every job that is due; the report names a refused rule as `tenant/rule`.

    A lock or statement timeout ends its tenant's turn. A rule that left moments out is logged.
    """
    due: dict[int, deque[DueRule]] = {}  # of each tenant, read at its first call
    refused, problems = dict[str, str](), list[str]()

    def fire_next(session: Engine, tenant: TenantTurn) -> int | None:
        """Fire the tenant's next due rule; returns how many jobs, None if no rule is left."""
        if tenant.tenant_id not in due:
            due[tenant.tenant_id] = deque(source.due(session, tenant.tenant_id))
        if not due[tenant.tenant_id]:
            return None
        rule = due[tenant.tenant_id].popleft()
        name = f"{tenant.slug}/{rule.name}"
        decided, problem = _decide(rule, tenant.slug, source.ahead)
        if problem:
            problems.append(f"{name}: {problem}")
        try:
            with session.transaction():
                return source.fire(session, tenant.schema, rule, decided, problem)
        except psycopg.Error as error:
            if busy(error) or unreachable(error):
                raise
            refused[name] = in_short(error)
            refusal = f"its job was refused: {in_short(error)}"[:1000]
            return source.fire(session, tenant.schema, rule, Firing([], rule.next_at, 0), refusal)

    report = each_tenant.run(source.task, fire_next, among=source.tenants(engine))
    report.troubles |= refused
    if problems:
        left_out = len(problems), source.name, problems[0]
        log.warning("%d %ss left moments out; the first: %s", *left_out, extra={"alert": "schedules"})
    return report


def _decide(due: DueRule, tenant: str, ahead: timedelta) -> tuple[Firing, str | None]:
    from turno.jobs.recurrence import InvalidRule  # noqa: PLC0415 - most maintenance runs find nothing due
    from turno.jobs.recurring_job import stored_rule  # noqa: PLC0415

    try:
        rule = stored_rule(asdict(due), tenant)
    except InvalidRule as error:
        # The rule was valid on the host that saved it. A host with, for example, data of its time zone fires it.
        return Firing([], due.next_at, 0), f"the host {HOST} cannot evaluate its rule: {error}"
    begin = due.now if due.restart else due.next_at
    decided = firing(rule, due.missed, next_at=begin, now=due.now, ahead=ahead)
    if decided.missed:
        return decided, f"{decided.missed} moments were missed: no maintenance ran in time"
    return decided, None
