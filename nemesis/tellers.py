"""An application that publishes events and enqueues unique jobs in its own transactions, and settles failures."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from nemesis.hearing import InOrder, NumberedEvent, Once, Sole, Tick
from nemesis.work import Work
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.store.statements import qualified
from turno.testing.checker import Submission
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from nemesis.environment import Environment
    from nemesis.workload import Workload
    from turno.tenancy.identity.tenant import Tenant
    from turno.testing.checker import ClientLog
    from turno.testing.leak_detector import LeakDetector

KEYS = ("a", "b", "c")
ROLLED_BACK = 0.15  # of the transactions
DIFFERENT = 12  # unique jobs
USER = "teller"
SCHEDULES = 10  # of a tenant, spread over the minute
# Publishers of a key take turns, as if they changed the same business row; each event has the next number.
TELL = """
INSERT INTO customers (id, company_name, tax_condition, address, city, country)
SELECT gen_random_uuid()::text, coalesce(max(company_name::integer), 0) + 1, 'exempt', %(key)s, 'told', 'told'
FROM customers WHERE country = 'told' AND address = %(key)s
RETURNING company_name::integer
"""
PUBLISH = "SELECT event_id FROM turno.publish(%s, 'nemesis.told', %s::jsonb, %s, %s)"
ENQUEUE = """
SELECT job_id FROM turno.enqueue(
    tenant => %s, type => %s, payload => %s::jsonb, key => %s, unique_while => %s, user_id => %s)
"""
SCHEDULE = """
INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)
VALUES (%s, 'nemesis_tick', %s, 1, %s, 60, 'UTC', %s, 'all', %s)
"""
BLOCKING = (
    "SELECT job_id FROM background_jobs_dead_letter WHERE type = %s AND replayed_at IS NULL AND discarded_at IS NULL"
)
RETRY = "SELECT {}.job_retry(%s, NULL, 'pool', NULL, NULL, NULL)"
DISCARD = "SELECT {}.job_discard(%s, 'a person')"
PAUSE = "SELECT {}.schedule_switch(name, NULL, NULL) FROM job_schedules"
SPREAD = 59


class Teller(Thread):
    """An application in the database of the tenants."""

    def __init__(
        self,
        seed: int,
        environment: Environment,
        *,
        workload: Workload,
        client_log: ClientLog,
        leak_detector: LeakDetector,
    ) -> None:
        super().__init__(name="teller")
        self._chance = Random(f"{seed}/teller")  # noqa: S311 - reproducible, not secret
        self._environment = environment
        self._workload = workload
        self._client_log = client_log
        self._leak_detector = leak_detector
        self._over = Event()

    def leave(self) -> None:
        """Stop publishing."""
        self._over.set()

    def run(self) -> None:
        """Publish events in sequence, and settle dead letters that block later events."""
        reply = [what for kind, what in (("events", self._tell), ("unique", self._enqueue)) if self._workload.has(kind)]
        while reply and not self._over.wait(self._chance.expovariate(4)):
            with suppress(psycopg.Error):
                settle(self._environment, self._chance)
                if self._environment.open_jobs() < self._workload.most_open:
                    self._chance.choice(reply)(self._chance.choice(self._environment.tenants))

    def _tell(self, tenant: Tenant) -> None:
        key = self._chance.choice(KEYS)
        with self._environment.admin(tenant) as session, session.transaction(force_rollback=self._regrets()):
            session.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (tenant.id, f"told {key}"))
            for _ in range(self._chance.randint(1, 3)):
                ((number,),) = session.execute(TELL, {"key": key}).fetchall()
                reply = NumberedEvent(
                    note=self._leak_detector.marker_of(tenant),
                    key=key,
                    number=number,
                    errors=self._chance.choice((0, 0, 1, 2)),
                    seconds=round(self._chance.uniform(0, 0.3), 2),
                )
                session.execute(PUBLISH, (tenant.slug, json.dumps(asdict(reply)), key, USER))

    def _enqueue(self, tenant: Tenant) -> None:
        """Enqueue a job that is unique for ever, or unique while open."""
        which = self._chance.randrange(DIFFERENT)
        handler, key, lasting = (Once, f"once-{which}", "for ever") if which % 3 else (Sole, "sole", "open")
        work = Work(note=self._leak_detector.marker_of(tenant), pieces=which, seconds=0.3)
        requested = Submission(tenant.slug, USER, handler.type, key)
        self._client_log.ask(requested)
        self._client_log.ask(requested._replace(key="None"))  # the text of the key after its release
        regrets = self._regrets()
        with self._environment.admin(tenant) as session:
            with session.transaction(force_rollback=regrets):
                wanted = (tenant.slug, handler.type, json.dumps(asdict(work)), key, lasting, USER)
                ((job_id,),) = session.execute(ENQUEUE, wanted).fetchall()
            if handler is Once and not regrets:
                self._client_log.answer(requested, job_id)

    def _regrets(self) -> bool:
        return self._chance.random() < ROLLED_BACK


def settle(environment: Environment, chance: Random) -> None:
    """Replay or discard each dead letter that blocks later events of its key, as a person does."""
    for tenant in environment.tenants:
        with environment.admin(tenant) as session:
            for (job_id,) in session.execute(BLOCKING, [InOrder.type]).fetchall():
                if chance.choice((True, False)):
                    session.execute(qualified(RETRY, tenant.schema), [job_id])
                else:
                    session.execute(qualified(DISCARD, tenant.schema), [job_id])


def put_schedules(environment: Environment) -> None:
    """Save schedules in each tenant, each for another second of the minute."""
    for tenant in environment.tenants:
        with environment.admin(tenant) as session:
            for number in range(SCHEDULES):
                new = RecurringJob(
                    name=f"tick-{number}", handler=Tick, payload={}, user_id=USER, every=60, spread=SPREAD, missed="all"
                )
                first = new.rule(tenant.slug).next_after(datetime.now(UTC))
                session.execute(SCHEDULE, (new.name, json.dumps(asdict(Work())), USER, SPREAD, first))


def pause_schedules(environment: Environment, *, within: float) -> None:
    """Pause the schedules once each past moment has its job: the drain would wait for future moments."""

    def behind() -> bool:
        with environment.admin() as session:
            overdue = session.execute("SELECT FROM turno.schedules WHERE next_at <= clock_timestamp()")
            return overdue.rowcount > 0

    wait_until(lambda: not behind(), within=within, every=0.5)
    for tenant in environment.tenants:
        with environment.admin(tenant) as session:
            session.execute(qualified(PAUSE, tenant.schema))
