"""The live changes of a web process: its streams and its waiting requests, from two sessions of the database."""

import atexit
from uuid import UUID

from flask import Response

from turno.capabilities.streams.awaited_end import await_end
from turno.capabilities.streams.hub import Hub
from turno.capabilities.streams.stream_events import StreamEvents
from turno.jobs.handler import named_handlers
from turno.jobs.redaction import Redaction
from turno.settings import Settings
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import SERVICE_TIMEOUTS, assert_pinned
from turno.web.routes import Call
from turno.web.services import WaitQuery

# Milliseconds. One session reads for all streams of a process: a tenant with locked tables must not delay it.
HUB_TIMEOUTS = SERVICE_TIMEOUTS | {"lock_timeout": "200", "statement_timeout": "2000"}
HUB_ANSWERS_WITHIN = 5.0  # seconds


class LiveStreams(Hub):
    """Implements `turno.web.services:Live`."""

    def await_end(self, call: Call, query: WaitQuery, job_id: UUID, answer: Response) -> Response:
        """Return the answer that the caller waits for; at once if the job has ended or no place is free."""
        return await_end(self, call, query, job_id, answer)


def live_streams(settings: Settings, logins: Logins, root: str) -> LiveStreams:
    """Return the live changes of this process; links in streams start with `root`."""
    conninfo = logins.conninfo(
        logins.web, search_path="turno,pg_temp", application="turno-watch", timeouts=HUB_TIMEOUTS
    )

    def connect() -> TimeoutConnection:
        connection = TimeoutConnection.connect(conninfo, autocommit=True, connect_timeout=3)
        connection.answer_within = HUB_ANSWERS_WITHIN
        assert_pinned(connection, logins.web)
        return connection

    live = LiveStreams(
        connect=connect,
        render=StreamEvents(root, Redaction(settings.redact, named_handlers(settings.handlers).handlers)),
        most=settings.limits.streams,
        most_per_tenant=settings.limits.streams_per_tenant or max(1, settings.limits.streams // 2),
        most_per_user=settings.limits.streams_per_user,
    )
    atexit.register(live.stop)
    return live
