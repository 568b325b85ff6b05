"""Changes of handlers to their session, and their observations of it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from tests.misdeeds.deed import FaultyPayload
from turno.errors import PermanentFailure
from turno.jobs.job_context import JobContext


def session_state(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Return the session's user and its state."""
    with job.connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT current_user, current_setting('search_path'), pg_backend_pid(), current_setting('statement_timeout'),
                   (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors WHERE is_holdable),
                   ARRAY(SELECT pg_listening_channels())
            """
        )
        row = cursor.fetchone()
    assert row is not None
    user, path, backend, timeout, prepared, cursors, listening = row
    return {"user": user, "path": path, "backend": backend, "timeout": timeout, "prepared": prepared,
            "cursors": cursors, "listening": listening}  # fmt: skip


KEPT: list[psycopg.Connection[Any]] = []


def keep_the_session(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    KEPT.append(job.connection)
    return {}


def use_a_kept_session(_job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    KEPT[-1].execute("DELETE FROM customers WHERE false")
    return {}


def change_the_adapters(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Have numbers and truths come as text."""
    for name in ("int4", "int8", "bool", "uuid", "jsonb"):
        job.connection.adapters.register_loader(name, TextLoader)
    return {}


def change_the_modes(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    job.connection.execute("COMMIT")
    job.connection.autocommit = False
    job.connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    job.connection.read_only = True
    job.connection.cursor_factory = psycopg.ClientCursor
    return {}


def change_the_modes_and_give_up(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    change_the_modes(job, payload)
    raise PermanentFailure("enough")


def mess(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Leave the session changed, in the way that `text` names."""
    result = session_state(job, payload)
    match payload.text:
        case "settings":
            job.connection.execute("SET statement_timeout = '5s'; SET search_path = pg_catalog")
            job.connection.execute(f"SET search_path = {result['path']}; SET statement_timeout = '6s'")
        case "listening":
            job.connection.execute("LISTEN something")
        case "prepared":
            job.connection.execute("PREPARE mine AS SELECT 1")
        case "cursor":
            job.connection.execute("DECLARE mine CURSOR WITH HOLD FOR SELECT 1")
        case "row_factory":
            job.connection.row_factory = dict_row
    return result


def leave_settings(job: JobContext, payload: FaultyPayload) -> None:
    """Make a session's settings permanent by a commit, then fail."""
    job.connection.execute(payload.text.encode())
    job.checkpoint(1)
    raise ValueError("after the settings")


def dict_rows(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Return the format of a row, and leave the session with another factory."""
    row = job.connection.execute("SELECT 1 AS one").fetchone()
    job.connection.row_factory = dict_row
    return {"row": row if isinstance(row, dict) else list(row or ())}
