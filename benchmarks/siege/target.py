"""The installation under attack: a web, a pool, three tenants, and the interfaces that an attacker reaches."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from benchmarks.dispatch import insert_into_floor
from benchmarks.environment import open_environment
from benchmarks.http_client import ask
from benchmarks.resident import pss_megabytes, resident
from benchmarks.siege.victim import Person
from benchmarks.web_process import BARE, TURNO, serving, serving_process
from tenants.northwind.load import load_orders
from tests.misbehaving_handlers import FaultyOnce
from turno.commands.token import development_token
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.job import JobRef
from turno.jobs.new_job import NewJob, as_json
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.identity.session import call_as_api, handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin
from turno.tenancy.schema_migrations.files import packaged
from turno.testing.checker import ClientLog, Submission
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from benchmarks.environment import BenchEnvironment
    from benchmarks.http_client import Answer
    from benchmarks.web_process import WebProcess
    from turno.jobs.handler import JobHandler
    from turno.settings import Settings
    from turno.tenancy.identity.tenant import Tenant

CHILDREN = 4
ENDED = ("completed", "failed", "cancelled")
# Short heartbeats and limits, so that half a minute in production fits into a run.
HASTE = {
    "TURNO_HEARTBEAT_SECONDS": "1",
    "TURNO_DEAD_AFTER_SECONDS": "3",
    "TURNO_SHUTDOWN_GRACE_SECONDS": "2",
}
STREAMS = 200
WEB = HASTE | {
    "QUEUE_BACKEND": "pool",
    # Small, so that a run of seconds reaches them.
    "TURNO_LIMITS": f"streams={STREAMS},payload_mb_per_day_per_user=1,payload_mb_per_day_per_tenant=2",
}
ORDERS = range(830)
IN_ITS_ATTEMPT = """
DO $do$
DECLARE
    token uuid := current_setting('siege.token')::uuid;
    job uuid := current_setting('siege.job')::uuid;
BEGIN
    STATEMENTS
END $do$
"""
ENQUEUE_CHILD = "job_enqueue_child(job, token, %s)"
PAUSE = 0.25  # seconds between two requests of one client: the proxy stops floods of a socket
PARTING = 30.0  # seconds a pool may take to leave
LONGEST_ANSWER = 10.0  # seconds that an attacker waits


@dataclass(slots=True)
class Target:
    """The attacked installation. `mallory` is the hostile tenant, `victim` its neighbour, `third` will be removed."""

    bench: BenchEnvironment
    web: WebProcess
    bare_port: int
    mallory: Tenant
    victim: Tenant
    third: Tenant
    stack: ExitStack
    settings: Settings
    # Seconds that an attacker waits for its job; the description of the end waits five times as long.
    patience: float = 5.0
    log: ClientLog = field(default_factory=ClientLog)
    pool: subprocess.Popen[bytes] | None = None
    broken: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    # Over HTTP -----------------------------------------------------------------------------------

    def person(self, user: str, tenant: Tenant | None = None) -> Person:
        """Return a user of a tenant, by default of the hostile one."""
        slug = (tenant or self.mallory).slug
        token = _token(self.settings, user, slug)
        return Person(user, {"Authorization": f"Bearer {token}", "X-Schema": slug})

    def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Ask once as a user of the hostile tenant; `body` is bytes, or a value to encode as JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return ask(self.web.port, method, path, self.person(user).headers | headers, content, timeout=LONGEST_ANSWER)

    def page(self, user: str, path: str) -> Answer:
        """Open a page of the hostile tenant's as a browser does that is signed in."""
        token = self.person(user).headers["Authorization"].removeprefix("Bearer ")
        address = f"{path}?branch={self.mallory.slug}"
        return ask(self.web.port, "GET", address, {"Cookie": f"turno={token}"}, timeout=LONGEST_ANSWER)

    def crowd(self, clients: int, seconds: float, request: Callable[[int], Answer]) -> list[Answer]:
        """Repeat requests from `n` clients for a time; each waits a moment after each answer."""
        end = time.monotonic() + seconds

        def client(number: int) -> list[Answer]:
            answers = [request(number)]
            while time.monotonic() + PAUSE < end:
                time.sleep(PAUSE)
                answers.append(request(number))
            return answers

        with ThreadPoolExecutor(clients) as threads:
            return [answer for answers in threads.map(client, range(clients)) for answer in answers]

    def web_megabytes(self) -> float:
        """Return the memory of the process that answers."""
        return pss_megabytes(self.web.worker)

    # In a job, and as one -------------------------------------------------------------------------

    def session(self, tenant: Tenant | None = None) -> psycopg.Connection[Any]:
        """Log in as the hostile tenant's handlers do: Arbitrary SQL, outside any job."""
        current = read_tenant(self.bench.admin, (tenant or self.mallory).slug)
        assert current is not None  # noqa: S101 - the attacker was not removed
        return handler_session(
            self.bench.logins, HandlerLogin.of(current), application="turno-handler", kind=psycopg.Connection
        )

    def new_job(self, handler: type[JobHandler[Any]], payload: dict[str, Any], **changed: Any) -> NewJob:
        """Return a job of mallory's."""
        return NewJob.of(handler, payload, **{"backend": "pool", "user_id": "mallory"} | changed)

    def enqueue(self, new: NewJob, tenant: Tenant | None = None) -> UUID:
        """Enqueue as the web does, hint included."""
        owner = tenant or self.mallory
        with service_session(self.bench.logins, self.bench.logins.web, application="turno-web") as web:
            job_id: UUID = call_as_api(web, owner, ENQUEUE, submission(new))["job_id"]
        queue = queue_named("pool", self.settings)
        queue.offer(JobRef(owner.slug, job_id))
        queue.close()
        return job_id

    def promise(self, new: NewJob) -> UUID:
        """Enqueue a job of the victim's, which has to be completed."""
        job_id = self.enqueue(new, self.victim)
        self.log.answer(Submission(self.victim.slug, new.user_id, new.type, str(new.idempotency_key)), job_id)
        return job_id

    def enqueuing(self, new: NewJob, *, times: int = 1) -> str:
        """Return the SQL by which a job of mallory's enqueues such jobs; its own rows need no request."""
        with psycopg.connect(self.bench.url) as session:
            made = psycopg.ClientCursor(session).mogrify(ENQUEUE_CHILD, (as_json([new]),))
        return in_its_attempt(f"FOR i IN 1..{times} LOOP PERFORM made.job_id FROM {made} AS made; END LOOP;")

    def in_a_job(self, statement: str, handler: type[JobHandler[Any]] = FaultyOnce, *, user: str = "mallory") -> UUID:
        """Run arbitrary SQL in a job of mallory."""
        text = packaged().tenant.in_schema(statement, self.mallory.schema)
        return self.enqueue(self.new_job(handler, {"how": "run_sql_with_token", "text": text}, user_id=user))

    # What became of it -----------------------------------------------------------------------------

    @contextmanager
    def admin(self, tenant: Tenant | None = None) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """Lend a session of the superuser's in a tenant's schema: for acts of an operator, and for the judgement."""
        with psycopg.connect(self.bench.url, autocommit=True, row_factory=dict_row) as session:
            path = sql.Identifier((tenant or self.mallory).schema)
            session.execute(sql.SQL("SET search_path = {}, pg_catalog").format(path))
            yield session

    def rows(self, query: str, *parameters: Any, tenant: Tenant | None = None) -> list[dict[str, Any]]:
        """Read anything of a tenant's, by default of the hostile one's."""
        with self.admin(tenant) as session:
            return session.execute(query.encode(), parameters).fetchall()

    def job(self, job_id: UUID, tenant: Tenant | None = None) -> dict[str, Any] | None:
        """Return a job's row; an infinite time is no reason not to."""
        result = self.rows(
            "SELECT status, attempt, errors, crashes, error FROM background_jobs WHERE id = %s", job_id, tenant=tenant
        )
        return result[0] if result else None

    def reaches(self, job_id: UUID, *states: str, tenant: Tenant | None = None, within: float | None = None) -> bool:
        """Wait until a job is in one of these states."""
        question = "SELECT FROM background_jobs WHERE id = %s AND status = ANY (%s)"
        with self.admin(tenant) as session:
            return wait_until(
                lambda: session.execute(question, (job_id, list(states))).rowcount > 0,
                within=self.patience if within is None else within,
                every=0.05,
            )

    def ends(self, job_id: UUID, tenant: Tenant | None = None) -> dict[str, Any] | None:
        """Return the row of a job at its end, or at the end of the wait."""
        self.reaches(job_id, *ENDED, tenant=tenant, within=5 * self.patience)
        return self.job(job_id, tenant)

    # Whoever ends is started again, as an init system does -------------------------------------------

    def keep_the_pool(self, during: str) -> None:
        """Start the pool, or if it has ended note that and start it again."""
        with self._lock:
            if self.pool is not None and self.pool.poll() is None:
                return
            if self.pool is not None:
                self.broken.append(f"the pool ended unexpectedly with status {self.pool.returncode}: {during}")
            self.pool = self.stack.enter_context(
                resident(self.bench, handlers="benchmarks.siege.handlers:POOL", fewest=CHILDREN, most=CHILDREN, **HASTE)
            )

    def end_the_pool(self) -> None:
        """Terminate the pool, as a deployment does; note how if that was no good end."""
        assert self.pool is not None  # noqa: S101 - it was kept
        self.pool.terminate()
        if self.pool.wait(PARTING):
            self.broken.append(f"after SIGTERM the pool ended with status {self.pool.returncode}")

    def other_host(self) -> subprocess.Popen[bytes]:
        """Start the worker on the host that is going to be lost."""
        return self.stack.enter_context(
            resident(self.bench, handlers="benchmarks.siege.handlers:OTHER_HOST", fewest=1, most=2, **HASTE)
        )


@contextmanager
def open_target(patience: float) -> Iterator[Target]:
    """Install, add the tenants with their orders, and start web and pool; in the end all of it is gone."""
    with open_environment() as bench, ExitStack() as stack:
        mallory, victim, third = (bench.tenant(slug) for slug in ("mallory", "victim", "third"))
        for tenant in (mallory, victim):
            load_orders(bench.in_schema(tenant), ORDERS)
        bench.admin.execute("SET search_path = pg_catalog")
        web = stack.enter_context(serving_process(bench, TURNO, **WEB))
        insert_into_floor(bench)
        bare = stack.enter_context(serving(bench, BARE))
        target = Target(bench, web, bare, mallory, victim, third, stack, bench.settings(**WEB), patience)
        target.keep_the_pool("at the start")
        yield target


def in_its_attempt(statements: str) -> str:
    """Return a block that runs this as a running job with known `job` and `token`."""
    return IN_ITS_ATTEMPT.replace("STATEMENTS", statements)


@lru_cache
def _token(settings: Settings, user: str, slug: str) -> str:
    return development_token(settings, user=user, tenants=[slug])
