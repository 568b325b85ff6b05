"""The statements by which the jobs of a batch, all of one tenant, are fetched and completed together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple, Self
from uuid import UUID

import psycopg

from turno.jobs.claim import Claim
from turno.store.handler.attempts import Started
from turno.store.one_row import value_of
from turno.store.pipeline import Pipeline
from turno.store.qualified import qualified
from turno.store.refusals import named_refusals

Session = psycopg.Connection[Any]

_FETCH: LiteralString = """
SELECT job_id, payload::text, user_id, correlation_id, trace_context, attempt, errors, max_attempts, checkpoint,
       expired, cancelled, now
FROM {}.jobs_fetch($1, $2)
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What is written of a job that was completed: its result as JSON, and when it was begun and over."""

    claim: Claim
    result: str
    began: datetime
    ended: datetime


class Fetched(NamedTuple):
    """The jobs whose claims are held, by their ids, and the database's time; None if there is no job."""

    jobs: dict[UUID, Started]
    now: datetime | None


class JobPipeline(Pipeline):
    """The verbs of a batch, sent together; the properties are their answers after `exchange` or `send`."""

    def __init__(self, session: Session, schema: str) -> None:
        super().__init__(session)
        self._schema = schema
        self._fetching: int | None = None
        self._last = 0

    def fetch(self, claims: Sequence[Claim]) -> Self:
        """Read these jobs."""
        self._fetching = self.add(qualified(_FETCH, self._schema), _keys(claims))
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

    def prove(self, transaction: str) -> Self:
        """Raise HandlerMisuse in any transaction but the one with this start."""
        self.add(qualified("SELECT {}.assert_transaction($1)", self._schema), (transaction,))
        return self

    def finish(self, transaction: str, results: Sequence[Result], worker: str) -> Self:
        """Complete all of these jobs or none, in the transaction with this start only."""
        asked = (
            transaction,
            *_keys([one.claim for one in results]),
            _array(_quoted(one.result) for one in results),
            _array(one.began.isoformat() for one in results),
            _array(one.ended.isoformat() for one in results),
            worker,
        )
        self.add(qualified("SELECT {}.jobs_finish($1, $2, $3, $4, $5, $6, $7)", self._schema), asked)
        return self

    def commit(self) -> Self:
        """Commit the handler's transaction."""
        self.add("COMMIT")
        return self

    def exchange(self) -> Self:
        """Send all statements; raise what refuses any of them: ClaimLost, HandlerMisuse, psycopg.Error."""
        self.send()
        with named_refusals():
            self.raise_refusal()
        return self

    @property
    def fetched(self) -> Fetched | None:
        """The jobs of `fetch`; None if it was not called."""
        if self._fetching is None:
            return None
        found, now = {}, None
        for job_id, *row, now in self.rows(self._fetching):  # noqa: B007 - the last one's, as good as any
            found[job_id] = Started(*row)
        return Fetched(found, now)

    @property
    def started(self) -> str:
        """The start of the transaction of `begin`."""
        return self.text(self._last)


def held(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs whose claims are still held, by the tokens; waits for a commit that is under way."""
    if not claims:
        return set()
    return set(value_of(session, qualified("SELECT {}.jobs_held(%s, %s)", claims[0].login.schema), *_keys(claims)))


def lost(session: Session, claims: Sequence[Claim]) -> None:
    """Count attempts that lost their claims, as far as no end of theirs is on record."""
    session.execute(qualified("SELECT {}.claims_lost(%s, %s)", claims[0].login.schema), _keys(claims))


def _keys(claims: Sequence[Claim]) -> tuple[str, str]:
    return _array(claim.job_id.hex for claim in claims), _array(claim.token.hex for claim in claims)


def _array(elements: Iterable[str]) -> str:
    # As PostgreSQL reads it: to write a list as an array takes psycopg some five microseconds for each element.
    return f"{{{','.join(elements)}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
