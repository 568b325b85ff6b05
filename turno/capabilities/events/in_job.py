"""`job.publish`: publish an event in the transaction of an attempt, under the claim's token."""

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from turno.capabilities.events.data import check_event
from turno.jobs.job_context import JobContext
from turno.jobs.new_job import Published, payload_of
from turno.runner.context import attempt_of
from turno.store.statements import under_claim


def publish(job: JobContext, event: str, data: Any, fields: Mapping[str, Any], *, key: str | None) -> Published:
    """Publish an event with the work of an attempt; raises ClaimLost, and PermanentFailure within a request."""
    attempt = attempt_of(job, f"the event {event}")
    checked, claim = check_event(attempt.registry.handlers, event, payload_of(data, fields)), attempt.claim
    return Published(*under_claim(attempt.connection, claim, "event_publish_child", event, key, Jsonb(checked)))
