"""Feeds the live streams of a web process: reads each job that a hint names once, and offers it to its subscribers."""

import logging
import math
import os
import selectors
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import psycopg

from turno.capabilities.streams.stream_events import StreamEvents
from turno.capabilities.streams.subscriber import CloseReason, Subscriber
from turno.capabilities.streams.tenant_subscribers import TenantSubscribers
from turno.store import changes
from turno.store.api import watched_jobs
from turno.store.changes import Changes, Jobs, read_payload
from turno.tenancy.identity.directory import valid_from
from turno.tenancy.identity.session import as_api
from turno.web.responses import Kind, Problem

log = logging.getLogger(__name__)

Connection = psycopg.Connection[Any]

COMPARE_SECONDS = 2.0  # between two comparisons of a tenant's watched jobs with the database, in case a hint was lost
COMPARE_PAUSE_FACTOR = 4  # times the duration of a comparison: comparing takes at most a fifth of the time
READ_PAUSE = 0.005  # seconds between two reads: the jobs named meanwhile are read together
ANNOUNCE_PAUSE = 0.02  # seconds between two notifications of one process
RECONNECT_SECONDS = 0.5  # seconds between two tries to reach a database that is away
JUST_NOW = timedelta(minutes=1)  # in which a job has ended that a comparison finds, in case its hint was lost
JOBS_PER_READ = 500  # jobs of a tenant per read; the next comparison finds the remaining jobs
# Any role may notify, and reading a named job takes longer than sending a notification.
FLOOD_BYTES_PER_SECOND = 1_000_000  # bytes of notifications within a second
CLOSED_SECONDS = 1.0


FULL_RETRY_SECONDS = "10"
STREAM_LIMIT_HINT = "the most allowed; one stream shows all jobs of its user, and a job's address has its state."


class Listener:
    """Returns the jobs that notifications name; a flood of notifications ends its session for a second.

    The session runs no other statement: PostgreSQL delivers all notifications that arrive during a statement with its
    result, and they would have to fit into memory. A new session receives only notifications sent after its LISTEN.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._session: Connection | None = None
        self._closed_until = -math.inf
        self._second_ends = -math.inf
        self._bytes = 0  # received in the second that ends then

    def hear(self) -> Jobs | None:
        """Return which jobs were named since the last time; None if some of the names were lost."""
        if self._session is None:
            if monotonic() < self._closed_until:
                return {}
            self._session = self._connect()
            changes.listen(self._session)
            return None
        named: Jobs = {}
        while hints := list(self._session.notifies(timeout=0)):
            if self._is_flood(sum(len(hint.payload) for hint in hints)):
                log.warning("notifications come in a flood: live streams compare with the database instead")
                self.close()
                self._closed_until = monotonic() + CLOSED_SECONDS
                return None
            for hint in hints:
                try:
                    changed = read_payload(hint.payload)
                except ValueError:
                    continue  # any role may send any text
                for tenant_id, job_ids in changed.items():
                    named.setdefault(tenant_id, set()).update(job_ids)
        return named

    @property
    def descriptor(self) -> int | None:
        """The socket that is readable when something was notified; None while there is no session."""
        return None if self._session is None else self._session.fileno()

    @property
    def back_at(self) -> float:
        """When the session may be opened again, on the monotonic clock; infinity while it is open."""
        return math.inf if self._session is not None else self._closed_until

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _is_flood(self, size: int) -> bool:
        now = monotonic()
        if now >= self._second_ends:
            self._second_ends, self._bytes = now + 1.0, 0
        self._bytes += size
        return self._bytes > FLOOD_BYTES_PER_SECOND


class Hub:
    """Serves every stream of this process from two database sessions and one thread, started when first needed.

    `connect` opens a session, as the web's role and in autocommit: one session listens, a second reads. Hints only name
    jobs: the hub reads their content under the tenant's API role. Without hints all changes are shown too, only later.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Connection],
        events: StreamEvents,
        most: int,
        most_per_tenant: int,
        most_per_user: int,
        compare_every: float = COMPARE_SECONDS,
    ) -> None:
        self._connect = connect
        self._events = events
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._most_per_user = most_per_user
        self._compare_every = compare_every
        self._lock = Lock()
        self._audiences: dict[int, TenantSubscribers] = {}
        self._streams: Counter[tuple[int, str]] = Counter()
        self._outbox = Changes()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._thread: Thread | None = None
        self._stopping = self._ending = False
        self._compare_at = self._revocations_at = self._pause_until = 0.0

    def __len__(self) -> int:
        return self._streams.total()

    def join(self, subscriber: Subscriber, *, most: int | None = None) -> None:
        """Hand changes to a subscriber from now on.

        Raises Problem 503 if the process serves as many streams as it may, or `most`, and 429 if the user or the tenant
        has as many as one may.
        """
        view = subscriber.view
        user = (view.tenant.id, view.user)
        with self._lock:
            audience = self._audiences.get(view.tenant.id)
            if len(self) >= (self._most if most is None else min(most, self._most)):
                text = f"This server has {len(self)} streams open, as many as it serves"
                raise _full(Kind.UNAVAILABLE, f"{text}; ask for the job's address instead, or come back.")
            if audience is not None and len(audience.subscribers) >= self._most_per_tenant:
                raise _full(
                    Kind.CROWDED, f"This tenant has {self._most_per_tenant} streams open here, {STREAM_LIMIT_HINT}"
                )
            if self._streams[user] >= self._most_per_user:
                raise _full(Kind.CROWDED, f"You have {self._most_per_user} streams open here, {STREAM_LIMIT_HINT}")
            self._streams[user] += 1
            if audience is None:
                audience = self._audiences[view.tenant.id] = TenantSubscribers(
                    view.tenant, due=monotonic() + self._compare_every
                )
            audience.subscribers |= {subscriber}
        if self._ending:
            subscriber.end(CloseReason.SHUTTING_DOWN)
        self._start()

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a subscriber; does nothing if it was removed before."""
        view = subscriber.view
        with self._lock:
            audience = self._audiences.get(view.tenant.id)
            if audience is None or subscriber not in audience.subscribers:
                return
            self._streams -= Counter([(view.tenant.id, view.user)])
            audience.subscribers -= {subscriber}
            if not audience.subscribers:
                del self._audiences[view.tenant.id]

    def announce(self, tenant_id: int, job_id: UUID) -> None:
        """Notify all processes, including this process, that a job changed; does not wait, and may be lost."""
        self._outbox.add(tenant_id, job_id)
        self._start()

    def end_all(self) -> None:
        """End all current and future streams, because the process stops."""
        self._ending = True
        for audience in self._present():
            for subscriber in audience.subscribers:
                subscriber.end(CloseReason.SHUTTING_DOWN)

    def stop(self) -> None:
        """End the thread and its sessions."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = Thread(target=self._run, name="hub", daemon=True)
                self._thread.start()
        os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while not self._stopping:
            try:
                with closing(Listener(self._connect)) as listener, closing(self._connect()) as connection:
                    self._serve(listener, connection)
            except psycopg.Error as error:
                log.warning("live streams wait for the database: %s", error)
            except Exception:
                log.exception("live streams start again after an error")
            self._wait(None, RECONNECT_SECONDS)

    def _serve(self, listener: Listener, connection: Connection) -> None:
        while not self._stopping:
            self._announce_changes(connection)
            if not self._read_changes(listener, connection):
                self._wait(listener, self._timeout(listener))

    def _announce_changes(self, connection: Connection) -> None:
        if self._outbox:
            try:
                changes.announce(connection, self._outbox.take())
            except psycopg.errors.ProgramLimitExceeded as error:
                # Some session has listened without reading for so long that the queue of notifications is full.
                log.warning("live streams of other processes not notified: %s", error)
            self._pause_until = monotonic() + ANNOUNCE_PAUSE

    def _read_changes(self, listener: Listener, connection: Connection) -> bool:
        """Read the jobs that hints name; without hints, compare the tenant with the oldest comparison."""
        sleep(max(0.0, self._pause_until - monotonic()))
        named_jobs = self._named_jobs(listener)
        for audience, named in named_jobs:
            self._isolated(audience, partial(self._show, connection, audience, named))
        due = self._next_due()
        if due is not None:
            due.due = monotonic() + self._compare_every
            self._isolated(due, partial(self._compare, connection, due))
        return self._end_revoked(connection) or bool(named_jobs) or due is not None

    def _named_jobs(self, listener: Listener) -> list[tuple[TenantSubscribers, set[UUID]]]:
        """Return the named jobs that have subscribers; after a loss of hints, make every tenant due for comparison."""
        named = listener.hear()
        if named is None:
            for audience in self._present():
                audience.due = 0.0
        if not named:
            return []
        self._pause_until = monotonic() + READ_PAUSE
        audiences = ((audience, audience.worth_reading(named[audience.tenant.id])) for audience in self._present(named))
        return [(audience, jobs) for audience, jobs in audiences if jobs]

    def _show(self, connection: Connection, audience: TenantSubscribers, job_ids: set[UUID]) -> None:
        some = list(job_ids)[:JOBS_PER_READ]
        with as_api(connection, audience.tenant) as reader:
            rows = watched_jobs.named(reader, some)
            # A job that waits for a person has no run_at; like an end, that is a notification to its user.
            news = [row["id"] for row in rows if row["finished_at"] is not None or row["run_at"] is None]
            notices = watched_jobs.notifications_of(reader, news) if news and audience.users else []
        for row in rows:
            audience.show_job(row, self._events)
        for row in notices:
            audience.show_notification(row, self._events)

    def _compare(self, connection: Connection, audience: TenantSubscribers) -> None:
        """Compare the revisions sent with the stored ones and send the differences, in case a hint was lost."""
        began = monotonic()
        followed, users = audience.followed, audience.watched_users
        with as_api(connection, audience.tenant) as reader:
            standings = watched_jobs.standings(reader, followed, users)
            just_ended = watched_jobs.ended_within(reader, users, JUST_NOW) if users != set() else []
        audience.remove_jobs(followed - {row["id"] for row in standings})
        if changed := audience.changed(standings, just_ended):
            self._show(connection, audience, changed)
        self._compare_at = monotonic() + COMPARE_PAUSE_FACTOR * (monotonic() - began)

    def _isolated(self, audience: TenantSubscribers, work: Callable[[], None]) -> None:
        """Run one tenant's work: log its lock timeout or fault, and raise a lost connection."""
        try:
            work()
        except psycopg.OperationalError as error:
            if not isinstance(error, (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)):
                raise
            log.warning("not read in time: %s", error, extra={"tenant": audience.tenant.slug})
        except psycopg.InterfaceError:
            raise
        except Exception:
            log.exception("not shown", extra={"tenant": audience.tenant.slug})

    def _end_revoked(self, connection: Connection) -> bool:
        """End the streams of revoked tokens, every few seconds."""
        audiences = self._present()
        if monotonic() < self._revocations_at or not audiences:
            return False
        self._revocations_at = monotonic() + self._compare_every
        known = valid_from(connection, [audience.tenant.id for audience in audiences])
        for audience in audiences:
            audience.end_revoked(known.get(audience.tenant.id))
        return True

    def _present(self, among: Jobs | None = None) -> list[TenantSubscribers]:
        with self._lock:
            return [audience for number, audience in self._audiences.items() if among is None or number in among]

    def _next_due(self) -> TenantSubscribers | None:
        now = monotonic()
        if now < self._compare_at:
            return None
        return min(
            (audience for audience in self._present() if audience.due <= now),
            key=lambda audience: audience.due,
            default=None,
        )

    def _timeout(self, listener: Listener) -> float:
        moments = [audience.due for audience in self._present()]
        if not moments:
            return 60.0
        return max(0.0, min(max(min(moments), self._compare_at), self._revocations_at, listener.back_at) - monotonic())

    def _wait(self, listener: Listener | None, timeout: float) -> None:
        """Wait for a hint, for an event of this process, or for `timeout` seconds."""
        if self._stopping:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            if listener is not None and listener.descriptor is not None:
                selector.register(listener.descriptor, selectors.EVENT_READ)
            selector.select(timeout)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)


def _full(kind: Kind, detail: str) -> Problem:
    return Problem(kind, detail, headers={"Retry-After": FULL_RETRY_SECONDS})
