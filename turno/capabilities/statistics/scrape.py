"""Read all numbers of a scrape from the database."""

from datetime import timedelta
from os import getpid
from typing import Any

import psycopg

from turno.capabilities.statistics import present, totals
from turno.capabilities.statistics.families import Numbers
from turno.store.engine.workers import unserved
from turno.store.operator.fairness import shares
from turno.store.operator.outcome_counts import counted_until
from turno.store.operator.server import dead_tuples, server
from turno.store.operator.troubles import UNSERVED_FOR

WITHIN = "SET LOCAL statement_timeout = 5000"  # milliseconds: the monitoring system stops waiting


def scrape(operator: psycopg.Connection[Any], *, dead_after: timedelta, streams: int, tenants: bool) -> Numbers:
    """Return the current numbers, per tenant too if `tenants`."""
    with operator.transaction():
        operator.execute(WITHIN)
        return Numbers(
            totals=totals.by_type(operator),
            queues=present.queued(operator),
            workers=present.served(operator, dead_after),
            unserved=unserved(operator, UNSERVED_FOR),
            server=server(operator),
            dead_tuples=dead_tuples(operator),
            fairness=evenness(operator),
            counted_at=counted_until(operator),
            streams=streams,
            process=getpid(),
            tenants=totals.by_tenant(operator) if tenants else (),
            tenant_queues=present.queued(operator, tenants=True) if tenants else (),
            shares=shares(operator) if tenants else (),
        )


def evenness(operator: psycopg.Connection[Any]) -> float:
    """Return Jain's index of the shares over the fair shares: 1 if all are served alike, 1/n if one of n has all.

    Tenants without waiting jobs are left out.
    """
    row = operator.execute(
        """
        WITH recent AS (
            SELECT scope AS tenant_id, sum(run_ms)::float8 AS run_ms FROM statistics
            WHERE scope > 0 AND minute > now() - interval '15 minutes' GROUP BY scope
        ), served AS (
            SELECT coalesce(r.run_ms, 0) / n.weight AS ratio
            FROM waiting_tenants w JOIN tenants n ON n.id = w.tenant_id LEFT JOIN recent r ON r.tenant_id = w.tenant_id
        )
        SELECT coalesce(sum(ratio) ^ 2 / nullif(count(*) * sum(ratio ^ 2), 0), 1) FROM served
        """
    ).fetchone()
    assert row is not None  # noqa: S101 - an aggregate returns a row
    return float(row[0])
