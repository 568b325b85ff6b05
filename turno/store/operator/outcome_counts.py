"""Read the bounds of the statistics, as the operator: their scopes, and the time of the last count."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import psycopg

Operator = psycopg.Connection[Any]


def scopes(operator: Operator, companies: Collection[str] | None) -> list[int]:
    """Return the scopes of the statistics of these companies, or of the installation."""
    if companies is None:
        return [0]
    rows = operator.execute("SELECT -id FROM companies WHERE slug = ANY (%s)", (list(companies),))
    return [number for (number,) in rows]


def counted_until(operator: Operator) -> datetime | None:
    """Return the time of the last reading of outcomes into the statistics; None: there was none."""
    row = operator.execute("SELECT read_at FROM outcome_readers WHERE reader = 'statistics'").fetchone()
    return row[0] if row else None
