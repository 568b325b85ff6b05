"""Any order of calls, by any role, with any token: the database agrees with a small model.

`--hypothesis-seed=N` repeats a run, `--hypothesis-profile=soak` runs for hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nemesis.effects import EFFECT, EFFECTS, THE_END
from tests import attempt_steps, claiming
from tests.installation import LOOK_ALIKE, ExampleInstallation
from tests.job_model import ClaimRecord, Job
from turno.dispatch.dispatcher import CANCEL, ENQUEUE, RETRY, submission
from turno.errors import ClaimLost, HandlerMisuse
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import Tenant
from turno.testing.invariants import Judge, judge_of

TYPES = [("batch_invoicing", 1)]
STEPS = 60
HOUR = timedelta(hours=1)
NOW = timedelta(0)
QUOTA = 4

Write = Callable[[HandlerConnection, Claim], Any]

# Everything that shows a token. All of these are refused after a lost claim.
WRITES: dict[str, Write] = {
    "start": lambda session, claim: attempt_steps.start(session, claim, "zombie"),
    "progress": lambda session, claim: attempts.progress(session, claim, 7, 7, "zombie"),
    "items": lambda session, claim: attempts.items(session, claim, [{"key": "zombie", "state": "done"}], 1),
    "checkpoint": lambda session, claim: attempts.checkpoint(session, claim, 666),
    "complete": lambda session, claim: attempt_steps.complete(session, claim, "{}"),
    "fail": lambda session, claim: attempt_steps.fail(session, claim, "zombie", {}, NOW),
    "fail for good": lambda session, claim: attempt_steps.fail(session, claim, "zombie", {}, None),
    "release": lambda session, claim: attempt_steps.release(session, claim, "released", "zombie", datetime.now(UTC)),
    "cancel": lambda session, claim: attempt_steps.cancel(session, claim, "zombie"),
}
# The ends of a job of a batch in its transaction, and the events of the batch meanwhile.
ENDS: dict[str, Write] = {
    "error": lambda session, claim: attempt_steps.fail(session, claim, "error", {"class": "Oops"}, NOW),
    "failed": lambda session, claim: attempt_steps.fail(session, claim, "error", {"class": "Oops"}, None),
    "released": lambda session, claim: attempt_steps.release(session, claim, "released", "back", datetime.now(UTC)),
}
MEANWHILE = ("nothing", "nothing", "cancelled", "one rescued", "all rescued", "a claim lost", "rolled back")
MOST = 4  # jobs a batch
# Calls that need an open attempt besides the token.
OF_AN_ATTEMPT = ("fail", "fail for good", "release", "cancel")


def verdict_of(row: dict[str, Any]) -> tuple[UUID | None, str]:
    return row["job_id"], row["verdict"]


def drawn_from(choose: Callable[[JobMachine], list[Any]]) -> st.SearchStrategy[Any]:
    """Draw from the model's present elements; the rule's precondition ensures that there are any."""
    return st.runner().flatmap(lambda machine: st.sampled_from(choose(machine)))


JOBS = drawn_from(lambda machine: machine.jobs)
CLAIMABLE = drawn_from(lambda machine: machine.claimable())
UNSTARTED = drawn_from(lambda machine: machine.live_claims(started=False))
STARTED = drawn_from(lambda machine: machine.live_claims(started=True))
LIVE = drawn_from(lambda machine: machine.live_claims())
LOST = drawn_from(lambda machine: machine.zombies())
RETRYABLE = drawn_from(lambda machine: [job for job in machine.jobs if job.retryable])
UNSTARTED_TENANT = drawn_from(
    lambda machine: sorted({record.job.tenant.slug for record in machine.live_claims(started=False)})
)
WORKERS = drawn_from(lambda machine: list(range(len(machine.workers))))
SLUGS = st.sampled_from(sorted(LOOK_ALIKE))
USERS = st.sampled_from(["ana", "eva"])
PAYLOADS = st.sampled_from([{"order_ids": [1]}, {"order_ids": [2]}])


class JobMachine(RuleBasedStateMachine):
    """Two tenants' jobs under every function that can touch them."""

    def __init__(
        self, example: ExampleInstallation, judges: dict[str, Judge], sessions: dict[str, HandlerConnection]
    ) -> None:
        super().__init__()
        self.example = example
        self.judges = judges
        self.sessions = sessions
        self.jobs: list[Job] = []
        self.purged: list[Job] = []
        self.claims: list[ClaimRecord] = []
        self.keys: dict[tuple[str, str, str], tuple[Job, dict[str, Any]]] = {}
        self.buried: set[int] = set()
        example.reset()
        example.engine.execute("RESET ALL")  # a session remembers its place in the turn: each example begins alike
        for tenant in example.tenants.values():
            example.rows("DELETE FROM customers WHERE country = 'effect'", tenant=tenant)
        self.workers: list[UUID] = []
        self.worker_starts()

    # The model's elements ----------------------------------------------------------------------

    def of(self, tenant: Tenant) -> list[Job]:
        return [job for job in self.jobs if job.tenant == tenant]

    def claimable(self) -> list[Job]:
        return [job for job in self.jobs if job.claimable]

    def live_claims(self, *, started: bool | None = None) -> list[ClaimRecord]:
        return [claim for claim in self.claims if claim.live and started in (None, claim.started)]

    def zombies(self) -> list[ClaimRecord]:
        """Return the lost claims, preferably of jobs that another session is running now."""
        lost = [claim for claim in self.claims if not claim.live]
        return [record for record in lost if record.job.status == "running"] or lost

    # Enqueueing ------------------------------------------------------------------------------

    @rule(slug=SLUGS, user=USERS, payload=PAYLOADS, later=st.booleans(), expires=st.booleans())
    def enqueue(self, slug: str, user: str, payload: dict[str, Any], *, later: bool, expires: bool) -> None:
        tenant, soon = self.example.tenants[slug], datetime.now(UTC) + HOUR
        options: dict[str, Any] = {"run_at": soon if later else None, "expires_at": soon if expires else None}
        new = self.example.new_job(payload, user_id=user, **options)
        row = self.example.call(ENQUEUE, submission(new), tenant=tenant)
        assert row["verdict"] == "accepted"
        job = self._accept(row["job_id"], tenant, user)
        if later:
            job.due, job.ticket = False, "scheduled"
        job.late = False if expires else None

    @rule(slug=SLUGS, user=USERS, payload=PAYLOADS, key=st.sampled_from("kl"), limited=st.booleans())
    def enqueue_under_a_key(self, slug: str, user: str, payload: dict[str, Any], key: str, *, limited: bool) -> None:
        tenant = self.example.tenants[slug]
        new = self.example.new_job(payload, user_id=user, idempotency_key=key)
        given = submission(new, pending_limit=QUOTA if limited else None)
        row = self.example.call(ENQUEUE, given, tenant=tenant)
        if known := self.keys.get((tenant.slug, user, key)):
            job, first = known
            assert verdict_of(row) == (job.id, "replayed" if first == payload else "conflict")
        elif limited and self._open_of(tenant, user) >= QUOTA:
            assert verdict_of(row) == (None, "quota")
        else:
            assert row["verdict"] == "accepted"
            self.keys[tenant.slug, user, key] = (self._accept(row["job_id"], tenant, user), payload)

    def _open_of(self, tenant: Tenant, user: str) -> int:
        return sum(job.open and not job.parked for job in self.of(tenant) if job.user == user)

    @precondition(lambda self: self.jobs)
    @rule(job=JOBS, user=st.sampled_from(["ana", "eva", None]), limited=st.booleans())
    def retry(self, job: Job, user: str | None, *, limited: bool) -> None:
        limit = QUOTA if limited else None
        row = self.example.call(RETRY, (job.id, user, "exec", None, limit, None, False), tenant=job.tenant)
        if user not in (None, job.user):
            assert verdict_of(row) == (None, "unknown")
        elif job.successor:
            assert verdict_of(row) == (job.successor.id, "replayed")
        elif job.retryable and limited and self._open_of(job.tenant, job.user) >= QUOTA:
            assert verdict_of(row) == (None, "quota")
        elif job.retryable:
            assert row["verdict"] == "accepted"
            job.successor = self._accept(row["job_id"], job.tenant, job.user)
            job.successor.parent, job.successor.checkpoint = job.id, job.checkpoint
            job.successor.items = {key: "skipped" for key, state in job.items.items() if state != "failed"}
        else:
            assert verdict_of(row) == (None, "not_retryable")

    @precondition(lambda self: any(job.retryable for job in self.jobs))
    @rule(job=RETRYABLE)
    def retry_what_may_be(self, job: Job) -> None:
        self.retry(job, None, limited=False)

    @precondition(lambda self: self.jobs)
    @rule(job=JOBS, user=st.sampled_from(["ana", "eva", None]))
    def cancel(self, job: Job, user: str | None) -> None:
        row = self.example.call(CANCEL, (job.id, user, "cancelled by the machine"), tenant=job.tenant)
        assert row["verdict"] == (job.cancel() if user in (None, job.user) else "unknown")

    # Claiming --------------------------------------------------------------------------------

    @precondition(lambda self: self.jobs)
    @rule(job=JOBS, worker=WORKERS)
    def claim_by_id(self, job: Job, worker: int) -> None:
        claim = self.example.engine.claim_job(self.workers[worker], job.id, types=TYPES)
        assert (claim is not None) == (job.claimable and worker not in self.buried)
        if claim:
            self._hold(claim, worker)

    @rule(worker=WORKERS, slots=st.integers(1, 3), chance=st.integers(0, 9))
    def claim_next(self, worker: int, slots: int, chance: int) -> None:
        self.example.engine.execute("SELECT setseed(%s)", (chance / 10,))
        claims = claiming.claim(
            self.example.engine, self.workers[worker], queues=["cold"], types=TYPES, backend="exec", slots=slots
        )
        may_run = {job.id for job in self.claimable()}
        assert {claim.job_id for claim in claims} <= may_run
        for job in self.claimable():
            job.ticket = "ready"  # a worker's first claim promotes first
        if worker in self.buried:
            assert claims == []
            return
        # Each tenant's share of the slots is its own, so fewer may come; but something comes.
        assert min(1, len(may_run)) <= len(claims) <= slots
        for claim in claims:
            self._hold(claim, worker)

    @precondition(lambda self: self.claimable() and len(self.workers) - 1 not in self.buried)
    @rule(job=CLAIMABLE)
    def claim_and_start(self, job: Job) -> None:
        self.claim_by_id(job, len(self.workers) - 1)
        assert job.live_claim
        self.start(job.live_claim)

    @precondition(lambda self: self.live_claims(started=False))
    @rule(record=UNSTARTED)
    def start(self, record: ClaimRecord) -> None:
        job = record.job
        result = attempt_steps.start(self._session(job.tenant), record.claim, "worker")
        job.start()
        assert (result.attempt, result.errors, result.user_id) == (job.attempt, job.errors, job.user)
        assert (result.checkpoint, result.expired, result.cancelled) == (
            job.checkpoint,
            bool(job.late),
            job.cancel_requested,
        )

    @precondition(lambda self: self.live_claims(started=False))
    @rule(record=UNSTARTED)
    def end_what_never_started(self, record: ClaimRecord) -> None:
        for name in OF_AN_ATTEMPT:
            self._refused(self._session(record.job.tenant), record.claim, name)

    @precondition(lambda self: self.live_claims(started=True))
    @rule(record=STARTED)
    def start_twice(self, record: ClaimRecord) -> None:
        attempt_steps.start(self._session(record.job.tenant), record.claim, "again")

    @precondition(lambda self: self.live_claims())
    @rule(record=LIVE)
    def show_as_running(self, record: ClaimRecord) -> None:
        """The supervisor does, for a job that is long."""
        claim, session = record.claim, self._session(record.job.tenant)
        shown = self.example.engine.show_running(claim.login.schema, claim.job_id, claim.token,
            worker="worker", backend=session.info.backend_pid, since=NOW,
        )  # fmt: skip
        assert shown
        if not record.started:
            record.job.start()

    # Working ---------------------------------------------------------------------------------

    @precondition(lambda self: self.live_claims(started=True))
    @rule(
        record=STARTED,
        chunk=st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["done", "done", "failed"]), min_size=1),
        committed=st.sampled_from([True, True, False]),
    )
    def items(self, record: ClaimRecord, chunk: dict[str, str], *, committed: bool) -> None:
        job, session = record.job, self._session(record.job.tenant)
        new = {key: state for key, state in chunk.items() if key not in job.items}
        attempt_steps.begin(session)
        for key, state in new.items():
            if state == "done":
                self._effect(session, record.claim, key)
        entries = [
            {"key": key, "state": state, "error": {"class": "No"} if state == "failed" else None}
            for key, state in new.items()
        ]
        assert attempts.items(session, record.claim, entries, 4) == job.cancel_requested
        if committed:
            psycopg.Connection.commit(session)
            job.items |= new
        else:
            psycopg.Connection.rollback(session)

    @precondition(lambda self: self.live_claims(started=True))
    @rule(record=STARTED, state=st.integers(0, 9))
    def checkpoint(self, record: ClaimRecord, state: int) -> None:
        session = self._session(record.job.tenant)
        attempt_steps.begin(session)
        assert attempts.checkpoint(session, record.claim, state) == record.job.cancel_requested
        psycopg.Connection.commit(session)
        record.job.checkpoint = state

    @precondition(lambda self: self.live_claims(started=True))
    @rule(record=STARTED, done=st.integers(0, 3))
    def progress(self, record: ClaimRecord, done: int) -> None:
        requested = attempts.progress(self._session(record.job.tenant), record.claim, done, 4, None)
        assert requested == record.job.cancel_requested

    @precondition(lambda self: self.live_claims(started=True))
    @rule(record=STARTED)
    def work_outside_the_transaction(self, record: ClaimRecord) -> None:
        with pytest.raises(HandlerMisuse):
            WRITES["complete"](self._session(record.job.tenant), record.claim)

    # Ending ----------------------------------------------------------------------------------

    @precondition(lambda self: self.live_claims())
    @rule(record=LIVE, committed=st.sampled_from([True, True, False]))
    def complete(self, record: ClaimRecord, *, committed: bool) -> None:
        session = self._session(record.job.tenant)
        attempt_steps.begin(session)
        self._effect(session, record.claim, THE_END)
        attempt_steps.complete(session, record.claim, '{"ok": true}')
        if committed:
            psycopg.Connection.commit(session)
            record.job.end("completed")
        else:
            psycopg.Connection.rollback(session)

    @precondition(lambda self: self.live_claims(started=True))
    @rule(
        record=STARTED,
        retry_in=st.sampled_from([NOW, NOW, HOUR, None]),
        reset_errors=st.sampled_from([False, False, True]),
    )
    def fail(self, record: ClaimRecord, retry_in: timedelta | None, *, reset_errors: bool) -> None:
        session, error = self._session(record.job.tenant), {"class": "Oops"}
        status = attempt_steps.fail(session, record.claim, "error", error, retry_in, reset_errors=reset_errors)
        assert status == record.job.fail(again=retry_in is not None, due=retry_in == NOW, reset_errors=reset_errors)

    @precondition(lambda self: self.live_claims(started=True))
    @rule(
        record=STARTED,
        outcome=st.sampled_from(["released", "rescheduled"]),
        run_at=st.sampled_from(["past", "future"]),
    )
    def release(self, record: ClaimRecord, outcome: str, run_at: str) -> None:
        moments: dict[str, Any] = {
            "past": datetime(2000, 1, 1, tzinfo=UTC),
            "future": datetime.now(UTC) + HOUR,
        }
        status = attempt_steps.release(self._session(record.job.tenant), record.claim, outcome, "back", moments[run_at])
        assert status == record.job.release(well=outcome == "rescheduled", due=run_at == "past")

    @precondition(lambda self: self.live_claims(started=True))
    @rule(record=STARTED)
    def cancel_by_handler(self, record: ClaimRecord) -> None:
        assert attempt_steps.cancel(self._session(record.job.tenant), record.claim, "given up") == record.job.end(
            "cancelled"
        )

    # Batches ----------------------------------------------------------------------------------

    @rule(worker=WORKERS, slots=st.integers(1, 2), size=st.integers(1, MOST), chance=st.integers(0, 9))
    def claim_batches(self, worker: int, slots: int, size: int, chance: int) -> None:
        self.example.engine.execute("SELECT setseed(%s)", (chance / 10,))
        claimer = claiming.claimer(queues=["cold"], types=TYPES, backend="exec")
        result = claimer.claim(self.example.engine, self.workers[worker], slots=slots, sizes=lambda _: size)
        may_run = {job.id: job for job in self.claimable()}
        for job in self.claimable():
            job.ticket = "ready"
        if worker in self.buried:
            assert result == []
            return
        assert min(1, len(may_run)) <= len(result) <= slots
        for batch in result:
            members = [may_run.pop(claim.job_id) for claim in batch]
            assert len({job.tenant.slug for job in members}) == 1
            assert len(members) <= (1 if any(job.suspected for job in members) else size)
            event(f"claimed a batch of {len(members)}")
            for claim in batch:
                self._hold(claim, worker)

    @precondition(lambda self: self.live_claims(started=False))
    @rule(
        slug=UNSTARTED_TENANT,
        ends=st.lists(st.sampled_from(["completed", "completed", *ENDS]), min_size=MOST, max_size=MOST),
        meanwhile=st.sampled_from(MEANWHILE),
    )
    def run_a_batch(self, slug: str, ends: list[str], meanwhile: str) -> None:
        members = [record for record in self.live_claims(started=False) if record.job.tenant.slug == slug][:MOST]
        zombies = [zombie for zombie in self.zombies() if zombie.job.tenant.slug == slug][:1]
        session = self._session(self.example.tenants[slug])
        result = attempt_steps.fetch_batch(session, [member.claim for member in zombies + members])
        assert set(result) == {member.job.id for member in members}
        for member in members:
            assert result[member.job.id].cancelled == member.job.cancel_requested
        fates = list(zip(members, ends, strict=False))
        self._work_as_a_batch(session, fates)
        event(f"a batch, meanwhile: {meanwhile}")
        match meanwhile:
            case "cancelled":
                self.cancel(members[-1].job, None)
            case "one rescued" | "all rescued":
                for member in members if meanwhile == "all rescued" else members[-1:]:
                    self.rescue(member, NOW, counted=True)
                if not session.closed:  # a rescue finds it neither by number nor by its name
                    psycopg.Connection.rollback(session)
                return
        self._end_as_a_batch(session, fates, meanwhile, zombies)

    def _work_as_a_batch(self, session: HandlerConnection, fates: list[tuple[ClaimRecord, str]]) -> None:
        for fate, end in fates:
            session.execute("SAVEPOINT job")
            self._effect(session, fate.claim, THE_END)
            if end != "completed":
                session.execute("ROLLBACK TO SAVEPOINT job")

    def _end_as_a_batch(
        self,
        session: HandlerConnection,
        fates: list[tuple[ClaimRecord, str]],
        meanwhile: str,
        zombies: list[ClaimRecord],
    ) -> None:
        statuses = {fate: self._started_and(ENDS[end], session, fate) for fate, end in fates if end != "completed"}
        results = [attempt_steps.completed(fate.claim) for fate, end in fates if end == "completed"]
        if meanwhile == "rolled back":
            psycopg.Connection.rollback(session)
            return
        if meanwhile == "a claim lost" and zombies:
            with pytest.raises(ClaimLost):
                attempt_steps.complete_batch(session, [*results, attempt_steps.completed(zombies[0].claim)])
            psycopg.Connection.rollback(session)
            return
        attempt_steps.complete_batch(session, results)
        for fate, end in fates:
            if end != "completed":
                fate.job.start()
            match end:
                case "completed":
                    fate.job.end("completed")
                case "released":
                    assert statuses[fate] == fate.job.release(well=False, due=True)
                case _:
                    assert statuses[fate] == fate.job.fail(again=end == "error", due=True, reset_errors=False)

    def _started_and(self, end: Write, session: HandlerConnection, record: ClaimRecord) -> Any:
        attempts.start(session, record.claim, "worker", datetime.now(UTC))
        return end(session, record.claim)

    @precondition(lambda self: self.zombies())
    @rule(record=LOST)
    def a_batch_s_claims_are_read_again(self, record: ClaimRecord) -> None:
        of = [claim for claim in self.claims if claim.job.tenant == record.job.tenant]
        still = attempts.still_claimed(self._session(record.job.tenant), [record.claim for record in of])
        assert still == {record.job.id for record in of if record.live}

    # Recovering ------------------------------------------------------------------------------

    @precondition(lambda self: self.live_claims())
    @rule(record=LIVE, counted=st.sampled_from([True, None, False]), retry_in=st.sampled_from([NOW, NOW, HOUR]))
    def rescue(self, record: ClaimRecord, retry_in: timedelta, *, counted: bool | None) -> None:
        status = self._rescue(record, counted=counted, retry_in=retry_in)
        assert status == record.job.rescue(counted=counted, due=retry_in == NOW)
        event(f"rescued: {status}")

    @precondition(lambda self: self.live_claims(started=True) and len(self.workers) - 1 not in self.buried)
    @rule(record=STARTED, times=st.integers(1, 3))
    def crash_and_run_again(self, record: ClaimRecord, times: int) -> None:
        for _ in range(times):
            self.rescue(record, NOW, counted=True)
            if not record.job.claimable:
                return
            zombie = record
            self.claim_and_start(record.job)
            assert record.job.live_claim
            record = record.job.live_claim
            self.zombie_returns(zombie)

    @precondition(lambda self: self.buried)
    @rule()
    def sweep_orphans(self) -> None:
        mine = {record.claim.token: record for record in self.live_claims() if record.worker in self.buried}
        orphans = self.example.engine.orphans()
        assert {orphan.token for orphan in orphans} == set(mine)
        for record in mine.values():
            self.rescue(record, NOW, counted=None)

    @precondition(lambda self: self.zombies())
    @rule(record=LOST)
    def zombie_returns(self, record: ClaimRecord) -> None:
        event("a zombie returned")
        for name in WRITES:
            self._refused(self._session(record.job.tenant), record.claim, name)
        assert self._rescue(record, counted=True, retry_in=NOW) == "gone"

    @precondition(lambda self: self.live_claims())
    @rule(record=LIVE)
    def another_tenant_shows_the_token(self, record: ClaimRecord) -> None:
        (other,) = (tenant for tenant in self.example.tenants.values() if tenant != record.job.tenant)
        for name in WRITES:
            self._refused(self._session(other), record.claim, name, (ClaimLost, psycopg.errors.InsufficientPrivilege))
        assert self.example.engine.rescue(other.schema, record.claim.job_id, record.claim.token, cause="?", retry_in=NOW
        ) == "gone"  # fmt: skip

    @precondition(lambda self: any(job.ticket for job in self.jobs))
    @rule(job=drawn_from(lambda machine: [job for job in machine.jobs if job.ticket]))
    def ticket_is_lost(self, job: Job) -> None:
        self.example.rows("DELETE FROM turno.tickets WHERE job_id = %s", job.id)
        job.lose_ticket()

    @precondition(lambda self: self.jobs)
    @rule(slug=SLUGS, ghost=st.booleans(), lose=st.booleans())
    def repair(self, slug: str, *, ghost: bool, lose: bool) -> None:
        tenant = self.example.tenants[slug]
        for job in [job for job in self.of(tenant) if job.ticket] if lose else []:
            self.ticket_is_lost(job)
        broken = [job for job in self.of(tenant) if job.open and not job.ticket]
        ended = [job for job in self.of(tenant) if not job.open][:1] if ghost else []
        for job in ended:
            self.example.rows(
                "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
                " SELECT id, %s, queue, type, version, priority, run_at, 'ready', 'exec' FROM background_jobs"
                " WHERE id = %s",
                tenant.id,
                job.id,
                tenant=tenant,
            )
        count = len(broken) + len(ended)
        with self.example.engine.transaction(force_rollback=True):
            assert self.example.engine.repair(tenant.schema, "exec") == count
        assert self.example.engine.repair(tenant.schema, "exec") == count
        assert self.example.engine.repair(tenant.schema, "exec") == 0
        for job in broken:
            event(f"repaired: {job.status}")
            job.repair()

    @precondition(lambda self: self.jobs)
    @rule(slug=SLUGS)
    def expire(self, slug: str) -> None:
        tenant = self.example.tenants[slug]
        late = [job for job in self.of(tenant) if job.late and job.status == "pending"]
        mine = [job for job in late if job.ticket in {"scheduled", "ready", "review"}]
        with self.example.engine.transaction(force_rollback=True):
            assert self.example.engine.expire(tenant.schema) == len(mine)
        assert self.example.engine.expire(tenant.schema) == len(mine)
        for job in mine:
            event("expired")
            job.end("cancelled")

    @precondition(lambda self: self.jobs)
    @rule(slug=SLUGS, aged=st.booleans(), limit=st.integers(1, 5))
    def purge(self, slug: str, *, aged: bool, limit: int) -> None:
        tenant = self.example.tenants[slug]
        if aged:
            self.example.rows(
                "UPDATE background_jobs SET finished_at = finished_at - interval '31 days'"
                " WHERE finished_at IS NOT NULL",
                tenant=tenant,
            )
            for job in self.of(tenant):
                job.old = not job.open
        month, count = timedelta(days=30), sum(job.purgeable for job in self.of(tenant))
        with self.example.engine.transaction(force_rollback=True):
            assert self.example.engine.purge(tenant.schema, month, limit) == min(count, limit)
        assert self.example.engine.purge(tenant.schema, month, limit) == min(count, limit)
        gone = {job.id for job in self.of(tenant)} - {row["id"] for row in self._rows(tenant)}
        assert len(gone) == min(count, limit)
        for job in [job for job in self.of(tenant) if job.id in gone]:
            event("purged")
            assert job.purgeable
            self.jobs.remove(job)
            self.keys = {key: known for key, known in self.keys.items() if known[0] is not job}

    # Workers and time ------------------------------------------------------------------------

    @precondition(lambda self: len(self.workers) < 4)
    @rule()
    def worker_starts(self) -> None:
        self.workers.append(self.example.engine.start_worker(backend="exec", host="test", pid=1))

    @rule(worker=WORKERS)
    def heartbeat(self, worker: int) -> None:
        mine = [record for record in self.live_claims() if record.worker == worker]
        orders = self.example.engine.keep_alive(self.workers[worker])
        to_stop = None if orders is None else set(orders.to_stop)
        assert to_stop == (None if worker in self.buried else {record.job.id for record in mine if record.job.to_stop})
        result = self.example.engine.claims_of(self.workers[worker])
        assert {claim.token for claim in result} == {record.claim.token for record in mine}

    @rule(worker=WORKERS)
    def worker_is_buried(self, worker: int) -> None:
        self.example.rows(
            "UPDATE turno.workers SET alive_at = alive_at - interval '1 hour' WHERE id = %s", self.workers[worker]
        )
        silent = timedelta(minutes=30)
        result = int(worker not in self.buried)
        assert (self.example.engine.silence_left(silent) is not None) == bool(result)
        assert self.example.engine.prune_workers(silent) == result
        if result:
            self.buried.add(worker)

    @precondition(lambda self: self.jobs)
    @rule()
    def time_passes(self) -> None:
        for tenant in self.example.tenants.values():
            self.example.rows(
                """
                UPDATE background_jobs SET expires_at = clock_timestamp()
                WHERE status IN ('pending', 'running') AND expires_at > clock_timestamp();
                WITH due AS (
                    UPDATE background_jobs SET run_at = clock_timestamp()
                    WHERE status IN ('pending', 'running') AND isfinite(run_at) AND run_at > clock_timestamp()
                    RETURNING id, run_at)
                UPDATE turno.tickets t SET run_at = due.run_at FROM due WHERE t.job_id = due.id
                """,
                tenant=tenant,
            )
        for job in self.jobs:
            job.due = not job.parked
            job.late = job.late if job.late is None else True

    @precondition(lambda self: self.jobs)
    @rule()
    def promote(self) -> None:
        due = [job for job in self.claimable() if job.ticket == "scheduled"]
        assert self.example.engine.promote(100) == len(due)
        for job in due:
            job.ticket = "ready"

    # Invariants after every step --------------------------------------------------------------

    @invariant()
    def the_model_agrees(self) -> None:
        for tenant in self.example.tenants.values():
            result = {row.pop("id"): tuple(row.values()) for row in self._rows(tenant)}
            assert result == {job.id: job.row() for job in self.of(tenant)}

    @invariant()
    def the_judge_finds_nothing(self) -> None:
        for slug, judge in self.judges.items():
            mine = [job for job in self.jobs if job.tenant.slug == slug]
            lost = [job.id for job in mine if job.open and not job.ticket]
            assert judge.broken(accepted=[job.id for job in mine], lost=lost) == []

    def _rows(self, tenant: Tenant) -> list[dict[str, Any]]:
        return self.example.rows(
            """
            SELECT j.id, j.status, j.attempt, j.errors, j.crashes, j.cancel_requested_at IS NOT NULL AS cancelled,
                   (SELECT c.state FROM background_job_checkpoints c WHERE c.job_id = j.id) AS checkpoint,
                   j.parent_id, j.successor_id,
                   (SELECT coalesce(jsonb_object_agg(i.key, i.state), '{}') FROM background_job_items i
                    WHERE i.job_id = j.id) AS items,
                   t.state, t.attempt AS ticket_attempt, t.token, t.cancel_at IS NOT NULL AS to_stop
            FROM background_jobs j LEFT JOIN turno.tickets t ON t.job_id = j.id
            """,
            tenant=tenant,
        )

    # How it is done --------------------------------------------------------------------------

    def teardown(self) -> None:
        """Leave no transaction open, or the next machine would wait for a step that failed here."""
        for session in self.sessions.values():
            if not session.closed:
                psycopg.Connection.rollback(session)

    def _accept(self, job_id: Any, tenant: Tenant, user: str) -> Job:
        job = Job(number=len(self.jobs) + len(self.purged), id=job_id, tenant=tenant, user=user)
        self.jobs.append(job)
        return job

    def _hold(self, claim: Claim, worker: int) -> None:
        (job,) = (job for job in self.jobs if job.id == claim.job_id)
        self.claims.append(job.claim(claim, worker))
        assert claim.attempt == job.ticket_attempt
        assert len({claim.claim.token for claim in self.claims}) == len(self.claims)

    def _session(self, tenant: Tenant) -> HandlerConnection:
        """Return the tenant's handler session, or a new one if a rescue has ended it."""
        session = self.sessions.get(tenant.slug)
        if session is None or session.closed:
            session = handler_session(
                self.example.logins, self.example.handler_login(tenant), application="machine", kind=HandlerConnection
            )
            self.sessions[tenant.slug] = session
        return session

    def _rescue(self, record: ClaimRecord, *, counted: bool | None, retry_in: timedelta) -> str:
        claim = record.claim
        status = self.example.engine.rescue(claim.login.schema, claim.job_id, claim.token,
            cause="crashed", retry_in=retry_in, counted=counted,
        )  # fmt: skip
        self._drop_if_ended(record.job.tenant)
        return status

    def _drop_if_ended(self, tenant: Tenant) -> None:
        session = self.sessions.get(tenant.slug)
        if session is None:
            return
        try:
            session.execute("SELECT 1")
        except psycopg.OperationalError:
            psycopg.Connection.close(session)

    def _effect(self, session: HandlerConnection, claim: Claim, key: str) -> None:
        session.execute(EFFECT, (str(claim.job_id), key, str(claim.attempt)))

    def _refused(
        self,
        session: HandlerConnection,
        claim: Claim,
        name: str,
        refusal: type[Exception] | tuple[type[Exception], ...] = ClaimLost,
    ) -> None:
        attempt_steps.begin(session)
        self._effect(session, claim, f"refused {name}")
        with pytest.raises(refusal):
            WRITES[name](session, claim)
        psycopg.Connection.rollback(session)


@contextmanager
def machine_of(example: ExampleInstallation) -> Iterator[type[RuleBasedStateMachine]]:
    """Give the machine of an example, with the judges and handler sessions that all its runs share."""
    with ExitStack() as stack:
        open_judges = {
            slug: stack.enter_context(judge_of(example.url, of, EFFECTS)) for slug, of in example.tenants.items()
        }
        open_sessions: dict[str, HandlerConnection] = {}

        class MachineOfExample(JobMachine):
            def __init__(self) -> None:
                super().__init__(example, open_judges, open_sessions)

        try:
            yield MachineOfExample
        finally:
            for session in open_sessions.values():
                psycopg.Connection.close(session)


@pytest.mark.timeout(900)  # finding the smallest failing run takes a while
def test_any_order_of_calls_keeps_every_promise(example: ExampleInstallation) -> None:
    bounded = settings(
        max_examples=settings().max_examples // 3,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    with machine_of(example) as machine:
        run_state_machine_as_test(machine, settings=bounded)
