"""Statements that are one message to the server, and the verbs that fetch and complete the jobs of a batch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, LiteralString, NamedTuple, Self, TypeAlias
from uuid import UUID

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from turno.jobs.job import Claim
from turno.store.statements import qualified, raise_named
from turno.tracing import trace_id

# Parameters are $1, $2, … in the text: never part of it, as a text may end up in the server's log.
Statement: TypeAlias = tuple[LiteralString, Sequence[object]]
_FETCH: LiteralString = """
SELECT job_id, payload::text, user_id, correlation_id, trace_context, attempt, errors, max_attempts, checkpoint,
       expired, cancelled, now
FROM {}.jobs_fetch($1, $2)
"""


class Pipeline:
    """Collects statements, sends them, and holds their answers by the number that `add` returned.

    A refused statement stops the rest of its unit. Each unit is a transaction, unless BEGIN or COMMIT divide it.
    """

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self.session = session
        self._writer = Transformer(session)
        self._messages: list[tuple[Any, ...]] = []
        self._ends: list[int] = []  # of the units but the last
        self._answers: list[PGresult] = []

    def add(self, text: LiteralString, parameters: Sequence[object] = ()) -> int:
        """Add a statement; return the number of its answer."""
        values = self._writer.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
        self._messages.append((text.encode(), values, self._writer.types, self._writer.formats))
        return len(self) - 1

    def __len__(self) -> int:
        return len(self._messages)

    def end_unit(self) -> None:
        """Begin another unit."""
        self._ends.append(len(self))

    def send(self) -> None:
        """Send all statements and read their answers; raises psycopg.OperationalError if the session breaks."""
        pgconn = self.session.pgconn
        pgconn.enter_pipeline_mode()
        messages = iter(self._messages)
        for unit in self.units:
            for message in islice(messages, unit):
                pgconn.send_query_params(*message)
            pgconn.pipeline_sync()
        self._answers = self.session.wait(_answers(pgconn, self.units))
        pgconn.exit_pipeline_mode()

    @property
    def units(self) -> list[int]:
        """The number of statements in each unit."""
        ends = sorted({0, *self._ends, len(self)})
        return [end - begin for begin, end in pairwise(ends)]

    def raise_refusal(self, end: int | None = None) -> None:
        """Raise the first refusal before `end`: ClaimLost, HandlerMisuse or psycopg.Error."""
        for answer in self._answers[:end]:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise_named(error_from_result(answer, self.session.info.encoding))

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        """Return the rows of an answer."""
        reader = Transformer(self.session)
        reader.set_pgresult(self._answers[number])
        return reader.load_rows(0, self._answers[number].ntuples, tuple)

    def text(self, number: int) -> str:
        """Return the only value of an answer as the server's text, without the session's loaders."""
        value = self._answers[number].get_value(0, 0)
        assert value is not None, "the statement always has a value"  # noqa: S101
        return value.decode()


@dataclass(frozen=True, slots=True)
class Started:
    """A job at the begin of its attempt; `errors` were counted before."""

    payload: str  # JSON text, so that no number passes through a float
    user_id: str
    correlation_id: str | None
    trace_context: str | None
    attempt: int
    errors: int
    max_attempts: int
    checkpoint: Any
    expired: bool
    cancelled: bool

    @property
    def log_fields(self) -> dict[str, object]:
        """Return the ids of the request that enqueued the job, for lines of the log."""
        return {"correlation_id": self.correlation_id, "trace_id": trace_id(self.trace_context)}


@dataclass(frozen=True, slots=True)
class Result:
    """The record of a completed job: its result as JSON, and its start and end."""

    claim: Claim
    result: str
    began: datetime
    ended: datetime


class Fetched(NamedTuple):
    """The jobs that their tokens still hold, by id, and the database's time; None if there is no job."""

    jobs: dict[UUID, Started]
    now: datetime | None


class JobPipeline(Pipeline):
    """The verbs of a batch, sent together; the properties are their answers after `exchange` or `send`."""

    def __init__(self, session: psycopg.Connection[Any], schema: str) -> None:
        super().__init__(session)
        self._schema = schema
        self._fetching: int | None = None
        self._last = 0

    def fetch(self, claims: Sequence[Claim]) -> Self:
        """Read these jobs."""
        self._fetching = self.add(qualified(_FETCH, self._schema), keys(claims))
        return self

    def fetch_apart(self, claims: Sequence[Claim]) -> Self:
        """Read these jobs in a transaction of their own: the handler's would lock the tables that are read."""
        self.add("BEGIN")
        return self.fetch(claims).commit()

    def begin(self) -> Self:
        """Open a handler's transaction and read its start.

        No SQL can choose the start: it proves that a later statement of the executor is still in this transaction.
        """
        self.add("BEGIN")
        self._last = self.add("SELECT transaction_timestamp()")
        return self

    def finish(self, transaction: str, results: Sequence[Result], worker: str) -> Self:
        """Complete all of these jobs or none; raise HandlerMisuse in a transaction with another start.

        Without jobs it only checks the transaction.
        """
        parameters = (
            transaction,
            *keys([result.claim for result in results]),
            array(_quoted(result.result) for result in results),
            array(result.began.isoformat() for result in results),
            array(result.ended.isoformat() for result in results),
            worker,
        )
        self.add(qualified("SELECT {}.jobs_finish($1, $2, $3, $4, $5, $6, $7)", self._schema), parameters)
        return self

    def commit(self) -> Self:
        """Commit the handler's transaction."""
        self.add("COMMIT")
        return self

    def exchange(self) -> Self:
        """Send all statements; raise the first refusal."""
        self.send()
        self.raise_refusal()
        return self

    @property
    def fetched(self) -> Fetched | None:
        """The jobs of `fetch`; None if it was not called."""
        if self._fetching is None:
            return None
        started, now = {}, None
        for job_id, *row, now in self.rows(self._fetching):  # noqa: B007 - the last one's, as good as any
            started[job_id] = Started(*row)
        return Fetched(started, now)

    @property
    def started(self) -> str:
        """The start of the transaction of `begin`."""
        return self.text(self._last)


def _answers(pgconn: PGconn, units: Sequence[int]) -> PQGen[list[PGresult]]:
    yield from send(pgconn)
    answers: list[PGresult] = []
    for unit in units:
        for _ in range(unit):
            answers += yield from fetch_many(pgconn)
        yield from fetch_many(pgconn)  # the end of the unit
    return answers


def run_text(session: psycopg.Connection[Any], text: str) -> None:
    """Run statements without parameters as one message: a cursor takes 90 microseconds more. Raises psycopg.Error."""
    session.pgconn.send_query(text.encode())
    for answer in session.wait(_answers(session.pgconn, (1,))):
        if answer.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(answer, session.info.encoding)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def keys(claims: Sequence[Claim]) -> tuple[str, str]:
    """Return the ids and the tokens of these claims as two arrays in SQL."""
    return array(claim.job_id.hex for claim in claims), array(claim.token.hex for claim in claims)


def array(elements: Iterable[str]) -> str:
    """Return an array in SQL: psycopg takes some five microseconds for each element of a list."""
    return f"{{{','.join(elements)}}}"
