"""The branches of a consolidated report's company, read over a session of the company's report login."""

from collections.abc import Mapping
from typing import LiteralString

import psycopg

from turno.errors import HandlerMisuse
from turno.runner.session import HandlerConnection, Sessions
from turno.tenancy.identity.foreign_functions import foreign_functions
from turno.tenancy.identity.tenant import CompanyLogin

# The functions of a policy would run with the rights on all branches: PostgreSQL refuses a table with policies instead.
NO_POLICIES: LiteralString = "SET row_security = off"
# All branches as of one moment; the role has no right to write.
SNAPSHOT: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class CompanyReading:
    """A job's view of its company; implements `turno.jobs.job_context.Company`.

    The session ends with the attempt: another company's job may come next to this process.
    """

    def __init__(self, company: CompanyLogin, sessions: Sessions) -> None:
        self._company = company
        self._sessions = sessions
        self._session: HandlerConnection | None = None

    @property
    def branches(self) -> Mapping[str, str]:
        """The branches' schemas, by slug."""
        return self._company.branches

    @property
    def connection(self) -> HandlerConnection:
        """The session, opened at the first use; raises LoginRefused, or HandlerMisuse where a view calls a function."""
        if self._session is None:
            session = self._sessions.take(self._company.login)
            try:
                session.execute(NO_POLICIES)
                self._refuse_calls(session)
                session.execute(SNAPSHOT)
            except (psycopg.Error, HandlerMisuse):
                psycopg.Connection.close(session)
                raise
            self._session = session
        return self._session

    def _refuse_calls(self, session: HandlerConnection) -> None:
        """Refuse a view of an adopted schema if its function would run with the rights on all branches."""
        for kind, name, function in foreign_functions(session, list(self.branches.values())):
            if kind == "view":
                raise HandlerMisuse(
                    f"the view {name} calls {function}, which would run with the report's rights on all branches:"
                    " remove the call, or give the function to a superuser who trusts it"
                )

    def close(self) -> None:
        """End the session, if there was one; the next use sees a later moment."""
        if self._session is not None:
            psycopg.Connection.close(self._session)
            self._session = None
