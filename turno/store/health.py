"""Ask whether the database answers."""

from typing import Any

import psycopg


def answers(connection: psycopg.Connection[Any]) -> bool:
    """Say whether a statement runs; raises psycopg.OperationalError where even that is impossible."""
    return connection.execute("SELECT 1").fetchone() is not None
