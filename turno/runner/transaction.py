"""The transaction that the jobs of a batch share, one after another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from turno.errors import HandlerMisuse, NotStarted
from turno.jobs.claim import Batch
from turno.runner.lent_session import LentSession
from turno.runner.session import HandlerConnection, SessionSource, transient
from turno.runner.shared_state import SharedState
from turno.store.handler import attempts, batches
from turno.store.handler.attempts import BEGIN, COMMIT, Started
from turno.store.handler.batches import Result
from turno.store.outage import in_short, unreachable
from turno.store.pipeline import Statement, raise_first_error, rows_of, run_pipeline
from turno.store.refusals import named_refusals
from turno.tenancy.identity.session import NotConfined, believe_confined

if TYPE_CHECKING:
    from uuid import UUID

FETCH_BELIEVED_SECONDS = 0.02  # after a fetch, in which its other jobs are begun without another one
ENDED = "the handler ended the job's transaction itself; leave commit and rollback to the executor"
LEFT_OPEN = "the handler has left a COPY or a pipeline open; close it before returning"
# By which the savepoint of a job is refused in a transaction that is not the executor's.
NOT_OURS = {"22012", "3B001", "25P01"}
# Only where the mark is still the one before, else by zero: whoever ended the transaction behind our back is found out.
# What that job has left in the session would meet this one's: settings, cursors, and names of prepared statements. A
# transaction that its first job made read-only cannot be made another, which is refused.
NEXT = (
    "SELECT 1 / (current_setting('turno.attempt', true) IS NOT DISTINCT FROM '{}')::integer;"
    " SAVEPOINT job; SET LOCAL transaction_read_only = off; CLOSE ALL; DEALLOCATE ALL; RESET ALL;"
    " SELECT set_config('turno.attempt', '{}', true)"
)


class BatchTransaction(LentSession):
    """Holds the work of jobs that completed until it commits together with their ends; undoes that of any other.

    `claim` is the present job's, `found` are the jobs that were fetched with the transaction, and `kept` the ends that
    wait for its commit. `opened` is when it was, by the monotonic clock, None while there is none.
    """

    def __init__(self, batch: Batch, sessions: SessionSource, shared: SharedState, worker: str) -> None:
        super().__init__(batch[0].login, sessions)
        self.claim = batch[0]
        self.found: Mapping[UUID, Started] = {}
        self.kept: list[Result] = []
        self.opened: float | None = None
        self.commits = 0
        self._broken: Exception | None = None
        self.worker = worker
        self._shared = shared
        self._fetched = 0.0  # when, by the monotonic clock
        self._entered = 0.0  # when the present job was, by the same
        self._recorded = False  # whether its attempt has its row, as far as is known here
        self._mark = self.claim.token  # the job whose transaction the server takes it for
        self._savepoint = False  # whether one is set
        self._clock = (datetime.now(UTC), monotonic())  # the database's, and when it was read

    def at(self, moment: float) -> datetime:
        """Return what the database's clock showed at this moment of the monotonic one."""
        read, then = self._clock
        return read + timedelta(seconds=moment - then)

    @property
    def broken(self) -> Exception | None:
        """Return why what was kept cannot be committed, where that is not the present job's doing."""
        refused = self._session.refused
        return HandlerMisuse(ENDED) if refused and refused.sqlstate in NOT_OURS else refused or self._broken

    # One transaction, from its fetch to its commit ---------------------------------------------

    def fetch(self, claims: Batch) -> None:
        """Open it and read these jobs; raises NotStarted if a lock, or a lack of resources, prevents that now."""
        try:
            self._begun(claims, self.retry_on_new_session(lambda session: _taken(session, _fetching(claims))))
        except psycopg.Error as error:
            self.rollback()
            if unreachable(error) or not transient(error):
                raise
            raise NotStarted(f"nothing was begun, so it can be tried later: {in_short(error)}") from error

    def enter(self, number: int) -> Started | None:
        """Begin the present job, `claim`; None if its claim was lost. Its first statement sets a savepoint."""
        self._take_back()  # so that nothing which the job before has kept or changed of it concerns this one
        if self.claim.token != self._mark:
            text = NEXT.format(self._mark, self.claim.token)
            self._session.before = (f"RELEASE SAVEPOINT job; {text}" if self._savepoint else text).encode()
        self._shared.works(number)
        self._entered, self._recorded = monotonic(), False
        return self.found.get(self.claim.job_id)

    def keep(self, result: str, began: float) -> None:
        """Keep the present job's work; raises what its own commit would have said if the transaction is not sound."""
        if self._session.busy:
            raise HandlerMisuse(LEFT_OPEN)
        match self._session.info.transaction_status:
            case TransactionStatus.INERROR:
                raise psycopg.errors.InFailedSqlTransaction("an error of the database's was caught and passed over")
            case TransactionStatus.IDLE:
                raise HandlerMisuse(ENDED)
        self._note_mark()
        self.kept.append(Result(self.claim, result, self.at(began), self.at(monotonic())))

    def undo(self) -> Exception | None:
        """Undo the present job's work, if it has done any; returns why what was kept before it is lost, too."""
        if not self.kept:
            self.take_over()
            return None
        if self._session.before is not None:  # it has sent nothing
            self._session.before = None
            return None
        try:
            if self._session.busy:
                raise psycopg.InterfaceError(LEFT_OPEN)
            self._session.execute("ROLLBACK TO SAVEPOINT job", prepare=False)
        except (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction):
            return HandlerMisuse(ENDED)
        except psycopg.Error as error:
            return error
        return None

    def finish(self, following: Batch = ()) -> None:
        """Commit what was kept together with its ends, leave the session clean, and fetch what follows: one message.

        A session that no job has asked for is clean; what was fetched a moment ago is not fetched again.
        Raises what refuses the ends or the commit: ClaimLost, HandlerMisuse, psycopg.Error.
        """
        self._take_back()  # before that: a handler that kept the object must not reach the session in between
        session = self._session
        ending = [self._ends(), COMMIT]
        opening = self._opening(following)
        if session.cleaned is None:
            ending += session.cleaning
            answers = run_pipeline(session, ending, opening)
        else:  # as one unit: the server answers once, and this process wakes up once
            answers = run_pipeline(session, [*ending, *opening])
        with named_refusals():
            raise_first_error(session, answers[: len(ending)])
        self._committed()
        if session.cleaned is None:
            (session.cleaned,) = rows_of(session, answers[len(ending) - 1])
        if following:
            try:
                believe_confined(session.cleaned, self._login.role)
                raise_first_error(session, answers[len(ending) :])
                self._begun(following, answers[len(ending) :])
            except (psycopg.Error, NotConfined):
                self._replace()
                self.fetch(following)

    # A job that commits by itself --------------------------------------------------------------

    def alone(self) -> None:
        """Finish what was kept: the present job is about to commit by itself, and may take its time.

        If it has sent something already, that would be committed without a record: then the rest is finished with its
        own first commit.
        """
        if self.kept and self._session.before is not None:
            self._session.before = None
            with self._of_the_others():
                _taken(self._session, [self._ends(), COMMIT, *attempts.beginning(self.claim)])
                self._committed()
                self._open_own()

    def begin(self) -> None:
        """Open the present job's own transaction."""
        attempts.begin(self._session, self.claim)
        self._open_own()

    def commit(self, ending: Callable[[HandlerConnection], object] | None = None) -> None:
        """Make everything since `begin` durable, and what was kept before with it.

        The first commit brings the attempt's row: no work is seen of a job that nobody has seen running. `ending`, if
        given, ends the present job's attempt in the same transaction.
        """
        if not self._recorded:
            attempts.start(self._session, self.claim, self.worker, self.at(self._entered))
        if ending is not None:
            ending(self._session)
        if self.kept:
            with self._of_the_others():
                self._note_mark()
                _taken(self._session, [self._ends()])
                self._commit()
        else:
            self._commit()
        self._recorded = True
        self._committed()

    def commit_and_go_on(self) -> None:
        """Make the work so far durable and open the next transaction."""
        self.commit()
        self.begin()

    def rollback(self) -> None:
        """Undo everything since it was opened; a session that cannot even do that is thrown away."""
        super().rollback()
        self._broken = None
        self._over()

    # ---------------------------------------------------------------------------------------------

    def _opening(self, claims: Batch) -> Sequence[Statement]:
        """Return what opens a transaction for the first of these, after a look at all of them if that is due."""
        if not claims:
            return ()
        if claims[0].job_id in self.found and monotonic() - self._fetched < FETCH_BELIEVED_SECONDS:
            return attempts.beginning(claims[0])
        return _fetching(claims)

    def _begun(self, claims: Batch, answers: Sequence[PGresult]) -> None:
        self.opened = monotonic()
        # Of what opens a transaction only the look at the jobs returns rows.
        for fetched in (answer for answer in answers if answer.status == ExecStatus.TUPLES_OK):
            self.found, now = batches.fetched(self._session, fetched)
            self._fetched = self.opened
            if now is not None:
                self._clock = (now, self.opened)
        self._mark, self._savepoint = claims[0].token, False
        self._shared.transaction_begins(self._session.info.backend_pid)

    def _open_own(self) -> None:
        self.opened = 0.0  # long ago, so that no other job joins this transaction
        self._mark, self._savepoint = self.claim.token, False
        self._shared.transaction_begins(self._session.info.backend_pid)

    def _note_mark(self) -> None:
        if self._session.before is None and self._mark != self.claim.token:
            self._mark, self._savepoint = self.claim.token, True
        self._session.before = None

    def _ends(self) -> Statement:
        return batches.finishing(self._mark, self.kept, self.worker)

    def _commit(self) -> None:
        try:
            psycopg.Connection.commit(self._session)
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:
                raise HandlerMisuse("nothing can be committed inside `with connection.transaction()`") from error
            raise

    def _committed(self) -> None:
        self.kept = []
        self.commits += 1
        self._over()

    def _over(self) -> None:
        self.opened = None
        self._shared.transaction_ends()

    @contextmanager
    def _of_the_others(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._broken = error
            raise


def _fetching(claims: Batch) -> Sequence[Statement]:
    # In a transaction of its own: the handlers' would lock the tables it reads.
    return [BEGIN, batches.fetching(claims), COMMIT, *attempts.beginning(claims[0])]


def _taken(session: HandlerConnection, *transactions: Sequence[Statement]) -> list[PGresult]:
    """Send these and return their answers; raises what refuses any of them."""
    answers = run_pipeline(session, *transactions)
    with named_refusals():
        raise_first_error(session, answers)
    return answers
