"""The values that the fields of filters suggest to an operator."""

from collections.abc import Collection, Iterable
from typing import Any

import psycopg

MOST_TENANTS, MOST_GROUPS = 200, 50

_VALUES = """
WITH groups AS MATERIALIZED (
    SELECT type, error, sum(open) AS open FROM failed_job_counts
    WHERE day >= current_date - 7 AND (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))
    GROUP BY type, error HAVING sum(open) > 0 ORDER BY open DESC LIMIT %(groups)s
)
(SELECT 'tenant', n.slug FROM tenants n JOIN companies c ON c.id = n.company_id
 WHERE n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
 ORDER BY n.slug LIMIT %(tenants)s)
UNION ALL (SELECT 'type', type FROM groups GROUP BY type ORDER BY type)
UNION ALL (SELECT 'error', error FROM groups GROUP BY error ORDER BY sum(open) DESC, error)
"""


def filter_values(
    operator: psycopg.Connection[Any], companies: Collection[str] | None, types: Iterable[str] = ()
) -> dict[str, list[str]]:
    """Return tenants of these companies, the `types`, and types and errors of the largest groups of failures."""
    given = {
        "companies": None if companies is None else list(companies),
        "tenants": MOST_TENANTS,
        "groups": MOST_GROUPS,
    }
    found: dict[str, list[str]] = {"tenant": [], "type": sorted(types), "error": []}
    for field, value in operator.execute(_VALUES, given):
        if value not in found[field]:
            found[field].append(value)
    return found
