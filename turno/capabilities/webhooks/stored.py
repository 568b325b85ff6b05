"""The addresses that operators have told of jobs' ends, and what nobody took."""

from collections.abc import Collection, Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from turno.store.operator.acts import speak_for

Operator = psycopg.Connection[Any]
Row = dict[str, Any]


def list_addresses(operator: Operator, *, companies: Collection[str] | None = None) -> list[Row]:
    """Return the addresses, without their paths, which may be secret; with `companies` those of their tenants alone."""
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
    """Have an address told of every end from now on, of this tenant and type alone if named; returns its number.

    Asked for twice it is the same one. None if there is no such tenant.
    """
    with operator.transaction():
        speak_for(operator, by)
        given = {"url": url, "tenant": tenant, "type": job_type}
        if tenant is not None:
            found = operator.execute("SELECT FROM tenants WHERE slug = %(tenant)s AND state = 'active'", given)
            if not found.rowcount:
                return None
        operator.execute(
            """
            INSERT INTO webhook_addresses (tenant_id, type, url)
            VALUES ((SELECT id FROM tenants WHERE slug = %(tenant)s AND state = 'active'), %(type)s, %(url)s)
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
    """Tell it no more, not even of ends that it was to be told of; False if there is none."""
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
    """Return what was not taken at the last try, the oldest first, behind `after`.

    Each has id, tenant, job_id, url without its path, address_id if it is an operator's, attempts, error, and next_at;
    without that it is tried no more.
    """
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT id, tenant, job_id, url, address_id, attempts, error, next_at FROM failing_webhooks
            WHERE id > %(after)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
              AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
            ORDER BY id LIMIT %(limit)s
            """,
            {
                "companies": None if companies is None else list(companies),
                "tenant": tenant,
                "after": after,
                "limit": limit,
            },
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
    """Try what was not taken `again`, at once and from the first try on, or never again; returns how many.

    Of this tenant, or these, alone if named.
    """
    with operator.transaction():
        speak_for(operator, by)
        given = (again, tenant, None if ids is None else list(ids), None if companies is None else list(companies))
        row = operator.execute("SELECT webhooks_settle(%s, %s, %s::bigint[], %s::text[])", given).fetchone()
    assert row is not None  # noqa: S101 - a function's row
    return int(row[0])
