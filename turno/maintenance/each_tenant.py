"""Run a task in one tenant after another. No other code loops over tenants.

    EXPIRE = TenantTask(name="expire", every=timedelta(minutes=5))
    report = each_tenant.run(EXPIRE, lambda engine, tenant: engine.expire(tenant.schema))

Each call of the work is one transaction with a lock_timeout and a statement_timeout. A failed tenant is logged,
recorded in `turno.tenant_failures` (read by `turno status` and the alerts) and left out until its back-off of this task
is over. A turn ends with its budget; the next turn continues with the next tenant. A task that finds its work by an
index of the control schema passes their tenants' ids as `among`.

The work must not wait for anything but the database: a transaction is open. Collect the data of network calls, end the
run, make the calls, and record their results in a second run or in the control schema.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from time import monotonic

import psycopg

from turno.settings import Settings
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.engine_link import DatabaseGone
from turno.store.outage import in_short, unreachable

log = logging.getLogger(__name__)

Work = Callable[[Engine, TenantTurn], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTask:
    """How a task runs. `name` is the key of its position and of its back-offs.

    A round over all tenants begins `every` after the last one began; zero: at each run. `budget` and `share` are the
    seconds of a turn, and of a tenant within it before the next tenant's work. With `repeat` the work is called again
    until it returns None. After `tries` refused calls the tenant's turn ends. The back-off grows from `first` to
    `longest`.
    """

    name: str
    every: timedelta = timedelta(0)
    budget: float = 5.0
    share: float = 1.0
    repeat: bool = False
    tries: int = 1
    lock_timeout: str = "1s"
    statement_timeout: str = "10s"
    first: timedelta = timedelta(seconds=10)
    longest: timedelta = timedelta(hours=1)


@dataclass(slots=True)
class TaskReport:
    """How many rows a turn changed, and the error of each tenant that failed, by slug."""

    done: int = 0
    troubles: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class EachTenant:
    """Runs tasks tenant by tenant, in a fair order and within their budgets.

    `at_each_step` is called between transactions. A `dry_run` calls the work once for each tenant, rolled back. With
    `complete` set, each run is a whole round, however long it takes. Tasks of capabilities read `settings`.
    """

    engine: Engine
    settings: Settings = field(default_factory=Settings)
    _: KW_ONLY
    dry_run: bool = False
    at_each_step: Callable[[], None] = lambda: None
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self.complete = self.dry_run

    def run(self, task: TenantTask, work: Work, among: Collection[int] | None = None) -> TaskReport:
        """Run the task's turn for all active tenants, or for `among`; the work returns the number of changed rows.

        Raises psycopg.OperationalError only if the database cannot be reached.
        """
        report = TaskReport()
        if among is not None and not among:
            return report
        every = timedelta(0) if self.complete else task.every
        with self.engine.transaction(force_rollback=self.dry_run):
            tenants = self.engine.tenant_turns(task.name, every, among)
        over = math.inf if self.complete else self.clock() + task.budget
        unfinished = deque[TenantTurn]()
        for number, tenant in enumerate(tenants):
            if number and self.clock() >= over:
                return report
            self._note(self.engine.begin_turn, task.name, tenant.tenant_id)
            if not self._run_turn(task, work, tenant, report):
                unfinished.append(tenant)
        self._note(self.engine.begin_turn, task.name, 0)
        while unfinished and self.clock() < over:
            tenant = unfinished.popleft()
            if not self._run_turn(task, work, tenant, report):
                unfinished.append(tenant)
        return report

    def in_batches(self, work: Callable[..., int], *parameters: object) -> int:
        """Call the work of the control schema, a transaction each, until it changes no row; a dry run calls it once."""
        total = 0
        while True:
            self.at_each_step()
            with self.engine.transaction(force_rollback=self.dry_run):
                done = work(*parameters)
            total += done
            if not done or self.dry_run:
                return total

    def _run_turn(self, task: TenantTask, work: Work, tenant: TenantTurn, report: TaskReport) -> bool:
        """Call the work until none is left, or the tenant's share is over; False if it is to go on in this turn."""
        until = self.clock() + task.share
        finished, refused = False, list[str]()
        while not finished and len(refused) < task.tries and self.clock() < until:
            self.at_each_step()
            try:
                done = self._in_transaction(task, work, tenant)
            except DatabaseGone:
                raise
            except Exception as error:
                if isinstance(error, psycopg.Error) and unreachable(error):
                    raise
                refused.append(_problem(error))
                log.error(  # noqa: TRY400 - the database's errors have no traceback
                    "%s failed for a tenant, which is tried again after its back-off: %s",
                    task.name,
                    refused[-1],
                    extra={"alert": "maintenance", "tenant": tenant.slug},
                    exc_info=None if isinstance(error, psycopg.Error) else error,
                )
            else:
                report.done += done or 0
                finished = done is None or not task.repeat or self.dry_run
        if refused:
            report.troubles[tenant.slug] = refused[-1]
        if refused or (finished and tenant.failures):
            pauses = {"first": task.first, "longest": task.longest}
            self._note(self.engine.end_turn, task.name, tenant.tenant_id, refused[-1] if refused else None, **pauses)
        return finished or bool(refused)

    def _in_transaction(self, task: TenantTask, work: Work, tenant: TenantTurn) -> int | None:
        with self.engine.transaction(force_rollback=self.dry_run):
            self.engine.execute(
                "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)",
                (task.lock_timeout, task.statement_timeout),
            )
            return work(self.engine, tenant)

    def _note(self, record: Callable[..., None], *parameters: object, **options: object) -> None:
        if not self.dry_run:
            record(*parameters, **options)


def _problem(error: Exception) -> str:
    return in_short(error) if isinstance(error, psycopg.Error) else f"{type(error).__name__}: {error}"
