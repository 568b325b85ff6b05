"""Run as a separate process: users of a tenant submit jobs at fixed moments and follow each job to its end.

Each job is submitted at its moment, independent of the others, and a refused submission is repeated: the benchmark
measures the time until the user has the result.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.http_client import ask
from tests.stream_client import StreamClient

if TYPE_CHECKING:
    from benchmarks.http_client import Answer

PATIENCE = 8.0  # seconds until a user without an answer or an end gives up the job
POLL, AGAIN = 0.05, 0.25  # seconds between two readings of a job, and until a refused submission is repeated
AT_ONCE = 96  # concurrently waiting users
ACCEPTED = 202
GOOD = (200, ACCEPTED)


@dataclass(frozen=True, slots=True)
class Person:
    """A user, the headers that let them in, and the cookie that does so on the pages."""

    user: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Orders:
    """The address, the user, the job type, and the seconds between two jobs and between two readings.

    At `bare_port` is a web that no attacker knows: its answers depend on the load of the machine.
    """

    port: int
    bare_port: int
    people: list[Person]
    order_ids: list[int]
    submit_every: float
    read_every: float

    @classmethod
    def read(cls, text: str) -> Orders:
        """Return the configuration from the benchmark."""
        result = json.loads(text)
        return cls(**result | {"people": [Person(**person) for person in result["people"]]})


@dataclass(slots=True)
class VictimReport:
    """The victim's samples as (kind, Unix time of the moment, milliseconds), and the count of each refusal.

    `requested` has the user and idempotency key of each submission, `jobs` the accepted submissions by job id.
    """

    samples: list[tuple[str, float, float]] = field(default_factory=list)
    requested: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)


class Victim:
    """Submits and follows jobs until the end of the input."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._reply = VictimReport()
        self._lock = Lock()
        self._enough = Event()

    def run(self) -> VictimReport:
        """Work until the input ends, then see every job that was begun to its end."""
        Thread(target=self._wait_for_the_end, daemon=True).start()
        with ThreadPoolExecutor(AT_ONCE) as people:
            beside = [
                people.submit(self._at_moments, people, self._orders.read_every, work)
                for work in (self._look_around, self._ask_the_bare_web)
            ]
            self._at_moments(people, self._orders.submit_every, self._have_done)
            for item in beside:
                item.result()
        return self._reply

    def _wait_for_the_end(self) -> None:
        sys.stdin.read()
        self._enough.set()

    def _at_moments(self, people: ThreadPoolExecutor, every: float, work: Any) -> None:
        begin, number = time.time(), 0
        while not self._enough.wait(max(0.0, begin + number * every - time.time())):
            people.submit(work, number, begin + number * every)
            number += 1

    def _look_around(self, number: int, moment: float) -> None:
        person = self._orders.people[number % len(self._orders.people)]
        self._ask_until_answered("list", moment, person, "GET", "/api/jobs?limit=10")

    def _ask_the_bare_web(self, _number: int, moment: float) -> None:
        answer = ask(self._orders.bare_port, "POST", "/", {}, timeout=PATIENCE)
        if answer.status == ACCEPTED:
            self._note("bare", moment, time.time())
        else:
            self._refused(f"bare {answer.status}")

    def _have_done(self, number: int, moment: float) -> None:
        person = self._orders.people[number % len(self._orders.people)]
        key = f"{person.user}-{number}"
        order = self._orders.order_ids[number % len(self._orders.order_ids)]
        with self._lock:
            self._reply.requested.append((person.user, key))
        answer = self._ask_until_answered(
            "POST", moment, person, "POST", "/api/jobs/batch_invoicing", key=key, order=order
        )
        if answer is None:
            return
        job_id = json.loads(answer.body)["job_id"]
        with self._lock:
            self._reply.jobs[job_id] = (person.user, key)
        follow = self._stream if number % 2 else self._poll
        follow(person, job_id, moment + PATIENCE)
        # Also for a job without an observed end: so long they waited in vain.
        self._note("followed", moment, time.time())

    def _poll(self, person: Person, job_id: str, until: float) -> None:
        while time.time() < until:
            answer = self._ask_until_answered("GET", time.time(), person, "GET", f"/api/jobs/{job_id}")
            if answer is not None and json.loads(answer.body)["finished_at"] is not None:
                return
            time.sleep(POLL)

    def _stream(self, person: Person, job_id: str, until: float) -> None:
        moment, opened = time.time(), False
        while time.time() < until:
            try:
                with StreamClient(self._orders.port, f"/api/jobs/{job_id}/stream", person.headers) as stream:
                    if stream.status in GOOD:
                        stream.until("ready")
                        if not opened:
                            self._note("stream", moment, time.time())
                        opened = True
                        stream.until("bye", within=max(0.0, until - time.time()))
                        return
                    self._refused(f"stream {stream.status}")
            except (OSError, EOFError, AssertionError) as error:
                self._refused(f"stream {type(error).__name__}")
            time.sleep(AGAIN)
        if not opened:
            self._note("stream", moment, time.time())

    def _ask_until_answered(
        self, what: str, moment: float, person: Person, method: str, path: str, *, key: str = "", order: int = 0
    ) -> Answer | None:
        """Ask until it is granted; None for a job that exceeded the patience, which also counts as a sample."""
        body = json.dumps({"payload": {"order_ids": [order], "point_of_sale": 1}}).encode() if key else b""
        headers = person.headers | ({"Idempotency-Key": key} if key else {})
        while (left := moment + PATIENCE - time.time()) > 0:
            answer = ask(self._orders.port, method, path, headers, body, timeout=left)
            if answer.status in GOOD:
                self._note(what, moment, time.time())
                return answer
            self._refused(f"{what} {answer.status or answer.body.decode(errors='replace')[:60]}")
            time.sleep(AGAIN)
        self._note(what, moment, time.time())
        return None

    def _note(self, what: str, moment: float, now: float) -> None:
        with self._lock:
            self._reply.samples.append((what, moment, (now - moment) * 1000))

    def _refused(self, how: str) -> None:
        with self._lock:
            self._reply.refusals[how] = self._reply.refusals.get(how, 0) + 1


def main() -> None:
    """Read the configuration from the first input line, and write the observations at the end of the input."""
    json.dump(asdict(Victim(Orders.read(sys.stdin.readline())).run()), sys.stdout)
