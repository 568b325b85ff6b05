"""Submit jobs, and learn how they end."""

import ssl
from collections.abc import Iterator
from datetime import datetime
from time import monotonic, sleep
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

from turno.client.connection import Answer, Connection, Token
from turno.client.errors import NotEnded, Refused, Unavailable
from turno.client.events import Event, events_of
from turno.client.job import Job

ASKED_WAIT_SECONDS = 30  # seconds of waiting in one request, of any longer wait
POLL_SECONDS = 2.0
RECONNECT_SECONDS = 2.0
QUIET_SECONDS = 45.0  # seconds after which a stream counts as lost: the server sends something every 15 s


class Client:
    """One user of one tenant; threads may share it. Every method raises children of ClientError, and nothing else.

    `token` is a token, or a function that returns a fresh token for each request. The client repeats a request that a
    limit, a restart or the network prevented, for `patience` seconds; `timeout` limits each try. A submission has one
    Idempotency-Key each time it is sent, so that it is one job.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str,
        token: Token,
        timeout: float = 10.0,
        patience: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`url` is where Turno is, with the path it is mounted at; raises ValueError unless it is http or https."""
        self._connection = Connection(
            url, tenant=tenant, token=token, timeout=timeout, patience=patience, context=context
        )

    def submit(
        self,
        job_type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        wait: int = 0,
        run_at: datetime | None = None,
        run_in: float | None = None,
        expires_at: datetime | None = None,
        priority: Literal["urgent", "normal", "low"] = "normal",
    ) -> Job:
        """Submit a job; with `wait`, return its end if it ends within these seconds.

        `key` identifies the request, such as the number of an order: calls with the same key and payload are one job,
        also from other processes. Without one, each call is another job. `run_in` is a delay in seconds.
        """
        body: dict[str, Any] = {"payload": payload, "priority": priority}
        body |= {name: at.isoformat() for name, at in (("run_at", run_at), ("expires_at", expires_at)) if at}
        body |= {} if run_in is None else {"run_in": run_in}
        headers = {"Idempotency-Key": key or uuid4().hex}
        path = f"/api/jobs/{quote(job_type, safe='')}" + (f"?wait={wait}" if wait else "")
        return Job.of(self._connection.ask("POST", path, body, headers, wait=wait).body)

    def get(self, job: Job | str, *, wait: int = 0) -> Job:
        """Return the job; with `wait`, when it has ended, or after these seconds at most."""
        return Job.of(self._ask_for(job, wait).body)

    def wait(self, job: Job | str, timeout: float | None = None) -> Job:
        """Return the job when it has ended; raises NotEnded after `timeout` seconds."""
        over = None if timeout is None else monotonic() + timeout
        while True:
            left = ASKED_WAIT_SECONDS if over is None else over - monotonic()
            asked = monotonic()
            answer = self._ask_for(job, max(0, min(ASKED_WAIT_SECONDS, int(left))))
            found = Job.of(answer.body)
            if found.ended:
                return found
            if over is not None and monotonic() >= over:
                raise NotEnded(found)
            # A server that could not keep the request names the time of the next request.
            pause = answer.retry_after or POLL_SECONDS
            if monotonic() - asked < pause:
                sleep(pause if over is None else min(pause, max(0.0, over - monotonic())))

    def follow(self, job: Job | str) -> Iterator[Job]:
        """Yield the present job and each change, until its end with all data.

        A broken stream is opened again; without a stream the client polls the job. Each state is yielded once, in
        order.
        """
        last: Job | None = None
        while True:
            pause = RECONNECT_SECONDS
            try:
                for event in self._stream(job):
                    pause = event.retry or pause
                    if event.kind == "job" and _is_news(seen := Job.of(event.data), last):
                        last = seen
                        yield seen
            except Unavailable as error:
                pause = error.retry_after or pause
            # A stream omits long fields, and changes without a stream are found here.
            now = self.get(job)
            if now.ended or _is_news(now, last):
                last = now
                yield now
            if now.ended:
                return
            sleep(pause)

    def cancel(self, job: Job | str) -> None:
        """Cancel a waiting job, or ask a running one to stop; raises Refused with status 409 if it has ended."""
        self._connection.ask("POST", f"{_address(job)}/cancel")

    def _ask_for(self, job: Job | str, wait: int) -> Answer:
        path = _address(job) + (f"?wait={wait}" if wait else "")
        return self._connection.ask("GET", path, wait=wait)

    def _stream(self, job: Job | str) -> Iterator[Event]:
        """Yield the events of one stream, until the server or the network ends it."""
        with self._connection.opened("GET", f"{_address(job)}/stream", timeout=QUIET_SECONDS) as answer:
            for event in events_of(answer):
                if event.kind == "bye":
                    return
                yield event


def _is_news(job: Job, last: Job | None) -> bool:
    """Return whether this state is open, and newer than the last yielded state."""
    if job.ended or last is None:
        return not job.ended
    return job.revision >= last.revision and (job.revision, job.label) != (last.revision, last.label)


def _address(job: Job | str) -> str:
    known = job.id if isinstance(job, Job) else job
    if not known:
        raise Refused("this job was done within its request, so it has no address")
    return f"/api/jobs/{quote(known, safe='')}"
