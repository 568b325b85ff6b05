"""A statement with a job's name finds it by an index: its reads do not depend on the number of waiting or ended
jobs."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests import attempt_steps, claiming
from tests.batch_in_process import start_test_worker
from tests.installation import ExampleInstallation
from turno.jobs.job import Claim, Priority
from turno.runner.session import HandlerConnection
from turno.store.handler import attempts
from turno.store.statements import qualified
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.identity.session import handler_session
from turno.tenancy.rights.grants import TENANT

OTHERS = 400
READ = """
SELECT sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('turno', current_schema())
"""
ENDED = """
INSERT INTO background_jobs (type, version, queue, priority, status, payload, payload_hash, user_id, max_attempts,
                             attempt, started_at, finished_at)
SELECT 'batch_invoicing', 1, 'cold', 1, 'completed', '{}', '', 'ana', 4, 1, now(), now() FROM generate_series(1, %s)
"""
Life = Callable[[HandlerConnection, list[Claim]], None]


def alone(session: HandlerConnection, claims: list[Claim]) -> None:
    (claim,) = claims
    attempt_steps.start(session, claim, "test")
    attempts.progress(session, claim, 1, 2, "halfway")
    attempts.checkpoint(session, claim, {})
    attempts.items(session, claim, [{"key": "1", "state": "done"}], 1)
    attempt_steps.complete(session, claim, "{}")


def together(session: HandlerConnection, claims: list[Claim]) -> None:
    schema = claims[0].login.schema
    keys = [claim.job_id for claim in claims], [claim.token for claim in claims]
    session.execute(qualified("SELECT count(*) FROM {}.jobs_fetch(%s, %s)", schema), keys)
    ends = ["{}"] * len(claims), *([datetime.now(UTC)] * len(claims),) * 2
    finish = "SELECT {}.jobs_finish(transaction_timestamp(), %s, %s, %s, %s, %s, 'test')"
    session.execute(qualified(finish, schema), (*keys, *ends))


def tuples(session: psycopg.Connection[Any]) -> int:
    (read,) = session.execute(READ).fetchone() or (0,)
    return int(read)


class Clerk:
    """Claims jobs and leads them through a life in one session, with kept plans."""

    def __init__(self, example: ExampleInstallation, session: HandlerConnection) -> None:
        self._example = example
        self._session = session
        self._worker = start_test_worker(example)

    def reads(self, life: Life, size: int) -> int:
        """Return the number of entries and rows that the lives of these new jobs read."""
        for _ in range(size):
            self._example.enqueue({"order_ids": [1]}, priority=Priority.URGENT)
        claims = claiming.claim(
            self._example.engine, self._worker, queues=["cold"], types=[("batch_invoicing", 1)], backend="pool",
            slots=size,
        )  # fmt: skip
        assert len(claims) == size
        self._session.execute("BEGIN")
        before = tuples(self._session)
        life(self._session, claims)
        read = tuples(self._session) - before
        self._session.execute("COMMIT")
        return read


@pytest.fixture
def clerk(example: ExampleInstallation) -> Iterator[Clerk]:
    example.backend = "pool"
    session = handler_session(example.logins, example.handler_login(), application="test", kind=HandlerConnection)
    yield Clerk(example, session)
    psycopg.Connection.close(session)


@pytest.mark.parametrize(("life", "size"), [(alone, 1), (together, 4)], ids=["alone", "together"])
def test_life_of_a_job_reads_no_more_beside_many_jobs(
    example: ExampleInstallation, clerk: Clerk, life: Life, size: int
) -> None:
    # Plans are made where all has ended, as after a quiet night, and are kept; autovacuum would analyze the other
    # tables.
    example.rows("ALTER TABLE background_jobs SET (autovacuum_enabled = off)")
    example.rows(ENDED, OTHERS)
    example.rows("VACUUM ANALYZE")
    by_itself = max(clerk.reads(life, size) for _ in range(3))
    example.rows("UPDATE turno.tenants SET weight = 100")
    for _ in range(OTHERS):
        example.enqueue({"order_ids": [1]})
    beside_many = clerk.reads(life, size)
    example.rows("UPDATE turno.tenants SET weight = 1")
    example.rows("ALTER TABLE background_jobs RESET (autovacuum_enabled)")
    assert beside_many < by_itself + OTHERS / 4


# These read whole lists, and are rare; the last reads no table.
SWEEPS = {"schedule_repair", "job_repair", "job_purge", "event_purge", "outcome_of"}
# The engine's that name tickets, or take the first of a list of them.
OF_TICKETS = {
    "claim", "claim_job", "claim_message", "held", "mark_published", "move_unserved", "orphans",
    "promote", "tenant_of", "unclaimed", "unserved", "unpublish", "unpublished", "worker_alive",
}  # fmt: skip


def test_no_plan_made_for_a_small_table_outlives_it(example: ExampleInstallation) -> None:
    """CREATE OR REPLACE forgets the settings of ALTER FUNCTION: a replacement must repeat them."""
    own = {own_name(function, example.one.schema) for function in TENANT.functions.keys() - SWEEPS}
    for schema, functions in ((example.one.schema, own), ("turno", OF_TICKETS)):
        settled = example.rows(
            "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s) AND proname = ANY (%s)"
            " AND 'enable_seqscan=off' = ANY (proconfig)",
            schema,
            sorted(functions),
        )
        assert {row["proname"] for row in settled} == set(functions)


def test_tenant_of_a_role_is_found_without_a_scan(example: ExampleInstallation) -> None:
    """Row-level security runs this for each statement about tickets."""
    example.rows(
        "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role)"
        " SELECT 'more' || n, (SELECT min(id) FROM turno.companies), 't_' || lpad(to_hex(n), 12, '0'),"
        " 'owner' || n, 'handler' || n, 'api' || n FROM generate_series(1, %s) AS n",
        OTHERS,
    )
    with psycopg.connect(example.url) as session:
        before = tuples(session)
        assert session.execute("SELECT turno.tenant_of(%s)", [example.one.owner_role]).fetchone() == (example.one.id,)
        assert tuples(session) - before < OTHERS / 4
