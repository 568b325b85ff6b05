"""Publish an event with the work of an attempt, as the tenant's handler role and under the claim's token."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turno.jobs.claim import Claim
from turno.jobs.new_job import Published
from turno.store.one_row import row_of
from turno.store.qualified import qualified
from turno.store.refusals import named_refusals


def publish(session: psycopg.Connection[Any], claim: Claim, event: str, data: Any, *, key: str | None) -> Published:
    """Publish it, and make a job for each type that is subscribed; raises ClaimLost."""
    statement = qualified("SELECT event_id, jobs FROM {}.event_publish_child(%s, %s, %s, %s, %s)", claim.login.schema)
    with named_refusals():
        return Published(
            *row_of(session, statement, (claim.job_id, claim.token, event, key, Jsonb(data)), prepare=False)
        )
