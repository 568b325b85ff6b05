"""The outbox that people write themselves: a relay empties it into a table of jobs, which workers claim one by one."""

from __future__ import annotations

import sys
import time

import psycopg

IDLE = 0.02  # seconds between two looks of a process that found nothing
TABLES = """
CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number integer NOT NULL);
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, data jsonb NOT NULL);
CREATE TABLE subscribers (name text, type text, PRIMARY KEY (name, type));
INSERT INTO subscribers VALUES ('one', 'a'), ('three', 'a'), ('three', 'b'), ('three', 'c');
CREATE TABLE jobs (
    event bigint NOT NULL, type text NOT NULL, data jsonb NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0, started_at timestamptz, finished_at timestamptz, UNIQUE (event, type));
CREATE INDEX ON jobs (id) WHERE state = 0;
"""
RELAY = """
WITH told AS (
    DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
    RETURNING id, name, data)
INSERT INTO jobs (event, type, data)
SELECT t.id, s.type, t.data FROM told t JOIN subscribers s USING (name) ORDER BY t.id
"""
CLAIM = """
UPDATE jobs SET state = 1, started_at = clock_timestamp()
WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id
"""
COMPLETE = "UPDATE jobs SET state = 2, finished_at = clock_timestamp() WHERE id = %s"


def relay(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Make the jobs of up to a hundred events; say whether there were any."""
    return connection.execute(RELAY).rowcount > 0


def work(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Run one job, which does nothing; say whether there was one."""
    row = connection.execute(CLAIM).fetchone()
    if row is not None:
        connection.execute(COMPLETE, row)
    return row is not None


def main(role: str, url: str) -> None:
    """Do so until the process is ended."""
    step = {"relay": relay, "worker": work}[role]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.prepare_threshold = 0
        print("ready", flush=True)
        while True:
            if not step(connection):
                time.sleep(IDLE)


if __name__ == "__main__":
    main(*sys.argv[1:])
