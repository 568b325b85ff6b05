"""The check of templates for `turno status`, `turno doctor`, alerts and the operators' first page."""

from collections.abc import Iterator
from typing import Any

import psycopg

from turno.store.operator.troubles import Trouble


def copies_with_problem(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each template with copies that left moments out."""
    cursor.execute(
        """
        SELECT l.name, count(*) AS copies, min(l.decided_at) AS since,
               (array_agg(l.slug || ': ' || l.problem ORDER BY l.slug))[1] AS first
        FROM template_copies_listed l
        WHERE l.problem IS NOT NULL AND l.paused_at IS NULL AND l.tenant_paused_at IS NULL
        GROUP BY l.name ORDER BY l.name
        """
    )
    for one in cursor:
        sentence = f"the template {one.name} left moments out in {one.copies} tenants; {one.first}"
        values = {"template": one.name, "n": one.copies}
        yield Trouble(sentence, one.since, f"turno template show {one.name}", "templates", values)
