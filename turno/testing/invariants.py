"""The promises as queries: an independent judge that reads only PostgreSQL and knows no code of ours.

I1: an accepted job exists, in one legal state, with exactly the right ticket. I2 and I3: no effect is doubled, none is
missing; only the author of the handler knows its effects, and gives a judge further rules.
I5: only legal transitions, attempts only grow, no write by an old token. I6: after a fault the work drains.
I7: nothing is left behind. I8: one notification per end.
I9: few of a key at once, in order where required, none forgotten. I10: a job waits for all
of its parts, and is not forgotten. (The `LeakDetector` checks I4, that nothing leaks.)
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from turno.capability import installed, merged
from turno.tenancy.identity.tenant import Tenant

# Each query returns the ids of its violations. %(lost)s are the jobs of tickets that a test has just deleted.
RULES: dict[str, LiteralString] = {
    "I1: an accepted job is gone": """
        SELECT a.id FROM unnest(%(accepted)s::uuid[]) AS a (id)
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = a.id)
    """,
    "I1: an open job has no ticket": """
        SELECT j.id FROM background_jobs j
        WHERE j.status IN ('pending', 'running') AND j.id <> ALL (%(lost)s::uuid[])
          AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
    """,
    "I1: a ticket has no open job": """
        SELECT t.job_id FROM turno.tickets t JOIN turno.tenants n ON n.id = t.tenant_id AND n.schema = current_schema()
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'))
    """,
    "I1: job and ticket disagree": """
        SELECT j.id FROM background_jobs j JOIN turno.tickets t ON t.job_id = j.id
        WHERE t.tenant_id <> (SELECT n.id FROM turno.tenants n WHERE n.schema = current_schema())
           OR (j.queue, j.type, j.version, j.priority) <> (t.queue, t.type, t.version, t.priority)
           -- Later by half a minute at most where it was given back because no process could be had for it.
           OR t.run_at NOT BETWEEN j.run_at AND greatest(j.run_at, clock_timestamp() + '1 min')
           OR (j.concurrency_key, j.key_position) IS DISTINCT FROM (t.concurrency_key, t.key_position)
           OR t.state IN ('ready', 'waiting', 'parts') AND t.run_at > clock_timestamp()
           OR t.state <> 'review' AND j.status = 'pending' AND j.run_at = 'infinity'
           OR (j.in_doubt IS NOT NULL) <> (j.run_at = 'infinity')
           OR CASE WHEN j.status = 'running' THEN t.state <> 'running' OR t.attempt <> j.attempt
                   WHEN t.state = 'running' THEN t.attempt <= j.attempt
                   ELSE t.attempt < j.attempt END
    """,
    "I1: an ended job never ran": """
        SELECT id FROM background_jobs WHERE status IN ('completed', 'failed') AND (attempt = 0 OR started_at IS NULL)
    """,
    "I1: something is left of a job that is gone": """
        SELECT job_id FROM (SELECT job_id FROM background_job_attempts UNION ALL
                            SELECT job_id FROM background_job_logs UNION ALL
                            SELECT job_id FROM background_job_progress UNION ALL
                            SELECT job_id FROM background_job_checkpoints UNION ALL
                            SELECT job_id FROM background_job_items UNION ALL
                            SELECT job_id FROM background_job_events UNION ALL
                            SELECT job_id FROM background_jobs_dead_letter UNION ALL
                            SELECT job_id FROM notifications) AS history
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = history.job_id)
    """,
    "I1: two jobs under one key": """
        SELECT idempotency_key FROM background_jobs
        WHERE idempotency_key IS NOT NULL AND (finished_at IS NULL OR unique_while IS DISTINCT FROM 'open')
        GROUP BY user_id, type, idempotency_key HAVING count(*) > 1
    """,
    "I2: an item was done again by the job that continues": """
        SELECT n.id::text || ' ' || i.key
        FROM background_jobs n
        JOIN background_jobs o ON o.id = n.parent_id AND o.successor_id = n.id
        JOIN background_job_items i ON i.job_id = n.id
        LEFT JOIN background_job_items d ON d.job_id = o.id AND d.key = i.key
             AND (d.state IN ('done', 'skipped') OR d.error ? 'lasting')
        WHERE (i.state = 'skipped') <> (d.key IS NOT NULL)
    """,
    "I5: a history has a gap": """
        SELECT e.job_id FROM (SELECT job_id, old_status, lag(new_status) OVER history AS before
                              FROM background_job_events WINDOW history AS (PARTITION BY job_id ORDER BY id)) AS e
        WHERE e.old_status IS DISTINCT FROM e.before
        UNION ALL
        SELECT j.id FROM background_jobs j
        WHERE j.status IS DISTINCT FROM (SELECT e.new_status FROM background_job_events e
                                         WHERE e.job_id = j.id ORDER BY e.id DESC LIMIT 1)
    """,
    "I5: an illegal transition": """
        SELECT job_id || ': ' || coalesce(old_status, 'nothing') || ' to ' || new_status FROM background_job_events
        -- An event that changes no status tells of a person's decision.
        WHERE old_status IS DISTINCT FROM new_status AND (coalesce(old_status, 'nothing'), new_status) NOT IN (
            ('nothing', 'pending'), ('pending', 'running'), ('pending', 'completed'), ('pending', 'cancelled'),
            ('running', 'pending'), ('running', 'completed'), ('running', 'failed'), ('running', 'cancelled'))
    """,
    "I5: an attempt did not grow": """
        SELECT e.job_id FROM (SELECT job_id, new_status, attempt, lag(attempt) OVER history AS before
                              FROM background_job_events WINDOW history AS (PARTITION BY job_id ORDER BY id)) AS e
        WHERE e.attempt < e.before OR e.new_status = 'running' AND e.attempt = e.before
    """,
    "I5: a run has no attempt, or an attempt no run": """
        SELECT j.id FROM background_jobs j
        WHERE (SELECT array_agg(e.attempt ORDER BY e.attempt) FROM background_job_events e
               WHERE e.job_id = j.id AND (e.new_status = 'running'
                                          -- So short that nobody was shown its run.
                                          OR e.old_status = 'pending' AND e.new_status = 'completed'))
              IS DISTINCT FROM
              (SELECT array_agg(a.attempt ORDER BY a.attempt) FROM background_job_attempts a WHERE a.job_id = j.id)
           OR j.attempt <> (SELECT coalesce(max(a.attempt), 0) FROM background_job_attempts a WHERE a.job_id = j.id)
    """,
    "I5: not exactly the running job's attempt is open": """
        SELECT j.id FROM background_jobs j
        WHERE (SELECT array_agg(a.attempt) FROM background_job_attempts a
               WHERE a.job_id = j.id AND a.finished_at IS NULL)
              IS DISTINCT FROM CASE WHEN j.status = 'running' THEN ARRAY[j.attempt] END
    """,
    "I5: two attempts at once": """
        SELECT a.job_id FROM background_job_attempt_rows a JOIN background_job_attempt_rows b USING (job_id)
        WHERE a.attempt < b.attempt
          AND (a.token = b.token OR a.finished_at IS NULL OR a.finished_at > b.started_at)
    """,
    "I5: the open attempt has not the ticket's token": """
        SELECT a.job_id FROM background_job_attempt_rows a JOIN turno.tickets t ON t.job_id = a.job_id
        WHERE a.finished_at IS NULL AND a.token IS DISTINCT FROM t.token
    """,
    "I5: a completed job is not completed by its last attempt alone": """
        SELECT j.id FROM background_jobs j
        WHERE (SELECT array_agg(a.attempt) FROM background_job_attempts a
               WHERE a.job_id = j.id AND a.outcome = 'completed')
              IS DISTINCT FROM CASE WHEN j.status = 'completed' THEN ARRAY[j.attempt] END
    """,
    "I5: errors and crashes are miscounted": """
        SELECT j.id
        FROM background_jobs j
        CROSS JOIN LATERAL (
            -- A rescheduled run takes what was before it off the count, one that was healthy for long the errors.
            SELECT count(*) FILTER (WHERE a.outcome = 'crashed' AND a.attempt > coalesce(well.attempt, 0)) AS crashes,
                   count(*) FILTER (WHERE a.outcome = 'error' AND a.attempt > coalesce(well.attempt, 0)) AS errors
            FROM background_job_attempts a,
                 (SELECT max(attempt) AS attempt FROM background_job_attempts
                  WHERE job_id = j.id AND outcome = 'rescheduled') AS well
            WHERE a.job_id = j.id) AS seen
        -- The crash that found its job cancelled ended it, and needs no count.
        WHERE j.errors > seen.errors OR seen.crashes - j.crashes NOT BETWEEN 0 AND (j.status = 'cancelled')::integer
           OR j.errors + j.crashes > j.attempt
    """,
    "I5: a ticket has a stop that was not requested": """
        SELECT t.job_id FROM turno.tickets t JOIN background_jobs j ON j.id = t.job_id
        WHERE t.cancel_at IS NOT NULL AND j.cancel_requested_at IS NULL
    """,
    "I5: failed is not dead-lettered, or the other way round": """
        SELECT coalesce(j.id, d.job_id)
        FROM (SELECT id, attempt FROM background_jobs WHERE status = 'failed') AS j
        FULL JOIN background_jobs_dead_letter d ON d.job_id = j.id
        WHERE j.id IS NULL OR d.job_id IS NULL
           OR jsonb_array_length(d.attempts) <> (SELECT count(*) FROM background_job_attempts a WHERE a.job_id = j.id)
    """,
    "I5: a job and its successor disagree": """
        SELECT o.id FROM background_jobs o LEFT JOIN background_jobs n ON n.id = o.successor_id
        WHERE o.successor_id IS NOT NULL AND (o.status IN ('pending', 'running') OR n.parent_id <> o.id)
        UNION ALL
        SELECT d.job_id FROM background_jobs_dead_letter d JOIN background_jobs o ON o.id = d.job_id
        WHERE d.replayed_as IS DISTINCT FROM o.successor_id
    """,
    "I9: more of a key's jobs than may run at once": """
        SELECT t.concurrency_key FROM turno.tickets t LEFT JOIN turno.handlers h ON h.type = t.type
        WHERE t.tenant_id = (SELECT n.id FROM turno.tenants n WHERE n.schema = current_schema())
          AND t.concurrency_key IS NOT NULL AND t.state IN ('ready', 'running')
        GROUP BY t.concurrency_key
        HAVING count(*) > max(coalesce(h.key_limit, CASE WHEN h.key_rate IS NULL THEN 1 ELSE 1000000 END))
    """,
    "I9: the next of a key is forgotten": """
        SELECT t.concurrency_key FROM turno.tickets t LEFT JOIN turno.handlers h ON h.type = t.type
        WHERE t.tenant_id = (SELECT n.id FROM turno.tenants n WHERE n.schema = current_schema())
          AND t.concurrency_key IS NOT NULL AND t.key_position IS NULL AND t.state IN ('waiting', 'ready', 'running')
          AND NOT EXISTS (SELECT FROM turno.key_looks k WHERE k.tenant_id = t.tenant_id AND k.key = t.concurrency_key)
        GROUP BY t.concurrency_key
        HAVING count(*) FILTER (WHERE t.state = 'waiting') > 0
           AND count(*) FILTER (WHERE t.state IN ('ready', 'running')) < min(
               coalesce(h.key_limit, CASE WHEN h.key_rate IS NULL THEN 1 ELSE h.key_rate END))
               FILTER (WHERE t.state = 'waiting')
    """,
    "I9: the next in an order is forgotten": """
        SELECT t.concurrency_key FROM turno.tickets t
        WHERE t.tenant_id = (SELECT n.id FROM turno.tenants n WHERE n.schema = current_schema())
          AND t.key_position IS NOT NULL AND t.state = 'waiting'
          AND NOT EXISTS (SELECT FROM turno.key_looks k WHERE k.tenant_id = t.tenant_id AND k.key = t.concurrency_key)
          AND NOT EXISTS (SELECT FROM turno.tickets o
                          WHERE (o.tenant_id, o.concurrency_key) = (t.tenant_id, t.concurrency_key)
                            AND o.job_id <> t.job_id
                            AND (o.state IN ('ready', 'running') OR o.key_position <= t.key_position))
          AND NOT EXISTS (SELECT FROM turno.dead_letters d
                          WHERE d.tenant_id = t.tenant_id AND d.concurrency_key = t.concurrency_key
                            AND d.closed_at IS NULL AND d.key_position < t.key_position)
    """,
    "I9: a job in an order overtook its predecessor": """
        SELECT l.id
        FROM background_jobs e
        JOIN background_jobs l ON l.concurrency_key = e.concurrency_key AND l.key_position > e.key_position
        JOIN background_job_attempts a ON a.job_id = l.id
        LEFT JOIN background_jobs_dead_letter d ON d.job_id = e.id
        -- Until the earlier one has begun, the transaction that published it may have been open.
        WHERE a.started_at > (SELECT min(b.started_at) FROM background_job_attempts b WHERE b.job_id = e.id)
          AND a.started_at < CASE WHEN e.status = 'failed' THEN coalesce(d.replayed_at, d.discarded_at, 'infinity')
                                  ELSE coalesce(e.finished_at, 'infinity') END
    """,
    "I9: two jobs of a key ran at once": """
        SELECT j.concurrency_key
        FROM background_jobs j JOIN background_jobs o ON o.concurrency_key = j.concurrency_key AND o.id <> j.id
        JOIN background_job_attempts a ON a.job_id = j.id JOIN background_job_attempts b ON b.job_id = o.id
        WHERE a.started_at <= b.started_at AND coalesce(a.finished_at, 'infinity') > b.started_at
          AND NOT EXISTS (SELECT FROM turno.handlers h WHERE h.type IN (j.type, o.type)
                          AND (h.key_limit > 1 OR h.key_rate IS NOT NULL AND h.key_limit IS NULL))
    """,
    "I10: a job whose parts have ended is forgotten": """
        SELECT j.id FROM background_jobs j JOIN turno.tickets t ON t.job_id = j.id
        WHERE t.state = 'parts'
          AND NOT EXISTS (SELECT FROM turno.tickets p WHERE p.awaited_by = j.id)
          AND NOT EXISTS (SELECT FROM turno.part_looks l WHERE l.job_id = j.id)
    """,
    "I10: a completed job has a part that has not ended": """
        SELECT j.id FROM background_jobs p JOIN background_jobs j ON j.id = p.awaited_by AND j.status = 'completed'
        WHERE p.finished_at IS NULL
    """,
    "I8: an ended job has not one notification for its user": """
        SELECT j.id FROM background_jobs j
        WHERE j.finished_at IS NOT NULL AND j.awaited_by IS NULL
          AND ARRAY(SELECT (n.user_id, n.kind) FROM notifications n WHERE n.job_id = j.id AND n.kind <> 'needs_review')
              <> ARRAY[(j.user_id::text, j.status::text)]
    """,
}

# After the faults, and after the time for repairs.
SETTLED: dict[str, LiteralString] = {
    "I6: a job did not end": """
        SELECT id FROM background_jobs j WHERE status IN ('pending', 'running') AND run_at < 'infinity'
          -- Some wait for a person who decides about the job before them in an order.
          AND NOT EXISTS (SELECT FROM background_jobs e LEFT JOIN turno.dead_letters d ON d.job_id = e.id
                          WHERE e.concurrency_key = j.concurrency_key AND e.key_position < j.key_position
                            AND (e.status = 'pending' AND e.run_at = 'infinity'
                                 OR d.key_position IS NOT NULL AND d.closed_at IS NULL))
    """
}

# Run once for all tenants, after the end of the last worker.
LEFT_BEHIND: dict[str, LiteralString] = {
    "I7: a worker is still on the list": "SELECT host || ' ' || pid FROM turno.workers",
    "I7: a ticket is still held": "SELECT job_id FROM turno.tickets WHERE state = 'running'",
    "I7: a handler's session is still open": """
        SELECT usename || ' ' || application_name FROM pg_stat_activity
        WHERE datname = current_database()
          AND usename IN (SELECT handler_role FROM turno.tenants UNION ALL SELECT report_role FROM turno.companies)
    """,
    "I7: a transaction is still open": """
        SELECT usename || ' ' || application_name FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%%' AND pid <> pg_backend_pid()
    """,
    "I7: a lock is still waited for": "SELECT pid FROM pg_locks WHERE NOT granted",
    "I7: a transaction is still prepared": "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()",
}


class Judge:
    """Checks a tenant as the superuser, in a separate session; `effects` are rules in addition to the common rules."""

    def __init__(self, connection: psycopg.Connection[Any], effects: Mapping[str, LiteralString] | None = None) -> None:
        self._connection = connection
        of_capabilities = merged("invariant", (capability.invariants for capability in installed()))
        self._always = union_query(RULES | of_capabilities | dict(effects or {}))

    def broken(self, *, accepted: Collection[UUID] = (), lost: Collection[UUID] = ()) -> list[str]:
        """Name every rule that does not hold, and for which job; `lost` are jobs that may miss their tickets."""
        return self._ask(self._always, {"accepted": list(accepted), "lost": list(lost)})

    def unsettled(self) -> list[str]:
        """Name the jobs that should have ended."""
        return self._ask(union_query(SETTLED), {})

    def left_behind(self) -> list[str]:
        """Name the leftovers of ended workers in the whole database."""
        return self._ask(union_query(LEFT_BEHIND), {})

    def _ask(self, query: sql.Composed, parameters: Mapping[str, Any]) -> list[str]:
        rows = self._connection.execute(query, parameters).fetchall()
        return sorted(f"{rule}: {subject}" for rule, subject in rows)


def union_query(rules: Mapping[str, LiteralString]) -> sql.Composed:
    """Return all rules as one query, which returns the name and the violations of each broken rule."""
    each = (
        sql.SQL("SELECT {}, subject::text FROM ({}) AS broken (subject)").format(sql.Literal(name), sql.SQL(rule))
        for name, rule in rules.items()
    )
    return sql.SQL(" UNION ALL ").join(each)


@contextmanager
def judge_of(url: str, tenant: Tenant, effects: Mapping[str, LiteralString] | None = None) -> Iterator[Judge]:
    """Give a judge for a tenant; `url` is the superuser's."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(tenant.schema)))
        # Some thirty small queries in one: planned once, not at every step of a test.
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield Judge(connection, effects)
