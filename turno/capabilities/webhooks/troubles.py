"""The check of webhooks for `turno status`, `turno doctor`, alerts and the operators' first page."""

from collections.abc import Iterator
from typing import Any

import psycopg

from turno.store.operator.troubles import Trouble


def failing_webhooks(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each tenant with deliveries after their last try."""
    cursor.execute(
        "SELECT tenant, count(*) AS n FROM failing_webhooks WHERE next_at IS NULL"
        " GROUP BY tenant ORDER BY n DESC, tenant"
    )
    for one in cursor:
        what = f"{one.n} webhooks or mails of {one.tenant} were given up after their last try"
        command = f"turno webhook list --tenant {one.tenant}"
        yield Trouble(what, None, command, "webhooks", {"tenant": one.tenant, "n": one.n}, one.tenant)
