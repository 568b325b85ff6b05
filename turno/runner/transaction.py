"""The session and the transaction that the jobs of a batch share, one after another."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from turno.errors import HandlerMisuse, NotStarted
from turno.jobs.job import Batch, Claim
from turno.runner.session import HandlerConnection, Sessions, transient
from turno.runner.shared_state import SharedState
from turno.store.handler import attempts
from turno.store.handler.pipeline import JobPipeline, Result, Started, run_text
from turno.store.outage import in_short, unreachable
from turno.tenancy.identity.session import NotConfined

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T")
LONG_AGO = 0.0  # by the monotonic clock
NO_TRANSACTION = "the call of job.once must not use the database: no transaction is open around it"
FETCH_BELIEVED_SECONDS = 0.02  # after a fetch, within which its other jobs begin without another fetch
ENDED = "the handler ended the job's transaction itself; leave commit and rollback to the executor"
LEFT_OPEN = "the handler has left a COPY or a pipeline open; close it before returning"
REFUSED = "a commit of this job was refused, so its session is closed to the handler; let that error pass"
# SQLSTATEs of NEXT in a transaction that is not the executor's.
NOT_OURS = {"22012", "3B001", "25P01"}
# Sent before the statements of a later job. The division by zero reports a transaction that the executor did not
# begin: SQL cannot choose when a transaction starts. RESET ALL, CLOSE ALL and DEALLOCATE ALL remove settings, cursors
# and prepared statements of the job before. The server refuses to make a read-only transaction writable again.
NEXT = (
    "RESET ALL; SELECT 1 / (transaction_timestamp() = '{started}'::timestamptz)::integer;"
    " SAVEPOINT {savepoint}; SET LOCAL transaction_read_only = off; CLOSE ALL; DEALLOCATE ALL"
)


class BatchTransaction:
    """Holds the work of completed jobs until it commits together with their ends; undoes the work of other jobs.

    `claim` is the present job's, `started_jobs` are the jobs that were fetched with the transaction, `kept` the ends
    of its completed jobs. `opened` is the monotonic time of its begin, None without a transaction.
    """

    def __init__(self, batch: Batch, sessions: Sessions, shared: SharedState, worker: str) -> None:
        self._login = batch[0].login
        self._sessions = sessions
        self._session = sessions.take(self._login)
        self._lent = False  # whether the present job has had the session
        self.claim = batch[0]
        self.started_jobs: Mapping[UUID, Started] = {}
        self.kept: list[Result] = []
        self.opened: float | None = None
        self.commits = 0
        self.broken: Exception | None = None  # prevents the commit of the kept jobs; not caused by the present job
        self._refused: BaseException | None = None  # the error of a refused commit of the present job
        self.worker = worker
        self._shared = shared
        self._fetched = 0.0  # monotonic time of the last fetch
        self._entered = 0.0  # monotonic time of the present job's begin
        self._recorded = False  # whether the present attempt has its row
        self._written = 0  # how many of `kept` have their ends in the transaction
        self._first = self.claim  # the job that the transaction was opened for
        self._started = ""  # the transaction's start on the server
        self._savepoint = ""  # the savepoint of the last job that had the session, unless the transaction began with it
        self._clock = (datetime.now(UTC), monotonic())  # the database's time, and the monotonic time of reading it

    def at(self, moment: float) -> datetime:
        """Convert a moment of the monotonic clock to the database's clock."""
        read, then = self._clock
        return read + timedelta(seconds=moment - then)

    # The session, which each job has as another object ------------------------------------------

    @property
    def connection(self) -> HandlerConnection:
        """The session, lent to the present job; at its first use, a later job of the transaction sets a savepoint."""
        if not self._lent:
            self._lent, self._session.cleaned = True, None
            if self.claim != self._first:
                self._set_savepoint()
        return self._session

    def _set_savepoint(self) -> None:
        release = f"RELEASE SAVEPOINT {self._savepoint}; " if self._savepoint else ""
        self._savepoint = f"job_{token_hex(8)}"  # a name that no handler chooses by accident
        self._session.raise_refusal()
        try:
            run_text(self._session, release + NEXT.format(started=self._started, savepoint=self._savepoint))
        except psycopg.Error as error:
            self.broken = HandlerMisuse(ENDED) if error.sqlstate in NOT_OURS else error
            self._session.refusal = REFUSED
            raise

    @contextmanager
    def no_transaction(self) -> Iterator[None]:
        """Keep the session from being used within the block, in which no transaction is open."""
        session = self._session
        session.refusal = NO_TRANSACTION
        try:
            yield
        finally:
            if session.refusal is NO_TRANSACTION:
                session.refusal = None

    def rollback(self) -> None:
        """Undo everything since the transaction began; a session that cannot even do that is replaced."""
        self._session.refusal = None
        healthy = not self._session.busy
        if healthy:
            try:
                psycopg.Connection.rollback(self._session)
                healthy = self._session.info.transaction_status == TransactionStatus.IDLE
            except psycopg.Error:
                healthy = False
        if not healthy:
            self._replace()
        self.broken = self._refused = None
        self._over()

    def take_over(self) -> None:
        """Undo all work, including the kept jobs; no setting, mode or adapter of a handler remains for the record."""
        self.rollback()
        self.kept, self._written = [], 0
        self._session, self._lent = self._session.rewrapped(), False
        try:
            self._session.clean()
        except psycopg.Error:
            self._replace()
        self._session.cleaned = None  # it is not given back yet

    def retry_on_new_session(self, write: Callable[[HandlerConnection], T]) -> T:
        """Call a write that is not in a handler's transaction; if the session turns out dead, once more on another.

        If the first was written and only its reply was lost, the token refuses the second: ClaimLost.
        """
        self._session.cleaned = None
        try:
            return write(self._session)
        except psycopg.OperationalError:
            if not self._session.broken:
                raise
            self.take_over()
            return write(self._session)

    def close(self) -> None:
        """Give the session back to the cache."""
        self._sessions.give_back(self._login, self._session)

    def _take_back(self) -> None:
        """Make a new object for the session, if the present job has had the old one: its handler may have kept that."""
        if self._lent:
            self._session, self._lent = self._session.rewrapped(), False

    def _replace(self) -> None:
        psycopg.Connection.close(self._session)
        self._session, self._lent = self._sessions.take(self._login), False

    # One transaction, from its fetch to its commit ---------------------------------------------

    def fetch(self, claims: Batch) -> None:
        """Open it and read these jobs; raises NotStarted if a lock, or a lack of resources, prevents that now."""
        try:
            self._begun(
                claims, self.retry_on_new_session(lambda _: self._pipeline().fetch_apart(claims).begin().exchange())
            )
        except psycopg.Error as error:
            self.rollback()
            if unreachable(error) or not transient(error):
                raise
            raise NotStarted(f"nothing was begun, so it can be tried later: {in_short(error)}") from error

    def enter(self, number: int) -> Started | None:
        """Begin the present job, `claim`; None if its claim was lost."""
        self._take_back()  # the job before may have kept or changed the connection object
        self._shared.works(number)
        self._entered, self._recorded = monotonic(), False
        return self.started_jobs.get(self.claim.job_id)

    def keep(self, result: str, began: float) -> None:
        """Keep the present job's work; raises the error of the job's commit if the transaction is not sound."""
        if self._refused is not None:
            raise self._refused
        if self._session.busy:
            raise HandlerMisuse(LEFT_OPEN)
        match self._session.info.transaction_status:
            case TransactionStatus.INERROR:
                raise psycopg.errors.InFailedSqlTransaction("an error of the database's was caught and passed over")
            case TransactionStatus.IDLE:
                raise HandlerMisuse(ENDED)
        self.kept.append(Result(self.claim, result, self.at(began), self.at(monotonic())))

    def write_ends(self) -> None:
        """Write the ends of the kept jobs: no statement of a later job then separates the work and the end of a job."""
        self._take_back()
        self._ending().exchange()
        self._written = len(self.kept)

    @property
    def unwritten(self) -> set[Claim]:
        """The kept jobs without a written end in the transaction."""
        return {job.claim for job in self.kept[self._written :]}

    def undo(self) -> Exception | None:
        """Undo the present job's work; returns the error by which the kept jobs are lost, too, or None."""
        if not self.kept:
            self.take_over()
            return None
        if not self._lent:  # it has sent nothing
            return None
        try:
            if self._session.busy:
                raise psycopg.InterfaceError(LEFT_OPEN)
            self._session.execute(f"ROLLBACK TO SAVEPOINT {self._savepoint}".encode(), prepare=False)
        except (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction):
            return HandlerMisuse(ENDED)
        except psycopg.Error as error:
            return error
        return None

    def finish(self, following: Batch = ()) -> None:
        """Commit the kept jobs with their ends, clean the session, and fetch the following jobs, in one message.

        A session without a statement of a job is clean; recently fetched jobs are not fetched again.
        Raises ClaimLost, HandlerMisuse or psycopg.Error if the ends or the commit are refused.
        """
        self._take_back()  # before that: a handler that kept the object must not reach the session in between
        session, pipeline = self._session, self._ending().commit()
        if session.cleaned is None:  # otherwise one unit: the server answers once, and this process wakes up once
            for statement in session.cleaning:
                pipeline.add(*statement)
            pipeline.end_unit()
        ended = len(pipeline)
        if following:
            if following[0].job_id not in self.started_jobs or monotonic() - self._fetched >= FETCH_BELIEVED_SECONDS:
                pipeline.fetch_apart(following)
            pipeline.begin()
        pipeline.send()
        pipeline.raise_refusal(ended)
        self._committed()
        if session.cleaned is None:
            (session.cleaned,) = pipeline.rows(ended - 1)
        if following:
            try:
                session.believe_confined(self._login.role)
                pipeline.raise_refusal()
                self._begun(following, pipeline)
            except (psycopg.Error, NotConfined):
                self._replace()
                self.fetch(following)

    # A job that commits during its work ---------------------------------------------------------

    def alone(self) -> None:
        """Commit the kept jobs: the present job is about to commit, and may take long.

        If the present job has had the session, a commit now would lack its record: its first commit then includes the
        kept jobs.
        """
        if self.kept and not self._lent:
            with self._guarded():
                self._commit(go_on=True)

    def prove(self) -> None:
        """Raise HandlerMisuse if the handler has ended the transaction: then no record may be written."""
        self.connection.raise_refusal()
        JobPipeline(self.connection, self._login.schema).finish(self._started, (), self.worker).exchange()

    def begin(self) -> None:
        """Open the present job's own transaction."""
        self._open(self._pipeline().begin().exchange(), self.claim, LONG_AGO)

    def commit(self, ending: Callable[[HandlerConnection], object] | None = None, *, go_on: bool = False) -> None:
        """Commit the work since `begin` together with the kept jobs.

        The first commit brings the attempt's row: no work is visible of a job that is not shown as running. `ending`
        ends the present job's attempt in the same transaction; with `go_on` the same message opens the next one. After
        a refusal the handler can send nothing more: it would run outside any transaction.
        """
        if self._session._num_transactions:  # noqa: SLF001 - psycopg itself reads it before a commit
            raise HandlerMisuse("nothing can be committed inside `with connection.transaction()`")
        with self._guarded():
            if not self._recorded:
                attempts.start(self._session, self.claim, self.worker, self.at(self._entered))
            if ending is not None:
                ending(self._session)
            self._commit(go_on=go_on)
            self._recorded = True

    # ---------------------------------------------------------------------------------------------

    def _pipeline(self) -> JobPipeline:
        return JobPipeline(self._session, self._login.schema)

    def _ending(self) -> JobPipeline:
        """Return a message that writes the ends, and so refuses a commit of another transaction than the executor's."""
        return self._pipeline().finish(self._started, self.kept[self._written :], self.worker)

    def _begun(self, claims: Batch, pipeline: JobPipeline) -> None:
        self._open(pipeline, claims[0], monotonic())
        if (fetched := pipeline.fetched) is not None:
            self.started_jobs, now = fetched
            self._fetched = self.opened or 0.0
            if now is not None:
                self._clock = (now, self._fetched)

    def _open(self, pipeline: JobPipeline, first: Claim, opened: float) -> None:
        """Note the begin of a transaction; with `opened` long ago, no other job joins it."""
        self.opened, self._first, self._savepoint = opened, first, ""
        self._started = pipeline.started
        self._shared.transaction_begins(self._session.info.backend_pid)

    def _commit(self, *, go_on: bool) -> None:
        """Commit the kept jobs and the present job's work; with `go_on` the same message opens the next transaction."""
        pipeline = self._ending().commit()
        (pipeline.begin() if go_on else pipeline).exchange()
        self._committed()
        if go_on:
            self._open(pipeline, self.claim, LONG_AGO)

    def _committed(self) -> None:
        self.kept, self._written = [], 0
        self.commits += 1
        self._over()

    def _over(self) -> None:
        self.opened = None
        self._shared.transaction_ends()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Close the session to the handler if the commit within the block is refused."""
        try:
            yield
        except BaseException as error:
            self._session.refusal, self._refused = REFUSED, error
            if self.kept and isinstance(error, Exception):
                self.broken = error
            raise
