"""The least that a durable queue costs: claim a job with SKIP LOCKED, run it, complete it, at each input line."""

from __future__ import annotations

import sys

import psycopg

TABLE = """
CREATE TABLE floor_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number integer NOT NULL, state smallint NOT NULL DEFAULT 0,
    run_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, finished_at timestamptz);
CREATE INDEX ON floor_jobs (run_at, id) WHERE state = 0;
"""
CLAIM = """
UPDATE floor_jobs SET state = 1, started_at = clock_timestamp()
WHERE id = (SELECT id FROM floor_jobs WHERE state = 0 AND run_at <= now() ORDER BY run_at, id LIMIT 1
            FOR UPDATE SKIP LOCKED)
RETURNING id, number
"""
COMPLETE = "UPDATE floor_jobs SET state = 2, finished_at = clock_timestamp() WHERE id = %s"


def main(url: str) -> None:
    """Drain the table whenever a line comes, then say so."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.prepare_threshold = 0
        print("ready", flush=True)
        for _ in sys.stdin:
            while row := connection.execute(CLAIM).fetchone():
                connection.execute(COMPLETE, (row[0],))
            print("empty", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
