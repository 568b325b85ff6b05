"""What a consolidated report reads: its company's branches, over a session of the company's report login."""

from collections.abc import Mapping
from typing import LiteralString

import psycopg

from turno.runner.session import HandlerConnection, SessionSource
from turno.tenancy.identity.tenant import CompanyLogin

# All branches as of one moment; the role has no right to write.
SNAPSHOT: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class CompanyReading:
    """A job's view of its company; implements `turno.jobs.job_context.Company`.

    The session ends with the attempt: another company's job may come next to this process.
    """

    def __init__(self, company: CompanyLogin, sessions: SessionSource) -> None:
        self._company = company
        self._sessions = sessions
        self._session: HandlerConnection | None = None

    @property
    def branches(self) -> Mapping[str, str]:
        """The branches' schemas, by slug."""
        return self._company.branches

    @property
    def connection(self) -> HandlerConnection:
        """The session, opened when first asked for; raises LoginRefused."""
        if self._session is None:
            session = self._sessions.take(self._company.login)
            try:
                session.execute(SNAPSHOT)
            except psycopg.Error:
                psycopg.Connection.close(session)
                raise
            self._session = session
        return self._session

    def close(self) -> None:
        """End the session, if there was one; the next use sees a later moment."""
        if self._session is not None:
            psycopg.Connection.close(self._session)
            self._session = None
