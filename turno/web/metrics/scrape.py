"""Read all numbers of a scrape from the database, which every web process shares."""

from datetime import timedelta
from os import getpid
from typing import Any

import psycopg

from turno.store.engine.workers import unserved
from turno.store.operator import present, totals
from turno.store.operator.fairness import evenness, shares
from turno.store.operator.server import dead_tuples, server
from turno.store.operator.troubles import UNSERVED_FOR
from turno.web.metrics.families import Numbers

WITHIN = "SET LOCAL statement_timeout = 5000"  # milliseconds: a scrape that is late is not waited for


def scrape(operator: psycopg.Connection[Any], *, dead_after: timedelta, streams: int, tenants: bool) -> Numbers:
    """Return the numbers of this moment, with those of each tenant if `tenants`."""
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
            counted_at=totals.counted_at(operator),
            streams=streams,
            process=getpid(),
            tenants=totals.by_tenant(operator) if tenants else (),
            tenant_queues=present.queued(operator, tenants=True) if tenants else (),
            shares=shares(operator) if tenants else (),
        )
