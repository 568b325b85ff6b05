"""Read the faults of a running installation: affected tenant, start, and the command that repairs it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import namedtuple_row

from turno.capability import backends, installed, load
from turno.jobs.label import counted
from turno.store.engine.workers import Unserved, unserved

UNSERVED_FOR = timedelta(minutes=1)
RESCUE_TAKES = timedelta(seconds=30)  # three rounds of maintenance
LONG_WAIT = timedelta(minutes=5)
LONG_RUN = timedelta(minutes=5)  # shorter runs are never reported
TIMES_USUAL = 3  # the run time of 99 of 100 attempts, which a long run exceeds this many times
FEWEST_RUNS = 20  # attempts of a type, below which no run time is usual
OLD_SNAPSHOT = timedelta(minutes=30)
MOST_OF_A_KIND = 3  # tenants with troubles of their own of one kind; a cause of more tenants is common to them
OLDEST_TRANSACTIONS = 'psql -c "SELECT pid, usename, xact_start FROM pg_stat_activity ORDER BY xact_start LIMIT 3"'


class Trouble(NamedTuple):
    """A fault, as a sentence without its full stop; `since` may be unknown (None).

    Pages say it in their reader's words, by its `kind` and `values`. `tenant` is None for a fault of several tenants.
    """

    sentence: str
    since: datetime | None
    command: str
    kind: str
    values: Mapping[str, Any]
    tenant: str | None = None
    alert: bool = True  # False: an operator's decision, or failures below the threshold of alerts
    everywhere: str = ""  # the command for all tenants, of a kind that many tenants may have at the same time
    others: int = 0  # further tenants with a trouble of this kind, which this trouble represents
    page: str = "/queues"  # below /admin, where the page of the remedy does not depend on the trouble's values


def troubles(
    operator: psycopg.Connection[Any], dead_after: timedelta, companies: Sequence[str] | None = None
) -> list[Trouble]:
    """Return the faults, faults with an alert first; `companies` limits them to the tenants of these companies.

    Faults that all tenants share, such as a silent worker, are always included. Faults of one kind in more than
    MOST_OF_A_KIND tenants are one fault.
    """
    with operator.transaction(), operator.cursor(row_factory=namedtuple_row) as cursor:
        named = None if companies is None else list(companies)
        lacking = unserved(operator, UNSERVED_FOR)
        listed = [
            *_unserved(cursor, lacking, named),
            *_silent_workers(cursor, dead_after),
            *_no_maintenance(cursor),
            *_failing_maintenance(cursor),
            *(
                trouble
                for capability in installed()
                for reference in capability.checks
                for trouble in load(reference)(cursor)
            ),
            *_long_waits(cursor, lacking),
            *_long_runs(cursor, named),
            *_paused_types(cursor, named),
            *_failures(cursor, named),
            *_parked(cursor),
            *_old_snapshot(cursor),
        ]
        listed.sort(key=lambda trouble: not trouble.alert)
        if named is not None:
            cursor.execute(
                "SELECT n.slug FROM tenants n JOIN companies c ON c.id = n.company_id WHERE c.slug = ANY (%s)", (named,)
            )
            theirs = {row[0] for row in cursor}
            listed = [trouble for trouble in listed if trouble.tenant is None or trouble.tenant in theirs]
        return list(_by_kind(listed))


def _by_kind(listed: Iterable[Trouble]) -> Iterator[Trouble]:
    """Yield the first trouble of a kind for the troubles of this kind in many tenants, and each other trouble."""
    tenants = Counter(trouble.kind for trouble in listed if trouble.everywhere)
    seen = set[str]()
    for trouble in listed:
        many = tenants[trouble.kind]
        if many <= MOST_OF_A_KIND:
            yield trouble
        elif trouble.kind not in seen:
            seen.add(trouble.kind)
            sentence = f"{trouble.sentence}; the same in {counted(many - 1, 'other tenant')}"
            yield trouble._replace(sentence=sentence, command=trouble.everywhere, tenant=None, others=many - 1)


def _unserved(
    cursor: psycopg.Cursor[Any], unserved: Sequence[Unserved], companies: list[str] | None
) -> Iterator[Trouble]:
    known = backends()
    for lane in unserved:
        named = lane if companies is None else _within(cursor, lane, companies)
        if not named.waiting:
            continue
        values = {name: getattr(named, name) for name in ("type", "version", "queue", "backend", "tenants")}
        # Maintenance moves the jobs of a backend without a folder.
        command, remedy = known.get(named.backend, known["exec"]).worker, ""
        match named.lacks:
            case "type":
                command = f"turno job cancel --all --type {quote(named.type)} --status pending --dry-run"
            case "version":
                command = f"turno job list --all --type {quote(named.type)} --status pending"
            case "queue":
                command = f"{command} --queues {quote(named.queue)}"
        if named.lacks in ("type", "version"):
            remedy = "; start a worker of the release that knows it, or cancel the jobs"
        sentence = f"{named.why}: {named.many}{remedy}"
        yield Trouble(sentence, named.oldest, command, f"lacks {named.lacks}", values | {"n": named.waiting})


def _within(cursor: psycopg.Cursor[Any], trouble: Unserved, companies: list[str]) -> Unserved:
    """Return the jobs of the tenants of these companies only."""
    (row,) = cursor.execute(
        """
        SELECT coalesce(sum(k.tickets), 0)::bigint AS waiting, count(DISTINCT k.tenant_id) AS tenants,
               coalesce(min(k.oldest), now()) AS oldest
        FROM ticket_counts k JOIN tenants n ON n.id = k.tenant_id JOIN companies c ON c.id = n.company_id
        WHERE k.state = 'ready' AND k.backend = %s AND k.queue = %s AND k.type = %s AND c.slug = ANY (%s)
          AND n.paused_at IS NULL
        """,
        (trouble.backend, trouble.queue, trouble.type, companies),
    ).fetchall()
    return replace(trouble, **row._asdict())


def _silent_workers(cursor: psycopg.Cursor[Any], dead_after: timedelta) -> Iterator[Trouble]:
    # The condition of the rescue (prune_workers), and a while for the rescue: silence while no process could hear a
    # heartbeat does not count.
    cursor.execute(
        """
        SELECT w.host, w.pid, w.alive_at FROM workers w LEFT JOIN leases l ON l.name = 'sweep'
        WHERE greatest(w.alive_at, l.since) < clock_timestamp() - %s::interval ORDER BY w.alive_at
        """,
        (dead_after + RESCUE_TAKES,),
    )
    for worker in cursor:
        what = f"the worker {worker.pid} of {worker.host} is silent, and its jobs were not taken from it"
        values = {"pid": worker.pid, "host": worker.host}
        yield Trouble(what, worker.alive_at, "turno maintain --once", "silent worker", values, page="/workers")


def _no_maintenance(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute("SELECT until, until > clock_timestamp() AS steady FROM leases WHERE name = 'steady sweeps'")
    last = cursor.fetchone()
    if not (last and last.steady):
        what = "no process runs maintenance by itself: retries and delayed jobs start after the next job only"
        yield Trouble(what, last and last.until, "turno maintain", "no maintenance", {}, page="/workers")


def _failing_maintenance(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT n.slug, count(*) AS tasks, min(f.since) AS since,
               (array_agg(f.task || ': ' || f.error ORDER BY f.since))[1] AS first
        FROM tenant_failures f JOIN tenants n ON n.id = f.tenant_id
        WHERE n.state = 'active' AND f.failures > 1 GROUP BY n.slug ORDER BY since
        """
    )
    for row in cursor:
        fail = "fails" if row.tasks == 1 else "fail"
        what = f"{counted(row.tasks, 'maintenance task')} {fail} for {row.slug}; {row.first}"
        values, command = {"tenant": row.slug, "n": row.tasks}, "turno maintain --once"
        yield Trouble(what, row.since, command, "maintenance", values, row.slug, everywhere=command)


def _long_waits(cursor: psycopg.Cursor[Any], unserved: Sequence[Any]) -> Iterator[Trouble]:
    # Jobs without a worker are one trouble, not a trouble of each tenant.
    lanes = [[getattr(lane, name) for lane in unserved] for name in ("backend", "queue", "type")]
    cursor.execute(
        """
        SELECT n.slug, n.paused_at, sum(k.tickets)::bigint AS waiting, min(k.oldest) AS since
        FROM ticket_counts k JOIN tenants n ON n.id = k.tenant_id LEFT JOIN job_types t ON t.type = k.type
        WHERE k.state = 'ready' AND t.paused_at IS NULL
          AND (n.paused_at IS NOT NULL OR (k.backend::text, k.queue::text, k.type::text) NOT IN (
              SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])))
        GROUP BY n.slug, n.paused_at
        HAVING bool_or(k.oldest < now() - coalesce(
            make_interval(mins => coalesce(n.alert_wait_minutes, t.alert_wait_minutes)), %s::interval))
        ORDER BY since
        """,
        (*lanes, LONG_WAIT),
    )
    for tenant in cursor:
        values = {"tenant": tenant.slug, "n": tenant.waiting}
        if tenant.paused_at:
            what = f"{tenant.slug} is paused with {counted(tenant.waiting, 'job')}"
            command = _resume("tenant", tenant.slug)
            yield Trouble(
                what,
                tenant.since,
                command,
                "paused tenant",
                values,
                tenant.slug,
                alert=False,
                everywhere="turno tenant list",
            )
        else:
            what = f"{tenant.slug} waits for its turn with {counted(tenant.waiting, 'job')}"
            command = "turno tenant shares"
            yield Trouble(what, tenant.since, command, "long wait", values, tenant.slug, everywhere=command)


def _long_runs(cursor: psycopg.Cursor[Any], companies: list[str] | None) -> Iterator[Trouble]:
    # The bound of a bucket of run times: no running job of a quick type is reported for a single slow attempt before.
    cursor.execute(
        """
        WITH long AS (
            SELECT type, tenant, claimed_at FROM open_jobs
            WHERE state = 'running' AND claimed_at < clock_timestamp() - %(least)s::interval
              AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
        ), runs AS (
            SELECT s.type, u.bucket, sum(u.n) AS n FROM statistics s
            CROSS JOIN LATERAL unnest(s.run_buckets, s.counts) AS u (bucket, n)
            WHERE s.scope = 0 AND s.minute = '-infinity' AND u.bucket >= 0 AND s.type IN (SELECT type FROM long)
            GROUP BY 1, 2
        ), ranked AS (
            SELECT type, bucket, sum(n) OVER (PARTITION BY type ORDER BY bucket) AS up_to,
                   sum(n) OVER (PARTITION BY type) AS runs
            FROM runs
        ), usual AS (
            SELECT type, make_interval(secs => (outcome_bounds())[min(bucket) + 1] / 1000.0) AS lasts
            FROM ranked WHERE runs >= %(fewest)s AND up_to >= 0.99 * runs GROUP BY type
        )
        SELECT l.type, count(*) AS n, count(DISTINCT l.tenant) AS tenants,
               CASE WHEN count(DISTINCT l.tenant) = 1 THEN min(l.tenant) END AS tenant, min(l.claimed_at) AS since,
               extract(epoch FROM u.lasts)::float8 AS usual
        FROM long l JOIN usual u USING (type)
        WHERE l.claimed_at < clock_timestamp() - %(times)s * u.lasts GROUP BY l.type, u.lasts ORDER BY since
        """,
        {"least": LONG_RUN, "companies": companies, "fewest": FEWEST_RUNS, "times": TIMES_USUAL},
    )
    for row in cursor:
        run = "runs" if row.n == 1 else "run"
        usual = f"{row.usual:,.0f} s" if row.usual >= 1 else f"{row.usual:g} s"
        what = f"{counted(row.n, 'job')} of {row.type} {run} for long: 99 of 100 attempts take at most {usual}"
        command = f"turno job list --all --type {quote(row.type)} --status running"
        values = {"type": row.type, "n": row.n, "tenants": row.tenants, "usual": usual}
        yield Trouble(what, row.since, command, "long run", values, row.tenant)


def _paused_types(cursor: psycopg.Cursor[Any], companies: list[str] | None) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT k.type, sum(k.tickets)::bigint AS waiting, count(DISTINCT k.tenant_id) AS tenants, min(k.oldest) AS since
        FROM ticket_counts k JOIN job_types t ON t.type = k.type AND t.paused_at IS NOT NULL
        JOIN tenants n ON n.id = k.tenant_id JOIN companies c ON c.id = n.company_id
        WHERE k.state = 'ready' AND n.paused_at IS NULL AND (%s::text[] IS NULL OR c.slug = ANY (%s))
        GROUP BY k.type HAVING min(k.oldest) < now() - %s::interval ORDER BY since
        """,
        (companies, companies, LONG_WAIT),
    )
    for row in cursor:
        what = f"{row.type} is paused with {counted(row.waiting, 'job')} of {counted(row.tenants, 'tenant')}"
        values = {"type": row.type, "n": row.waiting, "tenants": row.tenants}
        yield Trouble(what, row.since, _resume("type", row.type), "paused type", values, alert=False, page="/types")


def _resume(what: str, name: str) -> str:
    return f"turno {what} set {quote(name)} --resumed"


def _failures(cursor: psycopg.Cursor[Any], companies: list[str] | None) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT * FROM failing_jobs(%s)
        ORDER BY above_threshold DESC, failed DESC, unresolved DESC, type, error_class, whole_jobs DESC
        """,
        (companies,),
    )
    for row in cursor:
        where = row.tenant or f"{row.tenants:,} tenants"
        what = f"{row.type} fails in {where}" if row.whole_jobs else f"items of {row.type} fail in {where}"
        n = row.failed if row.ended else row.unresolved
        many = f"{n:,} of {row.ended:,} in the last hour" if row.ended else counted(n, "unresolved job")
        mostly = "mostly " if n > 1 else ""
        scope = f"--tenant {row.tenant}" if row.tenant else "--all"
        filters = f"--type {quote(row.type)} --error {quote(row.error_class)}"
        yield Trouble(
            f"{what}: {many}, {mostly}{row.error}",
            row.since,
            f"turno job list {scope} {filters} --group-by error",
            "failures" if row.whole_jobs else "failed items",
            {"type": row.type, "error": row.error_class, "mostly": row.error, "tenants": row.tenants}
            | {"n": n, "ended": row.ended},
            row.tenant,
            alert=row.above_threshold,
        )


def _parked(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    cursor.execute(
        """
        SELECT n.slug, sum(k.tickets)::bigint AS jobs FROM ticket_counts k JOIN tenants n ON n.id = k.tenant_id
        WHERE k.state = 'review' GROUP BY n.slug ORDER BY jobs DESC, n.slug
        """
    )
    for tenant in cursor:
        wait = "waits" if tenant.jobs == 1 else "wait"
        what = f"{counted(tenant.jobs, 'job')} of {tenant.slug} {wait} until a person settles a doubt"
        command = f"turno job list --tenant {tenant.slug} --needs-review"
        values = {"tenant": tenant.slug, "n": tenant.jobs}
        everywhere = "turno job list --all --needs-review"
        yield Trouble(what, None, command, "review", values, tenant.slug, everywhere=everywhere)


def _old_snapshot(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    # Other logins' transactions are seen by members of pg_read_all_stats alone. A transaction that has neither a
    # snapshot nor a transaction id keeps no row, and neither does vacuum.
    cursor.execute(
        """
        SELECT min(xact_start) AS since FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND xact_start < clock_timestamp() - %s::interval
          AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type <> 'autovacuum worker'
        """,
        (OLD_SNAPSHOT,),
    )
    for row in cursor:
        if row.since is not None:
            what = "a transaction has been open for very long, so that no dead row can be removed"
            yield Trouble(what, row.since, OLDEST_TRANSACTIONS, "old snapshot", {})
