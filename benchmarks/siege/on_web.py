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
from psycopg import sql

from benchmarks.siege.attack import Attack, Ending, both, of_answers, of_job, refused
from benchmarks.siege.place import ENDED, PAUSE, STREAMS, in_its_attempt
from tests.misbehaving_handlers import Faulty
from tests.stream_client import StreamClient
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.store.operator import routing
from turno.tenancy.identity.session import call_as_api, service_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.http_client import Answer
    from benchmarks.siege.place import Place

PATH = "/api/jobs/batch_invoicing"
SOON = 5.0  # seconds within which a bad request is answered on a busy machine
THREADS = 16  # of the web, by default
TRICKLE, HELD_AT_MOST = 0.5, 15.0  # seconds between two bytes, and until a slow request must be over
CLIENTS = 32
A_VIEWER = 50  # streams
MOST_GROWTH = 150.0  # MB of growth of the web that a tenant may cause
LISTED = 200  # jobs of the longest page
OK, ACCEPTED = 200, 202
PROGRESS = "PERFORM job_progress(job, token, 1, 2, repeat('x', 24 * 1024 * 1024));"
ITEMS = """PERFORM job_items(job, token, '[{"key": "1", "state": "failed", "error": [1]}]', 1);"""
FLOOD = "SELECT count(pg_notify('turno_changes', i || repeat('x', 7690))) FROM generate_series(1, 20000) AS i"
FAR = datetime(9999, 12, 31, tzinfo=UTC)


def quadratic_bodies(place: Place, seconds: float) -> Callable[[], Ending]:
    """Send bodies whose check could take quadratic time."""
    names = "{" + ", ".join(f'"n{i}": 1' for i in range(20_000)) + ', "n0": 1}'
    ids = list(range(20_000))
    bodies = [
        names.encode(),
        json.dumps({"payload": {"order_ids": [*ids, 7]}}).encode(),
        json.dumps({"payload": {"order_ids": [""] * 250_000}}).encode(),
        json.dumps({"payload": {f"field{i}": 1 for i in range(60_000)}}).encode(),
    ]
    answers = place.crowd(len(bodies), seconds, lambda number: place.ask(f"body{number}", "POST", PATH, bodies[number]))
    return lambda: of_answers(answers, within=SOON)


class SlowSocket:
    """A request without an end, a byte at a time."""

    def __init__(self, port: int, start: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._socket.sendall(start.encode())
        self._socket.settimeout(0)
        self._began = time.monotonic()
        self.held: float | None = None

    def trickle(self) -> None:
        """Send one byte more; note when the server has had enough."""
        if self.held is None:
            with suppress(BlockingIOError):
                try:
                    self._socket.sendall(b"a")
                    over = self._socket.recv(4096) == b""
                except (ConnectionError, TimeoutError):
                    over = True
                if over:
                    self.held = time.monotonic() - self._began

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def slow_sockets(place: Place, seconds: float) -> Callable[[], Ending]:
    """Open as many requests as the web has threads, half of them without a whole head, and never finish them."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in place.person("slow").headers.items())
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    starts = [f"{head}X-Slow: ", f"{head}{headers}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"]
    sockets = [SlowSocket(place.web.port, starts[number % len(starts)]) for number in range(THREADS)]

    def hold() -> None:
        end = time.monotonic() + HELD_AT_MOST
        while time.monotonic() < end and any(each.held is None for each in sockets):
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
        longest = max(HELD_AT_MOST if each.held is None else each.held for each in sockets)
        left = sum(each.held is None for each in sockets)
        return Ending(not left, f"{THREADS - left} of {THREADS} were hung up on, the last after {longest:.1f} s")

    return ending


def tables_locked(place: Place, seconds: float) -> Callable[[], Ending]:
    """Lock a table that a page reads, and a user's quota, while 32 clients ask for that page and submit."""
    table, quota = place.session(), place.session()
    table.execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
    locked = Ending(decent=True, how="orders locked")
    try:
        quota.execute("BEGIN")
        job = submission(place.new_job(Faulty, {"how": "ok"}, user_id="locked"), pending_limit=100_000)
        quota.execute(sql.SQL(ENQUEUE).format(sql.Identifier(place.mallory.schema)), job)
        locked = both(locked, Ending(decent=True, how="a user's quota locked"))
    except psycopg.Error as error:
        locked = both(locked, refused(error))

    def request(number: int) -> Answer:
        if number % 2:
            return place.page("pages", "/")
        return place.ask("locked", "POST", PATH, {"payload": {"order_ids": [1]}})

    answers = place.crowd(CLIENTS, seconds, request)
    table.close()
    quota.close()
    return lambda: both(locked, of_answers(answers, fine=(OK, ACCEPTED), within=SOON))


def long_lists(place: Place, seconds: float) -> Callable[[], Ending]:
    """Read the longest page of a list from eight clients; each costs twenty times the processor time of a short one."""
    jobs = submission(*[place.new_job(Faulty, {"how": "ok"}, user_id="lists")] * LISTED)
    with service_session(place.bench.logins, place.bench.logins.web, application="turno-web") as web:
        call_as_api(web, place.mallory, ENQUEUE, jobs)
    answers = place.crowd(8, seconds, lambda _: place.ask("lists", "GET", f"/api/jobs?limit={LISTED}"))
    return lambda: of_answers(answers, fine=(OK,), within=SOON)


def all_streams(place: Place, seconds: float) -> Callable[[], Ending]:
    """Open as many streams as the web serves, by as many users as it takes."""
    end = time.monotonic() + max(seconds, 2.0)

    def take_places(user: str) -> list[StreamClient]:
        taken: list[StreamClient] = []
        with suppress(OSError, EOFError):
            while time.monotonic() < end and len(taken) < A_VIEWER:
                taken.append(StreamClient(place.web.port, "/api/stream", place.person(user).headers))
        return taken

    viewers = 2 * STREAMS // A_VIEWER
    with ThreadPoolExecutor(viewers) as threads:
        result = threads.map(take_places, [f"viewer{number}" for number in range(viewers)])
        streams = [stream for taken in result for stream in taken]
    neighbour = _opens_a_stream(place)
    time.sleep(max(0.0, end - time.monotonic()))
    for stream in streams:
        stream.socket.close()
    statuses = Counter(stream.status for stream in streams)
    had = Ending(statuses[OK] < STREAMS, f"requested streams, by status: {dict(statuses)}")
    return lambda: both(had, Ending(neighbour, f"the victim {'has' if neighbour else 'had no'} stream meanwhile"))


def _opens_a_stream(place: Place) -> bool:
    headers = place.person("somebody", place.victim).headers
    try:
        with StreamClient(place.web.port, "/api/stream", headers) as stream:
            return stream.status == OK
    except (OSError, EOFError):
        return False


def unread_streams(place: Place, seconds: float) -> Callable[[], Ending]:
    """Report a progress message of 24 MB to twenty streams whose clients do not read."""
    before = place.web_megabytes()
    job = place.in_a_job(in_its_attempt(PROGRESS), user="unread")
    streams = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", place.web.port), timeout=5)
        lines = "".join(f"{name}: {value}\r\n" for name, value in place.person("unread").headers.items())
        connection.sendall(f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
        streams.append(connection)
    place.reaches(job, *ENDED)
    grown = _growth(place, before, seconds)
    for connection in streams:
        connection.close()
    return lambda: both(of_job(place.job(job), may_complete=True), grown)


def notify_flood(place: Place, seconds: float) -> Callable[[], Ending]:
    """Send twenty thousand notifications of false changes, 7.7 KB each, while streams are open."""
    before = place.web_megabytes()
    with place.session() as session:
        try:
            session.execute(FLOOD)
            said = Ending(decent=True, how="20,000 forged changes notified")
        except psycopg.Error as error:
            said = refused(error)
    # They are delivered once they are committed.
    grown = _growth(place, before, max(seconds, 3.0))
    return lambda: both(said, grown)


def _growth(place: Place, before: float, seconds: float) -> Ending:
    end, most = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        most = max(most, place.web_megabytes() - before)
        time.sleep(PAUSE)
    return Ending(most <= MOST_GROWTH, f"the web grew by {most:.0f} MB")


def unreadable_rows(place: Place, _seconds: float) -> Callable[[], Ending]:
    """Store values that Python cannot read, then request them over the API, on the pages and as an operator."""
    usual = place.new_job(Faulty, {"how": "ok"}, user_id="unreadable", run_at=FAR)
    poisons = [
        replace(usual, run_at=cast("Any", "294276-12-31")),
        replace(usual, expires_at=cast("Any", "-infinity")),
        replace(usual, expires_at=cast("Any", "294276-12-31")),
        replace(usual, type="count"),
        replace(usual, type="x" * 2_000),
    ]
    jobs = [place.in_a_job(place.enqueuing(poison), user="unreadable") for poison in poisons]
    jobs.append(place.in_a_job(in_its_attempt(ITEMS), user="unreadable"))
    for job in jobs:
        place.reaches(job, *ENDED)
    answers = [
        place.ask("unreadable", "GET", "/api/jobs"),
        place.ask("unreadable", "GET", f"/api/jobs/{jobs[-1]}/items"),
        place.ask("unreadable", "GET", "/api/notifications"),
        place.page("unreadable", "/"),
    ]
    shown = of_answers(answers, fine=(OK,), within=SOON)
    stored = [of_job(place.job(job), may_complete=True) for job in jobs]
    return lambda: both(shown, _operator_sees_all(place), *stored)


def _operator_sees_all(place: Place) -> Ending:
    with service_session(place.bench.logins, place.bench.logins.operator, application="turno-cli") as operator:
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
