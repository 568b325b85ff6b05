"""The session of a job as an asynchronous handler uses it."""

from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

from turno.errors import HandlerMisuse
from turno.runner.session import HandlerConnection

RV = TypeVar("RV")
IN_USE = "a task of this handler is using the session: await it first"


class AsyncHandlerConnection(psycopg.AsyncConnection[TupleRow]):
    """The session inside its job's transaction, for `await`, with the same refusals."""

    def __init__(self, session: HandlerConnection) -> None:
        super().__init__(session.pgconn)
        self.session = session
        self._autocommit = True  # its setter would refuse where a transaction is open
        self._pool = None  # so that psycopg does not warn: the session is not left open, its executor has it
        self.prepare_threshold = None  # the other object would give its statements the same names

    async def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement as the session does; raises HandlerMisuse while this is refused."""
        session = self.session
        if session.refusal is not None:
            gen.close()
            raise HandlerMisuse(session.refusal)
        session.refusal = IN_USE  # for uses of the other object in the meantime; this object waits for its own lock
        try:
            if (savepoint := session.savepoint()) is not None:
                session.savepoint_set(await super().wait(savepoint))
            return await super().wait(gen, *arguments, **options)
        finally:
            if session.refusal is IN_USE:
                session.refusal = None

    async def commit(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.commit()

    async def rollback(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.rollback()

    async def close(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.close()
