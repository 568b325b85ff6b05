"""Read and remove subscriptions of job types to events, as the operator."""

from typing import Any

import psycopg

Operator = psycopg.Connection[Any]


def listed(operator: Operator) -> list[tuple[Any, ...]]:
    """Return (event, type, ordered, seen_at) of each subscription."""
    return operator.execute(
        "SELECT event, type::text, ordered, seen_at FROM turno.subscriptions ORDER BY event, type, ordered"
    ).fetchall()


def remove(operator: Operator, event: str, job_type: str) -> int:
    """Remove a subscription; returns how many rows it had. A running release that declares it adds it again."""
    return operator.execute(
        "DELETE FROM turno.subscriptions WHERE event = %s AND type = %s", (event, job_type)
    ).rowcount
