"""Run as a separate process: commit changes to jobs at a steady pace and hint at them as a supervisor does."""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from turno.environment import read_settings
from turno.jobs.job import Claim
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.identity.tenant import HandlerLogin
from turno.wiring.shared import engine_of
from turno.worker.running_jobs import ChangeNotifier

STEP = (
    "INSERT INTO {schema}.background_job_progress_rows AS p (job_id, done, total) VALUES (%(job)s, 0, 1000000)"
    " ON CONFLICT (job_id) DO UPDATE SET done = p.done + 1, revision = p.revision + 1"
    " RETURNING revision + (SELECT revision FROM {schema}.background_jobs WHERE id = %(job)s)"
)
RUN = "UPDATE {schema}.background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %(job)s"
END = "SELECT {schema}.{job_end}(%(job)s, 'completed', NULL, '{{}}', NULL)"
REVISION = (
    "SELECT j.revision + p.revision FROM {schema}.background_jobs j"
    " JOIN {schema}.background_job_progress p ON p.job_id = j.id WHERE j.id = %(job)s"
)


class Writer:
    """Changes jobs as the superuser, each change in a durable commit, and reports the time of each commit request."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._change_notifier = ChangeNotifier(engine_of(read_settings()))
        self.done: list[tuple[str, int, float]] = []

    def change(self, job: dict[str, Any], *, end: bool = False) -> None:
        """Move a job on, or end it."""
        parameters = {"job": job["id"]}
        for statement in (RUN, END, REVISION) if end else (STEP,):
            query = sql.SQL(statement).format(
                schema=sql.Identifier(job["schema"]), job_end=sql.Identifier(own_name("job_end", job["schema"]))
            )
            cursor = self._connection.execute(query, parameters)
        (revision,) = cursor.fetchone() or (0,)
        requested = time.monotonic()
        self._connection.commit()
        self.done.append((job["id"], revision, requested))
        self._change_notifier.changed((_claim(job),))
        self._change_notifier.flush()

    def wait_until(self, moment: float) -> None:
        """Wait, and report due changes meanwhile."""
        while (left := moment - time.monotonic()) > 0:
            time.sleep(max(0.0, min(left, self._change_notifier.due - time.monotonic())))
            self._change_notifier.flush()


def _claim(job: dict[str, Any]) -> Claim:
    login = HandlerLogin(slug="", schema=job["schema"], role="", epoch=0)
    number = UUID(job["id"])
    return Claim(
        job_id=number, token=number, attempt=1, type="", version=1, tenant_id=job["tenant"], login=login
    )  # fmt: skip


def main() -> None:
    """Read the orders from the input; write the changes to the output."""
    orders = json.load(sys.stdin)
    writer = Writer(orders["url"])
    jobs, pause = orders["jobs"], 1 / orders["a_second"]
    writer.change(jobs[0])  # connections, plans
    steps = [(jobs[number % len(jobs)], False) for number in range(orders["changes"])]
    steps += [(job, True) for job in jobs if orders["end"]]
    begin = time.monotonic() + 0.2
    for number, (job, end) in enumerate(steps):
        writer.wait_until(begin + number * pause)
        writer.change(job, end=end)
    writer.wait_until(time.monotonic() + 0.2)
    json.dump(writer.done, sys.stdout)


if __name__ == "__main__":
    main()
