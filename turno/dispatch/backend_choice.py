"""Choose the backend of each new job by the settings of the moment, and keep one open queue for each backend."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

import psycopg

from turno.queues.interface import QueueInterface
from turno.store.operator.routing import backend_for
from turno.tenancy.identity.tenant import Tenant

WebConnection = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]


class BackendChoice:
    """Maps a tenant to a queue. A tenant's backend is cached for `ttl` seconds; safe to share between threads.

    A job stamped for the old backend just after a change is not lost: maintenance moves jobs that no worker serves.
    """

    def __init__(
        self,
        *,
        connection: WebConnection,
        default: str,
        open_queue: Callable[[str], QueueInterface],
        ttl: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._default = default
        self._open_queue = open_queue
        self._ttl = ttl
        self._clock = clock
        self._lock = Lock()
        self._cached: dict[int, tuple[float, str]] = {}
        self._queues: dict[str, QueueInterface] = {}

    def queue_of(self, tenant: Tenant) -> QueueInterface:
        """Return the queue that a new job of this tenant is stamped for and offered to."""
        now = self._clock()
        until, name = self._cached.get(tenant.id, (now, ""))
        if now >= until:
            with self._connection() as connection:
                name = backend_for(connection, tenant.id, self._default)
            self._cached[tenant.id] = (now + self._ttl, name)
        with self._lock:
            if name not in self._queues:
                self._queues[name] = self._open_queue(name)
            return self._queues[name]
