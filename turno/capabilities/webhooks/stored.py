"""The addresses that operators added, and the failed deliveries."""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from turno.jobs.label import counted
from turno.store.operator.run_time_settings import speak_for
from turno.store.operator.troubles import Trouble

Operator = psycopg.Connection[Any]
Row = dict[str, Any]

LATE = timedelta(minutes=10)  # since the end of the job: the first tries last a minute


def list_addresses(operator: Operator, *, companies: Collection[str] | None = None) -> list[Row]:
    """Return the addresses without their paths, which may be secret; `companies`, by slug, selects tenants."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT a.id, n.slug AS tenant, a.type, regexp_replace(a.url, '^(https?://[^/?]+).+', '\\1/…') AS url,
                   a.created_at, (SELECT count(*) FROM failing_webhooks f WHERE f.address_id = a.id) AS failing
            FROM webhook_addresses a
            LEFT JOIN tenants n ON n.id = a.tenant_id LEFT JOIN companies c ON c.id = n.company_id
            WHERE %(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s) ORDER BY a.id
            """,
            {"companies": None if companies is None else list(companies)},
        ).fetchall()


def add_address(operator: Operator, url: str, *, tenant: str | None, job_type: str | None, by: str) -> int | None:
    """Add an address for the later ends of jobs, of a tenant and of a type if named; returns its number.

    A repeated call returns the same number; None if there is no such tenant.
    """
    with operator.transaction():
        speak_for(operator, by)
        given = {"url": url, "tenant": tenant, "type": job_type}
        operator.execute(
            """
            INSERT INTO webhook_addresses (tenant_id, type, url)
            SELECT n.id, %(type)s::text, %(url)s FROM (VALUES (%(tenant)s::text)) AS wanted (slug)
            LEFT JOIN tenants n ON n.slug = wanted.slug AND n.state = 'active'
            WHERE wanted.slug IS NULL OR n.id IS NOT NULL
            ON CONFLICT DO NOTHING
            """,
            given,
        )
        row = operator.execute(
            """
            SELECT a.id FROM webhook_addresses a LEFT JOIN tenants n ON n.id = a.tenant_id
            WHERE a.url = %(url)s AND n.slug IS NOT DISTINCT FROM %(tenant)s::text
              AND a.type IS NOT DISTINCT FROM %(type)s::text
            """,
            given,
        ).fetchone()
    return int(row[0]) if row else None


def remove_address(operator: Operator, address: int, *, by: str) -> bool:
    """Remove an address with its undelivered ends; False if the number is unknown."""
    with operator.transaction():
        speak_for(operator, by)
        return operator.execute("DELETE FROM webhook_addresses WHERE id = %s", (address,)).rowcount == 1


def failing(
    operator: Operator,
    *,
    companies: Collection[str] | None = None,
    tenant: str | None = None,
    after: int = 0,
    limit: int = 100,
) -> list[Row]:
    """Return the failed deliveries, the oldest first, behind `after`.

    Each has id, tenant, job_id, url without its path, attempts, error, next_at, and the address_id of operators.
    Without next_at no further try is made.
    """
    among = None if companies is None else list(companies)
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT id, tenant, job_id, url, address_id, attempts, error, next_at FROM failing_webhooks
            WHERE id > %(after)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
            ORDER BY id LIMIT %(limit)s
            """,
            {"companies": among, "tenant": tenant, "after": after, "limit": limit},
        ).fetchall()


def settle(
    operator: Operator,
    *,
    again: bool,
    by: str,
    tenant: str | None = None,
    ids: Sequence[int] | None = None,
    companies: Collection[str] | None = None,
) -> int:
    """Resend the failed deliveries, if `again`, at once and from the first try on, or discard them; returns the number.

    `tenant` and `ids` limit the deliveries.
    """
    with operator.transaction():
        speak_for(operator, by)
        given = (again, tenant, None if ids is None else list(ids), None if companies is None else list(companies))
        row = operator.execute("SELECT webhooks_settle(%s, %s, %s::bigint[], %s::text[])", given).fetchone()
    assert row is not None  # noqa: S101 - a function's row
    return int(row[0])


def failing_webhooks(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each tenant with deliveries after their last try, or without success for LATE."""
    cursor.execute(
        """
        SELECT tenant, count(*) AS n, min(ended_at) AS since, mode() WITHIN GROUP (ORDER BY error) AS error
        FROM failing_webhooks WHERE next_at IS NULL OR ended_at < clock_timestamp() - %s::interval
        GROUP BY tenant ORDER BY n DESC, tenant
        """,
        [LATE],
    )
    for row in cursor:
        sentence = f"{counted(row.n, 'message')} about ended jobs of {row.tenant} not delivered: {row.error}"
        values = {"tenant": row.tenant, "n": row.n, "error": row.error}
        command, everywhere = f"turno webhook list --tenant {row.tenant}", "turno webhook list"
        yield Trouble(
            sentence, row.since, command, "webhooks", values, row.tenant, everywhere=everywhere, page="/webhooks"
        )
