"""Attacks on the web process: its threads, streams, memory and input (B)."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

import psycopg

from benchmarks.siege.attack import Attack, Ending, both, of_answers, of_job, refused
from benchmarks.siege.target import ENDED, PAUSE, STREAMS, in_its_attempt
from tests.misbehaving_handlers import Faulty
from tests.stream_client import StreamClient
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.store.operator import routing
from turno.tenancy.identity.session import call_as_api, qualified_statement, service_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.http_client import Answer
    from benchmarks.siege.target import Target

PATH = "/api/jobs/batch_invoicing"
SOON = 5.0  # seconds within which a bad request is answered on a busy machine
THREADS = 16  # of the web, by default
TRICKLE, MAX_OPEN_SECONDS = 0.5, 15.0  # seconds between two bytes, and until a slow request must be over
CLIENTS = 32
A_VIEWER = 50  # streams
MOST_GROWTH = 150.0  # MB of growth of the web that a tenant may cause
LISTED = 200  # jobs of the longest page
OK, ACCEPTED = 200, 202
PROGRESS = "PERFORM job_progress(job, token, 1, 2, repeat('x', 24 * 1024 * 1024));"
ITEMS = """PERFORM job_items(job, token, '[{"key": "1", "state": "failed", "error": [1]}]', 1);"""
FLOOD = "SELECT count(pg_notify('turno_changes', i || repeat('x', 7690))) FROM generate_series(1, 20000) AS i"
FAR = datetime(9999, 12, 31, tzinfo=UTC)


def quadratic_bodies(target: Target, seconds: float) -> Callable[[], Ending]:
    """Send bodies whose check could take quadratic time."""
    names = "{" + ", ".join(f'"n{i}": 1' for i in range(20_000)) + ', "n0": 1}'
    ids = list(range(20_000))
    bodies = [
        names.encode(),
        json.dumps({"payload": {"order_ids": [*ids, 7]}}).encode(),
        json.dumps({"payload": {"order_ids": [""] * 250_000}}).encode(),
        json.dumps({"payload": {f"field{i}": 1 for i in range(60_000)}}).encode(),
    ]
    answers = target.crowd(
        len(bodies), seconds, lambda number: target.ask(f"body{number}", "POST", PATH, bodies[number])
    )
    return lambda: of_answers(answers, within=SOON)


class SlowSocket:
    """A request without an end, a byte at a time."""

    def __init__(self, port: int, start: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._socket.sendall(start.encode())
        self._socket.settimeout(0)
        self._began = time.monotonic()
        self.closed_after: float | None = None

    def trickle(self) -> None:
        """Send one byte more; note when the server has had enough."""
        if self.closed_after is None:
            with suppress(BlockingIOError):
                try:
                    self._socket.sendall(b"a")
                    over = self._socket.recv(4096) == b""
                except (ConnectionError, TimeoutError):
                    over = True
                if over:
                    self.closed_after = time.monotonic() - self._began

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def slow_sockets(target: Target, seconds: float) -> Callable[[], Ending]:
    """Open as many requests as the web has threads, half of them without a whole head, and never finish them."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in target.person("slow").headers.items())
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    starts = [f"{head}X-Slow: ", f"{head}{headers}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"]
    sockets = [SlowSocket(target.web.port, starts[number % len(starts)]) for number in range(THREADS)]

    def hold() -> None:
        end = time.monotonic() + MAX_OPEN_SECONDS
        while time.monotonic() < end and any(each.closed_after is None for each in sockets):
            for each in sockets:
                each.trickle()
            time.sleep(TRICKLE)
        for each in sockets:
            each.close()

    holder = Thread(target=hold)
    holder.start()
    time.sleep(max(seconds, 2.0))

    def ending() -> Ending:
        holder.join()
        longest = max(MAX_OPEN_SECONDS if each.closed_after is None else each.closed_after for each in sockets)
        left = sum(each.closed_after is None for each in sockets)
        return Ending(not left, f"{THREADS - left} of {THREADS} were hung up on, the last after {longest:.1f} s")

    return ending


def tables_locked(target: Target, seconds: float) -> Callable[[], Ending]:
    """Lock a table that a page reads, and a user's quota, while 32 clients ask for that page and submit."""
    table, quota = target.session(), target.session()
    table.execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
    locked = Ending(decent=True, how="orders locked")
    try:
        quota.execute("BEGIN")
        job = submission(target.new_job(Faulty, {"how": "ok"}, user_id="locked"), pending_limit=100_000)
        quota.execute(qualified_statement(ENQUEUE, target.mallory.schema), job)
        locked = both(locked, Ending(decent=True, how="a user's quota locked"))
    except psycopg.Error as error:
        locked = both(locked, refused(error))

    def request(number: int) -> Answer:
        if number % 2:
            return target.page("pages", "/")
        return target.ask("locked", "POST", PATH, {"payload": {"order_ids": [1]}})

    answers = target.crowd(CLIENTS, seconds, request)
    table.close()
    quota.close()
    return lambda: both(locked, of_answers(answers, fine=(OK, ACCEPTED), within=SOON))


def long_lists(target: Target, seconds: float) -> Callable[[], Ending]:
    """Read the longest page of a list from eight clients; each costs twenty times the processor time of a short one."""
    jobs = submission(*[target.new_job(Faulty, {"how": "ok"}, user_id="lists")] * LISTED)
    with service_session(target.bench.logins, target.bench.logins.web, application="turno-web") as web:
        call_as_api(web, target.mallory, ENQUEUE, jobs)
    answers = target.crowd(8, seconds, lambda _: target.ask("lists", "GET", f"/api/jobs?limit={LISTED}"))
    return lambda: of_answers(answers, fine=(OK,), within=SOON)


def all_streams(target: Target, seconds: float) -> Callable[[], Ending]:
    """Open as many streams as the web serves, by as many users as it takes."""
    end = time.monotonic() + max(seconds, 2.0)

    def take_places(user: str) -> list[StreamClient]:
        taken: list[StreamClient] = []
        with suppress(OSError, EOFError):
            while time.monotonic() < end and len(taken) < A_VIEWER:
                taken.append(StreamClient(target.web.port, "/api/stream", target.person(user).headers))
        return taken

    viewers = 2 * STREAMS // A_VIEWER
    with ThreadPoolExecutor(viewers) as threads:
        result = threads.map(take_places, [f"viewer{number}" for number in range(viewers)])
        streams = [stream for taken in result for stream in taken]
    neighbour = _opens_a_stream(target)
    time.sleep(max(0.0, end - time.monotonic()))
    for stream in streams:
        stream.socket.close()
    statuses = Counter(stream.status for stream in streams)
    had = Ending(statuses[OK] < STREAMS, f"requested streams, by status: {dict(statuses)}")
    return lambda: both(had, Ending(neighbour, f"the victim {'has' if neighbour else 'had no'} stream meanwhile"))


def _opens_a_stream(target: Target) -> bool:
    headers = target.person("somebody", target.victim).headers
    try:
        with StreamClient(target.web.port, "/api/stream", headers) as stream:
            return stream.status == OK
    except (OSError, EOFError):
        return False


def unread_streams(target: Target, seconds: float) -> Callable[[], Ending]:
    """Report a progress message of 24 MB to twenty streams whose clients do not read."""
    before = target.web_megabytes()
    job = target.in_a_job(in_its_attempt(PROGRESS), user="unread")
    streams = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", target.web.port), timeout=5)
        lines = "".join(f"{name}: {value}\r\n" for name, value in target.person("unread").headers.items())
        connection.sendall(f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
        streams.append(connection)
    target.reaches(job, *ENDED)
    grown = _growth(target, before, seconds)
    for connection in streams:
        connection.close()
    return lambda: both(of_job(target.job(job), may_complete=True), grown)


def notify_flood(target: Target, seconds: float) -> Callable[[], Ending]:
    """Send twenty thousand notifications of false changes, 7.7 KB each, while streams are open."""
    before = target.web_megabytes()
    with target.session() as session:
        try:
            session.execute(FLOOD)
            ending = Ending(decent=True, how="20,000 forged changes notified")
        except psycopg.Error as error:
            ending = refused(error)
    # They are delivered once they are committed.
    grown = _growth(target, before, max(seconds, 3.0))
    return lambda: both(ending, grown)


def _growth(target: Target, before: float, seconds: float) -> Ending:
    end, most = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        most = max(most, target.web_megabytes() - before)
        time.sleep(PAUSE)
    return Ending(most <= MOST_GROWTH, f"the web grew by {most:.0f} MB")


def unreadable_rows(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Store values that Python cannot read, then request them over the API, on the pages and as an operator."""
    usual = target.new_job(Faulty, {"how": "ok"}, user_id="unreadable", run_at=FAR)
    poisons = [
        replace(usual, run_at=cast("Any", "294276-12-31")),
        replace(usual, expires_at=cast("Any", "-infinity")),
        replace(usual, expires_at=cast("Any", "294276-12-31")),
        replace(usual, type="count"),
        replace(usual, type="x" * 2_000),
    ]
    jobs = [target.in_a_job(target.enqueuing(poison), user="unreadable") for poison in poisons]
    jobs.append(target.in_a_job(in_its_attempt(ITEMS), user="unreadable"))
    for job in jobs:
        target.reaches(job, *ENDED)
    answers = [
        target.ask("unreadable", "GET", "/api/jobs"),
        target.ask("unreadable", "GET", f"/api/jobs/{jobs[-1]}/items"),
        target.ask("unreadable", "GET", "/api/notifications"),
        target.page("unreadable", "/"),
    ]
    shown = of_answers(answers, fine=(OK,), within=SOON)
    stored = [of_job(target.job(job), may_complete=True) for job in jobs]
    return lambda: both(shown, _operator_sees_all(target), *stored)


def _operator_sees_all(target: Target) -> Ending:
    with service_session(target.bench.logins, target.bench.logins.operator, application="turno-cli") as operator:
        try:
            routing.counts(operator)
        except psycopg.Error as error:
            return Ending(decent=False, how=f"backend status fails: {error}")
    return Ending(decent=True, how="backend status answers")


ON_WEB = (
    Attack("bodies that take time with the square of their length", "B", "HTTP", quadratic_bodies),
    Attack("sixteen slow sockets", "B", "a socket", slow_sockets),
    Attack("locks that pages and POSTs wait for, 32 clients", "B", "SQL, HTTP", tables_locked),
    Attack("long lists, 8 clients", "B", "HTTP", long_lists),
    Attack("every place for a stream", "B", "HTTP", all_streams),
    Attack("a message of 24 MB, twenty unread streams", "B", "a handler's SQL", unread_streams),
    Attack("a flood of notifications", "B", "SQL", notify_flood),
    Attack("rows that cannot be read", "B", "a handler's SQL", unreadable_rows),
)
