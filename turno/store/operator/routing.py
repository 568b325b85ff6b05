"""Which backend runs a tenant's jobs: read by the web, changed by operators, while everything runs."""

from typing import Any

import psycopg

from turno.store.operator.counts import Row, rows

Session = psycopg.Connection[Any]
SETTINGS = ("queue_backend", "queue_canary_backend", "queue_canary_percent")


def backend_for(session: Session, tenant_id: int, default: str) -> str:
    """Return the backend of a tenant's next job."""
    row = session.execute("SELECT turno.backend_for(%s, %s)", (tenant_id, default)).fetchone()
    return str(row[0]) if row and row[0] else default


def chosen(session: Session, default: str) -> dict[str, str]:
    """Return every active tenant's backend, by its slug."""
    rows = session.execute(
        "SELECT slug, backend_for(id, %s) FROM tenants WHERE state = 'active' ORDER BY slug",
        (default,),
    ).fetchall()
    return dict(rows)


def counts(session: Session) -> list[Row]:
    """Return each backend with its living workers and its tickets by state.

    `stranded` jobs wait for a backend without a worker; exec launches a worker for each job.
    """
    return rows(session, "SELECT * FROM backend_counts ORDER BY backend")


def set_for_all(session: Session, name: str, value: str | None) -> None:
    """Set one of SETTINGS, or with None give it back to the environment."""
    if value is None:
        session.execute("DELETE FROM settings WHERE name = %s", (name,))
        return
    session.execute(
        "INSERT INTO settings (name, value) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = now()",
        (name, value),
    )


def reroute(session: Session, default: str) -> int:
    """Move the waiting jobs to the backends of their tenants; return the number of moved jobs."""
    moved = 0
    while row := session.execute("SELECT reroute(%s)", (default,)).fetchone():
        if not row[0]:
            break
        moved += row[0]
    return moved
