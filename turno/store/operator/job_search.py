"""Find the jobs of all tenants, as the operator, in the control schema, without a query to a tenant.

Failures are in `dead_letters`, open jobs in `tickets`, and other ends in `ended_jobs`, until they are pruned. A filter
by user, correlation id or payload needs the tenants: see `turno.dispatch.across_tenants`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from turno.capability import job_filters
from turno.jobs.label import FAILURES, STATUS_AFTER, Outcome

Operator = psycopg.Connection[Any]
Row = dict[str, Any]
Source = Literal["failed", "open", "ended"]
GroupBy = Literal["error", "type", "tenant", "company"]

PAGE = 1000  # jobs that a command reads in one query
QUICKLY_MS = 200  # that a page waits for the failed, the open or the ended jobs
STATUSES = ("pending", "running", "completed", "failed", "cancelled")
OPEN = {"pending": ("scheduled", "waiting", "ready", "parts", "review"), "running": ("running",)}


class Cursor(NamedTuple):
    """The last job of a page: its moment, and its id."""

    at: datetime
    job_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsWanted:
    """Conditions for jobs; an empty sequence leaves a column free; `companies` is the caller's scope, None for all.

    `since` and `until` bound the end of a job, or the creation of an open one. `outcomes` exclude open jobs. `error` is
    a group as listed, or its class alone. `waiting` leaves only failures that were neither retried nor discarded.
    `user`, `correlation_id` (or a trace's id) and `text` (in the payload) are known to the jobs' own tenants alone.
    `filters` of capabilities have their values by name.
    """

    companies: Collection[str] | None = None
    tenants: Sequence[str] = ()
    statuses: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    types: Sequence[str] = ()
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    waiting: bool = False
    user: str | None = None
    correlation_id: str | None = None
    text: str | None = None
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def of_tenants(self) -> list[str]:
        """Return the names of the filters that the control schema does not know."""
        return [name for name in ("user", "correlation_id", "text") if getattr(self, name)]

    @property
    def predicates(self) -> LiteralString:
        """Return the predicates of the filters of capabilities."""
        known = job_filters()
        return "".join(f" AND ({known[name].operator})" for name in self.filters)

    @property
    def sources(self) -> list[Source]:
        """Return the sources of such jobs."""
        ended = self.ended
        if self.error is not None or self.waiting:
            return ["failed"] if ended & set(FAILURES) else []
        is_open = not self.outcomes and set(self.statuses or STATUSES) & set(OPEN)
        wanted: list[tuple[Source, object]] = [
            ("failed", ended & set(FAILURES)), ("open", is_open), ("ended", ended - {"failed"})
        ]  # fmt: skip
        return [source for source, jobs in wanted if jobs]

    @property
    def ended(self) -> set[Outcome]:
        """Return the outcomes that the statuses and outcomes leave."""
        statuses = self.statuses or STATUSES
        return {
            outcome for outcome, status in STATUS_AFTER.items()
            if status in statuses and (not self.outcomes or outcome in self.outcomes)
        }  # fmt: skip

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statements below.

        Raises ValueError for a filter that the control schema does not know: without it every other job would match.
        """
        if self.of_tenants:
            raise ValueError(f"{self.of_tenants[0]}: is known within each tenant alone; leave it out")
        statuses = self.statuses or STATUSES
        return {name: list(values) for name, values in self.filters.items()} | {
            "companies": None if self.companies is None else list(self.companies),
            "tenants": list(self.tenants),
            "types": list(self.types),
            "error": self.error,
            "since": self.since,
            "until": self.until,
            "first": self.since and first_id(self.since),
            "last": self.until and first_id(self.until),
            "waiting": self.waiting,
            "states": [state for status in statuses for state in OPEN.get(status, ())],
            "outcomes": sorted(self.ended),
        }


_SCOPE: LiteralString = """
    (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s::text[]))
    AND (%(tenants)s::text[] = '{}' OR tenant = ANY (%(tenants)s::text[]))
    AND (%(types)s::text[] = '{}' OR type = ANY (%(types)s::text[]))
"""
_ENDED: LiteralString = """
    AND outcome = ANY (%(outcomes)s::text[])
    AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
"""
_OPEN: LiteralString = """
    AND state = ANY (%(states)s::text[])
    AND (%(first)s::uuid IS NULL OR job_id >= %(first)s) AND (%(last)s::uuid IS NULL OR job_id < %(last)s)
"""
_ERROR: LiteralString = " AND (%(error)s::text IS NULL OR error = %(error)s OR starts_with(error, %(error)s || ':'))"
_FROM: dict[Source, LiteralString] = {
    "failed": " FROM failed_jobs AS found WHERE "
    + _SCOPE
    + _ENDED
    + _ERROR
    + " AND (NOT %(waiting)s OR closed_as IS NULL)",
    "open": " FROM open_jobs AS found WHERE " + _SCOPE + _OPEN,
    "ended": " FROM ended_jobs AS found WHERE " + _SCOPE + _ENDED,
}
_COLUMNS: LiteralString = """
    job_id, tenant, company, type, status, outcome, error, at, closed_as, done, failed, run_at, priority, parked, stage
"""
_BY_TIME: LiteralString = """
    AND (%(before_at)s::timestamptz IS NULL OR (at, job_id) < (%(before_at)s, %(before_id)s::uuid))
    ORDER BY at DESC, job_id DESC LIMIT %(limit)s
"""
_BY_ID: LiteralString = """
    AND (%(before_open)s::uuid IS NULL OR job_id < %(before_open)s) ORDER BY job_id DESC LIMIT %(limit)s
"""
_AFTER: LiteralString = " AND (%(after)s::uuid IS NULL OR job_id > %(after)s)"
_IN_ORDER: LiteralString = """
    AND job_id < %(made_before)s AND (%(through)s::uuid IS NULL OR job_id <= %(through)s)
    ORDER BY job_id LIMIT %(limit)s
"""


class SearchTooLong(Exception):
    """The search took longer than it may: a filter has to be narrowed."""


def find_quickly(operator: Operator, wanted: JobsWanted, *, before: Cursor | None, limit: int) -> list[Row]:
    """Return the page of `find_jobs`; raises SearchTooLong after QUICKLY_MS for each source."""
    try:
        with operator.transaction():
            operator.execute("SELECT set_config('statement_timeout', %s, true)", (str(QUICKLY_MS),))
            return find_jobs(operator, wanted, before=before, limit=limit)
    except psycopg.errors.QueryCanceled as error:
        raise SearchTooLong from error


def find_jobs(operator: Operator, wanted: JobsWanted, *, before: Cursor | None = None, limit: int = 50) -> list[Row]:
    """Return a page of jobs, the latest first: ended jobs by their end, open jobs by their creation.

    Each has job_id, tenant, company, type, status, outcome, error (its group), at, closed_as (replayed or discarded),
    done and failed (items, of a failure), and an open one its run_at, priority and whether it is parked for a person.
    """
    given = wanted.parameters | {
        "before_at": before and before.at,
        "before_id": before and before.job_id,
        "before_open": before and _before_open(before),
        "limit": limit,
    }
    sorted_parts = []
    with operator.transaction(), operator.cursor(row_factory=dict_row) as cursor:
        for source in wanted.sources:
            order = _BY_ID if source == "open" else _BY_TIME
            rows = cursor.execute("SELECT " + _COLUMNS + _FROM[source] + wanted.predicates + order, given).fetchall()
            sorted_parts.append([row | {"at": made_at(row["job_id"])} for row in rows] if source == "open" else rows)
    ordered = merge(*sorted_parts, key=lambda row: (row["at"], row["job_id"]), reverse=True)
    return list(islice(ordered, limit))


def group_jobs(operator: Operator, wanted: JobsWanted, by: GroupBy, *, limit: int = 100) -> list[Row]:
    """Return the largest groups: `name`, numbers of jobs, items and tenants, first, last, `example`, `example_tenant`.

    `items` are the failed ones of failures that were neither retried nor discarded. By `error` only failures count.
    `first` and `last` are times of ends, and the due times of open jobs; on a day with closed failures they include all
    failures of the day.
    """
    if by == "error":
        wanted = replace(wanted, outcomes=sorted(wanted.ended & set(FAILURES)))
        if not wanted.outcomes:
            return []
    if not wanted.sources:
        return []
    names: dict[GroupBy, LiteralString] = {name: name for name in ("error", "type", "tenant", "company")}
    name, predicates = names[by], wanted.predicates
    parts: list[LiteralString] = []
    for source in wanted.sources:
        failed = source == "failed"
        example: LiteralString = "NULL" if failed else "max(job_id::text)"
        partial_days: LiteralString = (
            "AND (at < %(before)s::timestamptz OR at >= %(after)s::timestamptz)" if failed else ""
        )
        parts.append(
            f"""SELECT {name} AS name, tenant, count(*) AS jobs, min(at) AS first, max(at) AS last,
                       {example} AS example,
                       coalesce(sum(failed) FILTER (WHERE closed_as IS NULL), 0) AS items
                {_FROM[source]} {predicates} {partial_days} GROUP BY 1, 2"""
        )
    if "failed" in wanted.sources:
        # Failures on whole days, by their counts.
        parts.append(
            f"""SELECT {name}, tenant, sum(counted), min(first_at) FILTER (WHERE counted > 0),
                       max(last_at) FILTER (WHERE counted > 0), NULL, sum(items)
                FROM (SELECT *, CASE WHEN %(waiting)s THEN open ELSE jobs END AS counted FROM failed_job_counts
                      WHERE (%(first_day)s::date IS NULL OR day >= %(first_day)s)
                        AND (%(past_day)s::date IS NULL OR day < %(past_day)s)
                        AND outcome = ANY (%(outcomes)s::text[]) {_ERROR}) AS found
                WHERE {_SCOPE} GROUP BY 1, 2 HAVING sum(counted) > 0"""  # noqa: S608
        )
    # Hash aggregates first; an example is looked up only for the groups of the page.
    statement: LiteralString = f"""
        WITH of_tenants AS (
            SELECT name, tenant, sum(jobs) AS jobs, min(first) AS first, max(last) AS last, max(example) AS example,
                   sum(items) AS items
            FROM ({" UNION ALL ".join(parts)}) AS part GROUP BY name, tenant
        ), groups AS (
            SELECT name, sum(jobs)::bigint AS jobs, sum(items)::bigint AS items, count(*) AS tenants,
                   min(first) AS first, max(last) AS last,
                   max(example || ' ' || tenant) AS example, (array_agg(tenant ORDER BY last DESC))[1] AS lately
            FROM of_tenants GROUP BY name ORDER BY jobs DESC, name LIMIT %(limit)s
        )
        SELECT g.name, g.jobs, g.items, g.tenants, g.first, g.last,
               coalesce(g.example, one.job_id || ' ' || g.lately) AS example
        FROM groups g LEFT JOIN LATERAL (
            SELECT job_id {_FROM["failed"]} {predicates} AND tenant = g.lately AND {name} = g.name
            ORDER BY at DESC, job_id DESC LIMIT 1) AS one ON g.example IS NULL
        ORDER BY g.jobs DESC, g.name"""  # noqa: S608
    given = wanted.parameters | _days(wanted) | {"limit": limit}
    with operator.cursor(row_factory=dict_row) as cursor:
        # One plan for all filters takes fifteen times as long as each filter's own.
        rows = cursor.execute(statement, given, prepare=False).fetchall()
    for row in rows:
        example, row["example_tenant"] = row["example"].split(" ")
        row["example"] = UUID(example)
    return rows


def _days(wanted: JobsWanted) -> dict[str, Any]:
    """Return the range of days that are counted whole, and the rest of the period from `since` to `until`."""
    first = None if wanted.since is None else _midnight(wanted.since + _DAY - timedelta(microseconds=1))
    past = None if wanted.until is None else _midnight(wanted.until)
    if wanted.filters:
        first = past = _EPOCH  # no day is counted: the counts do not know which jobs they are of
    if first is not None and past is not None and past < first:
        past = first  # no day is whole
        before, after = wanted.until, None
    else:
        before, after = first, past
    return {
        "first_day": first and first.date(),
        "past_day": past and past.date(),
        "before": before,
        "after": after,
    }


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


class Target(NamedTuple):
    """A job that a command changes, with the number of failed items if only items failed."""

    job_id: UUID
    tenant: str
    items: int


def targets(
    operator: Operator, wanted: JobsWanted, *, after: UUID | None = None, through: UUID | None = None, limit: int
) -> Iterator[list[Target]]:
    """Yield pages of up to PAGE jobs that existed at the start, in the order of their ids, up to `limit` jobs.

    `after` and `through` are the first and last job of the range; `after` is excluded.
    """
    (source,) = wanted.sources
    row = operator.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None  # noqa: S101 - a statement without FROM returns a row
    items: LiteralString = "CASE WHEN outcome <> 'failed' THEN coalesce(failed, 0) ELSE 0 END"
    statement: LiteralString = (
        "SELECT job_id, tenant, " + items + _FROM[source] + wanted.predicates + _AFTER + _IN_ORDER
    )
    while limit > 0:
        size = min(limit, PAGE)
        given = wanted.parameters | {
            "after": after, "through": through, "made_before": first_id(row[0]), "limit": size
        }  # fmt: skip
        page = [Target(*row) for row in operator.execute(statement, given).fetchall()]
        if page:
            yield page
        if len(page) < size:
            return
        after, limit = page[-1].job_id, limit - len(page)


def count_targets(operator: Operator, wanted: JobsWanted, *, after: UUID | None = None) -> int:
    """Return the number of present jobs that `targets` yields without a limit."""
    (source,) = wanted.sources
    statement: LiteralString = "SELECT count(*)" + _FROM[source] + wanted.predicates
    row = operator.execute(statement + _AFTER, wanted.parameters | {"after": after}).fetchone()
    return row[0] if row else 0


def first_id(moment: datetime) -> UUID:
    """Return the least possible id of a job of this moment: the first 48 bits of an id are its milliseconds."""
    milliseconds = -(-int((moment - _EPOCH) / timedelta(microseconds=1)) // 1000)
    return UUID(int=max(0, milliseconds) << 80)


def made_at(job_id: UUID) -> datetime:
    """Return when a job was made, by its id, limited to the range of Python's datetime."""
    return _EPOCH + timedelta(milliseconds=min(job_id.int >> 80, _LAST_MILLISECOND))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LAST_MILLISECOND = 253_370_764_800_000  # 9999


def _before_open(before: Cursor) -> UUID:
    return before.job_id if made_at(before.job_id) == before.at else first_id(before.at)
