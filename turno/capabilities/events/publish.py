"""`turno.publish`: publish an event on a connection of the application, in its transaction."""

from typing import Any, LiteralString

from turno.capabilities.events.data import check_event
from turno.jobs.new_job import Published, payload_of
from turno.store.host import Request, as_text, as_uuid
from turno.wiring.enqueue import registry

STATEMENT: LiteralString = """
SELECT event_id, jobs FROM turno.publish(tenant => %s, event => %s, data => CAST(%s AS jsonb), key => %s, user_id => %s)
"""


def publish(
    connection: Any,
    tenant: str,
    event: str,
    data: Any = None,
    /,
    *,
    key: str | None = None,
    user: str | None = None,
    **fields: Any,
) -> Published:
    """Publish an event in the caller's transaction, with one job for each type that subscribes to the event.

    `connection` is as for `enqueue`. The data is a mapping, a dataclass, or given by its fields, and must be a valid
    payload of each subscriber. `key` names the subject of the event and is the concurrency key of subscribers that have
    concurrency keys. Raises InvalidPayload with the field, or NotEnqueued.
    """
    checked = check_event(registry().handlers, event, payload_of(data, fields))
    parameters = (tenant, event, as_text(checked), key, user)
    request = Request(STATEMENT, parameters, lambda rows: Published(as_uuid(rows[0][0]), rows[0][1]))
    return request.send(connection)
