"""Publish an event from anywhere in an application, in its own transaction."""

from __future__ import annotations

from typing import Any

from turno.jobs.new_job import Published, payload_of
from turno.jobs.payload import check_event
from turno.store import host
from turno.wiring.enqueue import registry

__all__ = ["Published", "publish"]


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
    """Publish an event in the caller's own transaction, and with it one job for each type that is subscribed to it.

    `connection` is as for `enqueue`. The data is given by its fields, as a mapping or as a dataclass, and each
    subscriber's payload has to fit it. `key` says what the event is about: it is the concurrency key of subscribers
    that have such keys. Raises InvalidPayload naming the field, or NotEnqueued.
    """
    checked = check_event(registry().handlers, event, payload_of(data, fields))
    return Published(*host.publish(connection, tenant, event, checked, key=key, user=user))
