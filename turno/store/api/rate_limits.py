"""Count requests against the limits of a user and of a tenant, by the clock of the database."""

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from turno.errors import RateLimited


def take(
    web: psycopg.Connection[Any],
    tenant: int,
    user: str,
    limits: Mapping[str, int],
    *,
    seconds: int = 86_400,
    job_type: str | None = None,
) -> None:
    """Count one request, or one job of `job_type` without its payload, against `limits` of one period.

    Raises RateLimited if one of the limits, values of settings by name, has too little left; then none of them counts.
    """
    if any(limits.values()) or job_type:
        given = (tenant, user, seconds, json.dumps(limits), job_type, int(job_type is not None))
        row = web.execute("SELECT * FROM turno.rate_take(%s, %s, %s, %s::jsonb, %s, %s)", given).fetchone()
        if row is not None and row[0] is not None:
            raise RateLimited(*row)
