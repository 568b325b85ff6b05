"""Rows and log lines of the jobs that a violation names, collected before the server of the run is removed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nemesis.environment import Environment

JOB_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Each table with its column of job ids.
TABLES = {
    "background_jobs": "id",
    "background_job_attempts": "job_id",
    "background_job_events": "job_id",
    "background_job_checkpoints": "job_id",
    "background_job_items": "job_id",
    "customers": "company_name",
    "turno.tickets": "job_id",
}
MOST_JOBS, MOST_ROWS, MOST_LINES = 3, 60, 60


def evidence_of(environment: Environment, violations: Iterable[str]) -> list[str]:
    """Return the rows of the first named jobs in each tenant, and the log lines of workers about these jobs."""
    jobs = list(dict.fromkeys(JOB_ID.findall(" ".join(violations))))[:MOST_JOBS]
    return [line for job in jobs for line in (*_rows(environment, job), *_log_lines(environment, job))]


def _rows(environment: Environment, job: str) -> Iterator[str]:
    query = sql.SQL("SELECT to_jsonb(found)::text FROM {} AS found WHERE {}::text = %s ORDER BY 1 LIMIT {}")
    for tenant in environment.tenants:
        with environment.admin(tenant) as session:
            for table, column in TABLES.items():
                statement = query.format(sql.Identifier(*table.split(".")), sql.Identifier(column), MOST_ROWS)
                try:
                    rows = session.execute(statement, (job,)).fetchall()
                except psycopg.Error as error:
                    rows = [(str(error),)]
                yield from (f"{tenant.slug} {table} {row}" for (row,) in rows)


def _log_lines(environment: Environment, job: str) -> list[str]:
    lines = environment.workers_log.read_text(errors="replace").splitlines()
    return [line for line in lines if job in line][:MOST_LINES]
