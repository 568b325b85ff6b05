"""The limits of a job's SQL on another's record, and the permanence of a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from tests import attempt_steps
from tests.installation import ExampleInstallation
from turno.capabilities.effects import once as intents
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.provisioning.removal import remove_tenant

NOW = timedelta(0)


class Attempts:
    """Starts attempts, each in a separate session."""

    def __init__(self, example: ExampleInstallation, stack: ExitStack) -> None:
        self._example = example
        self._stack = stack
        self._worker = example.engine.start_worker(backend="exec", host="here", pid=1)

    def claim(self, job_id: UUID | None = None) -> tuple[HandlerConnection, Claim]:
        job_id = job_id or self._example.enqueue({"order_ids": [1]})
        (row,) = self._example.rows("SELECT type FROM background_jobs WHERE id = %s", job_id)
        claim = self._example.engine.claim_job(self._worker, job_id, types=[(row["type"], 1)])
        assert claim is not None
        session = handler_session(self._example.logins, claim.login, application="test", kind=HandlerConnection)
        self._stack.callback(psycopg.Connection.close, session)
        return session, claim

    def start(self, job_id: UUID | None = None) -> tuple[HandlerConnection, Claim]:
        session, claim = self.claim(job_id)
        attempt_steps.start(session, claim, "here/1")
        return session, claim


@pytest.fixture
def running(example: ExampleInstallation) -> Iterator[Attempts]:
    with ExitStack() as stack:
        yield Attempts(example, stack)


@pytest.mark.parametrize("table", ["background_job_attempt_rows", "external_effects"])
def test_a_handler_reads_the_record_and_no_token(running: Attempts, table: str) -> None:
    session, _ = running.start()
    readable = table.replace("attempt_rows", "attempts")
    session.execute(sql.SQL("SELECT job_id, attempt FROM {}").format(sql.Identifier(readable)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(sql.SQL("SELECT token FROM {}").format(sql.Identifier(table)))


def test_an_effect_is_settled_by_its_own_type_only(example: ExampleInstallation, running: Attempts) -> None:
    session, victim = running.start()
    intents.intend(session, victim, "cae", uuid4())
    other = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE background_jobs SET type = 'another' WHERE id = %s", other)
    example.rows("UPDATE turno.tickets SET type = 'another' WHERE job_id = %s", other)
    forging, attacker = running.start(other)
    # Even if the attacker knew the intent's key, and its caller were gone.
    example.rows("UPDATE external_effects SET caller_gone = true")
    (row,) = example.rows("SELECT intent_of(token) AS intent, token FROM external_effects")
    for intent in row.values():
        assert not intents.settle(forging, attacker, "cae", intent, result='{"code": "FORGED"}', by="the tax authority")
        assert not intents.reissue(forging, attacker, "cae", intent)
    assert example.rows("SELECT state FROM external_effects") == [{"state": "intended"}]


def test_effect_is_not_settled_while_an_attempt_may_run(running: Attempts) -> None:
    session, victim = running.start()
    intents.intend(session, victim, "cae", uuid4())
    forging, attacker = running.start()
    known = intents.intend(forging, attacker, "cae", uuid4())
    assert known.verdict == "elsewhere"
    assert known.token != victim.token
    assert not intents.settle(forging, attacker, "cae", known.token, result='{"code": "FORGED"}', by="me")
    assert intents.settle(session, victim, "cae", victim.token, result='{"code": 1}', by="its call")


def test_a_retry_begins_at_the_checkpoint(example: ExampleInstallation, running: Attempts) -> None:
    session, claim = running.start()
    attempt_steps.begin(session)
    attempts.checkpoint(session, claim, {"page": 3})
    psycopg.Connection.commit(session)
    attempt_steps.fail(session, claim, "failed for good", {"class": "Oops"}, None)
    again = example.retry(claim.job_id)
    _, second = running.start(again["job_id"])
    assert example.rows("SELECT state FROM background_job_checkpoints WHERE job_id = %s", second.job_id) == [
        {"state": {"page": 3}}
    ]


@pytest.mark.parametrize("work", ["checkpoint", "intend", "complete"])
def test_commit_is_synchronous_despite_handler_settings(running: Attempts, work: str) -> None:
    session, claim = running.start()
    session.execute("SET synchronous_commit = off")
    attempt_steps.begin(session)
    match work:
        case "checkpoint":
            attempts.checkpoint(session, claim, 1)
        case "intend":
            intents.intend(session, claim, "cae", uuid4())
        case _:
            attempt_steps.complete(session, claim, "{}")
    assert session.execute("SHOW synchronous_commit").fetchone() == ("on",)
    psycopg.Connection.rollback(session)


def test_a_poller_s_crashes_are_forgotten_when_it_is_well(example: ExampleInstallation, running: Attempts) -> None:
    _, claim = running.start()
    example.engine.rescue(example.one.schema, claim.job_id, claim.token, cause="killed", retry_in=NOW)
    assert example.job(claim.job_id)["crashes"] == 1
    session, claim = running.start(claim.job_id)
    attempt_steps.release(session, claim, "rescheduled", "later", datetime.now(UTC))
    ticket = example.ticket(claim.job_id)
    assert ticket is not None
    assert (example.job(claim.job_id)["crashes"], ticket["crashes"]) == (0, 0)


def test_a_poller_s_history_is_bounded_and_so_is_its_dead_letter(
    example: ExampleInstallation, running: Attempts
) -> None:
    session, claim = running.start()
    example.rows(
        "INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, backend_start,"
        " finished_at, outcome) SELECT %s, n, gen_random_uuid(), 'here/1', 1, now(), now(), 'rescheduled'"
        " FROM generate_series(2, 299) AS n",
        claim.job_id,
    )
    example.rows("UPDATE background_job_attempt_rows SET attempt = 300 WHERE attempt = 1")
    example.rows("UPDATE background_jobs SET attempt = 300 WHERE id = %s", claim.job_id)
    example.rows("UPDATE turno.tickets SET attempt = 300 WHERE job_id = %s", claim.job_id)
    attempt_steps.release(session, claim, "rescheduled", "later", datetime.now(UTC))
    assert example.rows("SELECT min(attempt), count(*) FROM background_job_attempts") == [{"min": 201, "count": 100}]
    session, claim = running.start(claim.job_id)
    attempt_steps.fail(session, claim, "no attempts left", {"class": "Oops"}, None)
    (letter,) = example.rows("SELECT attempts FROM background_jobs_dead_letter")
    assert [letter["attempts"][0]["attempt"], letter["attempts"][-1]["attempt"]] == [202, 301]


def test_a_purge_of_large_ledgers_is_done_in_parts(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"order_ids": [n]}) for n in range(3)]
    for job_id in jobs:
        example.cancel(job_id)
        example.rows(
            "INSERT INTO background_job_items (job_id, key, state)"
            " SELECT %s, n::text, 'done' FROM generate_series(1, 30000) AS n",
            job_id,
        )
    purged = [example.engine.purge(example.one.schema, NOW, 1000) for _ in range(3)]
    assert purged == [2, 1, 0]
    assert example.rows("SELECT 1 FROM background_job_items") == []


def test_slug_added_again_starts_afresh(example: ExampleInstallation) -> None:
    add_tenant(example.admin, example.logins, "again", "northwind")
    example.admin.execute(
        "UPDATE turno.tenants SET paused_at = now(), cap = 1, weight = 7, backend = 'exec' WHERE slug = 'again'"
    )
    example.admin.execute(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
        " SELECT id, 'old', 'completed', ARRAY[1], ARRAY[1] FROM turno.tenants WHERE slug = 'again'"
    )
    remove_tenant(example.admin, example.logins, "again")
    new = add_tenant(example.admin, example.logins, "again", "northwind")
    row = example.admin.execute(
        "SELECT paused_at, weight, backend, (SELECT count(*) FROM turno.outcomes WHERE tenant_id = n.id)"
        " FROM turno.tenants n WHERE id = %s",
        (new.id,),
    ).fetchone()
    remove_tenant(example.admin, example.logins, "again")
    assert row == (None, 1, None, 0)


CHILD = (
    "SELECT verdict FROM job_enqueue_child(%s, %s, jsonb_build_array(jsonb_build_object('type', 'batch_invoicing',"
    " 'version', 1, 'queue', 'hot', 'priority', 1, 'max_attempts', 4, 'payload', '{}'::jsonb,"
    " 'idempotency_key', %s::text) || %s::jsonb))"
)

# Fields that a handler does not choose.
FORGED = json.dumps(
    {
        "user_id": "carla",
        "backend": "pool",
        "correlation_id": "forged",
        "parent_id": str(UUID(int=1)),
        "awaited_by": str(UUID(int=1)),
        "key_position": 1,
    }
)


def test_a_handler_enqueues_for_its_own_job_s_user_only(example: ExampleInstallation, running: Attempts) -> None:
    session, claim = running.start()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(example.sql("SELECT jobs_enqueue(NULL, '[]')"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(example.sql("SELECT jobs_enqueue('{}')"))
    assert session.execute(example.sql(CHILD), (claim.job_id, claim.token, "k", FORGED)).fetchone() == ("accepted",)
    (child,) = example.rows(
        "SELECT j.user_id, j.parent_id, j.correlation_id, j.key_position, t.backend, t.awaited_by"
        " FROM background_jobs j JOIN turno.tickets t ON t.job_id = j.id WHERE idempotency_key = 'k'"
    )
    assert child == {
        "user_id": "ana",
        "parent_id": claim.job_id,
        "correlation_id": None,
        "key_position": None,
        "backend": "exec",
        "awaited_by": None,
    }
    other = example.enqueue({"order_ids": [2]}, user_id="carla")
    with pytest.raises(psycopg.Error, match="was lost"):
        session.execute(example.sql(CHILD), (other, claim.token, "l", "{}"))


def test_jobs_of_a_user_enqueue_a_bounded_number_together(example: ExampleInstallation, running: Attempts) -> None:
    session, claim = running.start()
    for n in range(998):
        session.execute(example.sql(CHILD), (claim.job_id, claim.token, str(n), "{}"))
    again, other = running.start()
    for first, target in ((again, other), (session, claim)):
        with pytest.raises(psycopg.Error, match="more than 1000 open jobs"):
            first.execute(example.sql(CHILD), (target.job_id, target.token, "one more", "{}"))


def test_claims_lost_counts_each_attempt_once(example: ExampleInstallation, running: Attempts) -> None:
    session, claim = running.start()
    example.engine.rescue(example.one.schema, claim.job_id, claim.token, cause="killed", retry_in=NOW)
    session, other = running.start()
    jobs, tokens = [claim.job_id] * 150 + [other.job_id] * 150, [claim.token] * 150 + [uuid4()] * 150
    for _ in range(3):
        session.execute(example.sql("SELECT claims_lost(%s, %s)"), (jobs, tokens))
    assert example.rows("SELECT job_id FROM turno.outcomes WHERE outcome = 'claim_lost'") == [{"job_id": claim.job_id}]


def test_claims_lost_counts_no_attempt_with_an_end(example: ExampleInstallation, running: Attempts) -> None:
    session, claim = running.start()
    attempt_steps.fail(session, claim, "failed for good", {"class": "Oops"}, None)
    session.execute(example.sql("SELECT claims_lost(%s, %s)"), ([claim.job_id], [claim.token]))
    assert example.rows("SELECT job_id FROM turno.outcomes WHERE outcome = 'claim_lost'") == []


@pytest.mark.parametrize("began", ["-infinity", "infinity", "0001-01-01", "4713-01-01 BC", "10000-01-01"])
def test_job_start_refuses_unreadable_times(example: ExampleInstallation, running: Attempts, began: str) -> None:
    session, claim = running.claim()
    text = example.sql("SELECT job_start(%s, %s, 'here/1', %s)")
    if began in {"infinity", "10000-01-01"}:  # later than now counts as now
        session.execute(text, (claim.job_id, claim.token, began))
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match="time is from 2000 to 9999"):
            session.execute(text, (claim.job_id, claim.token, began))
    assert example.engine.rescue(
        example.one.schema, claim.job_id, claim.token, cause="killed", retry_in=NOW, counted=True
    )
    assert example.job(claim.job_id)["crashes"] == 1
