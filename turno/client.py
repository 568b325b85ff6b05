"""An HTTP client of jobs, files and schedules of one tenant and user; it needs the standard library only.

client = Client("https://turno.example", tenant="suc0001", token=read_token)
job = client.submit("batch_invoicing", {"order_ids": [10248]}, key="june-batch")
job = client.wait(job, timeout=60)
"""

import json
import random
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, NoReturn, Self, cast
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from turno.errors import TurnoError

__all__ = ["Client", "ClientError", "Job", "NotEnded", "Refused", "Unavailable"]

Status = Literal["accepted", "pending", "running", "completed", "failed", "cancelled"]
Outcome = Literal["completed", "completed_with_failures", "nothing_done", "failed", "cancelled", "expired"]
ENDED = frozenset({"completed", "failed", "cancelled"})
LONGEST_WAIT_SECONDS = 30  # seconds of waiting in one request, of any longer wait
POLL_SECONDS = 2.0
RECONNECT_SECONDS = 2.0
QUIET_SECONDS = 45.0  # seconds after which a stream counts as lost: the server sends something every 15 s
NO_CONTENT = 204
DONE = frozenset({200, 201, 202, NO_CONTENT})
# Statuses after which the same request may succeed: a limit, and proxies and servers that are not ready.
AGAIN = frozenset({429, 502, 503, 504})
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
LONGEST_SHOWN = 200  # characters of an answer that is no problem document

Token = str | Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as of one answer of the API; `body` is the whole answer.

    An open job has the `outcome` None. A job that ran to its end has the status `completed`, and the outcome
    `completed`, `completed_with_failures` if some of its items failed, or `nothing_done` if all did. The status
    `accepted` is that of a submission. Where background jobs are disabled the server completes the job within the
    request: it then has neither an id nor an outcome.
    """

    id: str
    status: Status
    outcome: Outcome | None = None
    revision: int = -1
    label: str = ""
    result: Any = None
    error: dict[str, Any] | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        """Whether it is over, however it ended."""
        return self.status in ENDED

    @classmethod
    def of(cls, body: dict[str, Any]) -> Self:
        """Return the job of an answer."""
        return cls(
            id=body.get("job_id", ""),
            status=cast("Status", body["status"]),
            outcome=body.get("outcome"),
            revision=body.get("revision", -1),
            label=body.get("label", ""),
            result=body.get("result"),
            error=body.get("error"),
            progress=body.get("progress") or {},
            body=body,
        )


class ClientError(TurnoError):
    """The root of all errors of `turno.client`.

    `status` is the answer's, None if there was none. The other attributes are fields of its problem document (RFC
    9457): `kind` is the end of its `type`, `instance` the id of the error in the server's log, `errors` the invalid
    fields with their errors. `retry_after` is in seconds.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.status, self.problem, self.retry_after = status, dict(problem or {}), retry_after
        self.kind: str = str(self.problem.get("type", "")).rpartition("#")[2]
        self.title: str = str(self.problem.get("title", ""))
        self.detail: str = str(self.problem.get("detail", text))
        self.instance: str | None = self.problem.get("instance")
        self.errors: list[dict[str, str]] = self.problem.get("errors", [])
        self.limit: str | None = self.problem.get("limit")


class Refused(ClientError):
    """The server would give the same answer again: correct the named problem."""


class Unavailable(ClientError):
    """No answer could be had in the time that the client tries: the same call may be made again, later."""


class NotEnded(ClientError):
    """The time to wait is over, and the job continues; `job` is its present state."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"Job {job.id} has not ended yet: it is {job.label or job.status}")
        self.job = job


class Event(NamedTuple):
    """One event; `retry` is the server's pause in seconds before a new connection, None without one."""

    kind: str
    data: Any
    retry: float | None


def events_of(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a stream, without comments and incomplete events."""
    kind, data, retry = "message", list[str](), None
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Event(kind, json.loads("\n".join(data)), retry)
            kind, data = "message", []
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "retry" and value.isdigit():
            retry = int(value) / 1000


class Answer(NamedTuple):
    """The answer, and the seconds until the next request, if the server names them."""

    body: dict[str, Any]
    retry_after: float | None


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
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname or address.query or address.fragment:
            raise ValueError(f"url must be an address such as https://turno.example, not {url!r}")
        self._base_url = address
        self.tenant = tenant
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._context = context

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
        return Job.of(self._ask("POST", path, body, headers, wait=wait).body)

    def get(self, job: Job | str, *, wait: int = 0) -> Job:
        """Return the job; with `wait`, when it has ended, or after these seconds at most."""
        return Job.of(self._ask_for(job, wait).body)

    def wait(self, job: Job | str, timeout: float | None = None) -> Job:
        """Return the job when it has ended; raises NotEnded after `timeout` seconds."""
        over = None if timeout is None else monotonic() + timeout
        while True:
            left = LONGEST_WAIT_SECONDS if over is None else over - monotonic()
            began = monotonic()
            answer = self._ask_for(job, max(0, min(LONGEST_WAIT_SECONDS, int(left))))
            current = Job.of(answer.body)
            if current.ended:
                return current
            if over is not None and monotonic() >= over:
                raise NotEnded(current)
            # A server that could not keep the request names the time of the next request.
            pause = answer.retry_after or POLL_SECONDS
            if monotonic() - began < pause:
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
        self._ask("POST", f"{_address(job)}/cancel")

    def retry(self, job: Job | str) -> Job:
        """Continue a failed or cancelled job, or the failed items of a completed job, by a new job, and return it.

        Raises Refused with status 409 for any other job. A repeated call returns the same new job.
        """
        return Job.of(self.request("POST", f"{_address(job)}/retry"))

    def jobs(self, **filters: str | int) -> Iterator[Job]:
        """Yield the jobs of the user, newest first; `filters` are parameters of GET /api/jobs such as `status`."""
        return map(Job.of, self._listed("/api/jobs", "jobs", filters))

    def upload(self, name: str, content: bytes) -> str:
        """Store a file for a job to read; return its id."""
        file = self.request("POST", "/api/files", {"name": name, "size": len(content)})
        size = file["piece_bytes"]
        for number in range(-(-len(content) // size)):
            piece = content[number * size : (number + 1) * size]
            self.request("PUT", f"/api/files/{file['file_id']}/pieces/{number}", piece)
        return str(file["file_id"])

    def schedules(self) -> Iterator[dict[str, Any]]:
        """Yield the schedules of the user, by name and without payloads."""
        return self._listed("/api/schedules", "schedules", {})

    def save_schedule(self, name: str, **schedule: Any) -> dict[str, Any]:
        """Add or replace a schedule and return it; `schedule` has the fields of PUT /api/schedules/<name>."""
        return self.request("PUT", f"/api/schedules/{quote(name, safe='')}", schedule)

    def remove_schedule(self, name: str) -> None:
        """Remove a schedule and its jobs for future moments; raises Refused with status 404 for an unknown name."""
        self.request("DELETE", f"/api/schedules/{quote(name, safe='')}")

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request to any route of the API, and return the JSON object of the answer, empty for a 204.

        `body` is sent as JSON, bytes as they are. Raises as every method does.
        """
        return self._ask(method, path, body, headers).body

    def _listed(self, path: str, name: str, parameters: Mapping[str, str | int]) -> Iterator[Any]:
        """Yield the rows of all pages of a list."""
        cursor: str | None = ""
        while cursor is not None:
            query = urlencode({**parameters, **({"cursor": cursor} if cursor else {})})
            page = self.request("GET", f"{path}?{query}" if query else path)
            yield from page[name]
            cursor = page["next_cursor"]

    def _ask_for(self, job: Job | str, wait: int) -> Answer:
        return self._ask("GET", _address(job) + (f"?wait={wait}" if wait else ""), wait=wait)

    def _stream(self, job: Job | str) -> Iterator[Event]:
        """Yield the events of one stream, until the server or the network ends it."""
        with self._opened("GET", f"{_address(job)}/stream", QUIET_SECONDS) as answer:
            for event in events_of(answer):
                if event.kind == "bye":
                    return
                yield event

    def _ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, wait: float = 0
    ) -> Answer:
        """Return the answer, which may take `wait` seconds longer than others.

        Raises Refused, or Unavailable when trying again did not help within the patience.
        """
        over, attempt = monotonic() + self._patience, 0
        while True:
            try:
                with self._opened(method, path, self._timeout + wait, body, headers) as answer:
                    text = answer.read() if answer.status != NO_CONTENT else b"{}"
                    if (value := _object_in(text)) is not None:
                        return Answer(value, retry_after_of(answer))
                    raise Refused(f"the answer is not a JSON object: {text[:LONGEST_SHOWN]!r}", status=answer.status)
            except Unavailable as error:
                pause = error.retry_after if error.retry_after is not None else _pause(attempt)
                if monotonic() + pause > over:
                    raise
            sleep(pause)
            attempt += 1

    @contextmanager
    def _opened(
        self, method: str, path: str, timeout: float, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[HTTPResponse]:
        """Yield the successful response to a request; raises as `_ask` does, also for an error while it is read."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        token = self._token() if callable(self._token) else self._token
        about = {"Authorization": f"Bearer {token}", "X-Schema": self.tenant, "User-Agent": "turno.client"}
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        about |= {} if sent is None else {"Content-Type": kind}
        host, port = self._base_url.hostname or "", self._base_url.port
        connection = HTTPConnection(host, port, timeout=timeout)
        if self._base_url.scheme == "https":
            connection = HTTPSConnection(host, port, timeout=timeout, context=self._context)
        try:
            connection.request(method, self._base_url.path.rstrip("/") + path, sent, about | dict(headers or {}))
            answer = connection.getresponse()
            if answer.status not in DONE:
                _refuse(answer)
            yield answer
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"{self._base_url.netloc} has an invalid certificate: {error.verify_message}") from error
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{self._base_url.netloc} did not answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()


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


def retry_after_of(answer: HTTPResponse) -> float | None:
    """Return the seconds of Retry-After; None without it, and for a date."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _refuse(answer: HTTPResponse) -> NoReturn:
    body = answer.read()
    problem = _object_in(body) or {}
    text = str(problem.get("detail") or body.decode("utf-8", "replace")[:LONGEST_SHOWN] or answer.reason)
    kind: type[ClientError] = Unavailable if answer.status in AGAIN else Refused
    raise kind(f"{answer.status}: {text}", status=answer.status, problem=problem, retry_after=retry_after_of(answer))


def _object_in(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _pause(attempt: int) -> float:
    # Twice as long each time, and not all clients at once.
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**attempt) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
