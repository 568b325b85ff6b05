"""Keep tickets and the list of workers, as the engine; claims of what waits are in claims.py."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.numeric import Int2

from turno.jobs.claim import Claim
from turno.jobs.job import JobRef
from turno.store.one_row import value_of
from turno.tenancy.identity.tenant import CompanyLogin, HandlerLogin

Engine = psycopg.Connection[Any]
TypeVersion = tuple[str, int]
MOST_BRANCHES = 500  # of a report: they go to a child in one message, which has room for twice as many


def start_worker(
    engine: Engine,
    *,
    backend: str,
    host: str,
    pid: int,
    types: Sequence[TypeVersion] = (),
    queues: Sequence[str] | None = None,
) -> UUID:
    """Enter a worker into the list of the living, with what it can run, and return its id; no `queues` means any."""
    names, versions = in_step(types)
    worker: UUID = value_of(
        engine,
        "SELECT worker_start(%s, %s, %s, %s, %s, %s)",
        backend,
        host,
        pid,
        None if queues is None else list(queues),
        names,
        versions,
    )
    return worker


def keep_alive(engine: Engine, worker: UUID) -> set[UUID] | None:
    """Say that a worker lives; returns which of its jobs are to be stopped, None if it was declared dead."""
    to_stop: list[UUID] | None = value_of(engine, "SELECT worker_alive(%s)", worker)
    return None if to_stop is None else set(to_stop)


class Orders(NamedTuple):
    """What operators want of a worker: `request` is quiet, stop or None; `timeouts` are seconds, by job type."""

    request: str | None
    timeouts: dict[str, float]


def orders(engine: Engine, worker: UUID) -> Orders:
    """Return what operators want of a worker."""
    row = engine.execute("SELECT request, timeouts FROM worker_orders(%s)", (worker,)).fetchone()
    assert row is not None, "a function call returns a row"  # noqa: S101
    return Orders(*row)


def worth_staying(engine: Engine, worker: UUID, *, idle_for: timedelta, at_most: timedelta) -> bool:
    """Say whether a spawned, idle worker should wait for what is due soon, a sweep, or a silent worker's jobs.

    Of several that ask, the last to become idle is told so.
    """
    return bool(value_of(engine, "SELECT worth_staying(%s, %s, %s)", worker, idle_for, at_most))


def stop_worker(engine: Engine, worker: UUID) -> None:
    """Take a worker that ends in good order off the list."""
    engine.execute("SELECT worker_stop(%s)", (worker,))


def claim_job(engine: Engine, worker: UUID, job_id: UUID, *, types: Sequence[TypeVersion]) -> Claim | None:
    """Take one named job if it may run now, its type and version are known here and nobody else has it.

    It waits a moment where a cap is just being counted; None also means that the cap is reached.
    """
    names, versions = in_step(types)
    row = engine.execute("SELECT * FROM claim_job(%s, %s, %s, %s)", (worker, job_id, names, versions)).fetchone()
    return claim_of(row) if row else None


def unclaim(engine: Engine, job_id: UUID, token: UUID, wait: timedelta) -> None:
    """Give back a claim that no process was ever handed; nobody takes it before `wait` has passed."""
    engine.execute("SELECT unclaim(%s, %s, %s)", (job_id, token, wait))


def held(engine: Engine, worker: UUID) -> list[Claim]:
    """Return every claim that the tickets say this worker has."""
    return [claim_of(row) for row in engine.execute("SELECT * FROM held(%s)", (worker,)).fetchall()]


def unclaimed(
    engine: Engine,
    *,
    backend: str,
    queues: Sequence[str],
    types: Sequence[TypeVersion],
    waiting_for: timedelta,
    limit: int,
    without: Collection[str] = (),
) -> list[JobRef]:
    """Return ready jobs of a backend that a worker with these queues and types could take, and nobody did so long.

    Those of tenants whose slugs are in `without` are left out.
    """
    names, versions = in_step(types)
    rows = engine.execute(
        "SELECT job_id, slug FROM unclaimed(%s, %s, %s, %s, %s, %s, %s)",
        (backend, list(queues), names, versions, waiting_for, limit, list(without)),
    ).fetchall()
    return [JobRef(slug, job_id) for job_id, slug in rows]


def move_unserved(engine: Engine, backend: str, waiting_for: timedelta) -> int:
    """Stamp ready tickets that no one claimed for that long over to this backend; returns how many."""
    return int(value_of(engine, "SELECT move_unserved(%s, %s)", backend, waiting_for))


def promote(engine: Engine, limit: int) -> int:
    """Make up to `limit` due tickets ready; returns how many."""
    return int(value_of(engine, "SELECT promoted FROM promote(%s)", limit))


# The one channel; any role may send or listen there, so what arrives is never believed.
CHANNEL: LiteralString = "turno_jobs"


def wake(session: Engine) -> None:
    """Send the resident workers a hint that a job may be ready; never inside a business transaction.

    A notification queue that is half full gets no hint: polling finds the job.
    """
    session.execute("SELECT pg_notify(%s, '') WHERE pg_notification_queue_usage() < 0.5", (CHANNEL,))


def listen(engine: Engine) -> None:
    """Have this session hear the hints."""
    engine.execute("LISTEN " + CHANNEL)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A running ticket whose worker is gone."""

    job_id: UUID
    token: UUID
    type: str
    attempt: int
    tenant_id: int
    schema: str
    slug: str

    @property
    def log_fields(self) -> dict[str, str | int]:
        """Return what every log line about it carries."""
        return {"tenant": self.slug, "job_id": str(self.job_id), "type": self.type, "attempt": self.attempt}


def prune_workers(engine: Engine, silent_for: timedelta) -> int:
    """Take workers that were silent for that long, while somebody swept, off the list; returns how many."""
    return int(value_of(engine, "SELECT prune_workers(%s)", silent_for))


def silent_workers(engine: Engine, silent_for: timedelta) -> int:
    """Return how many workers were silent for that long, whether or not somebody swept."""
    return int(value_of(engine, "SELECT silent_workers(%s)", silent_for))


def orphans(engine: Engine, silent_for: timedelta | None = None) -> list[Orphan]:
    """Return running tickets without a living worker, at most a bounded number."""
    rows = engine.execute(
        "SELECT job_id, token, type, attempt, tenant_id, schema, slug FROM orphans(%s)", (silent_for,)
    ).fetchall()
    return [Orphan(*row) for row in rows]


def with_company(engine: Engine, claim: Claim) -> Claim:
    """Return the claim with the login that reads its company's branches; as it is if its tenant was removed.

    Raises psycopg.errors.ProgramLimitExceeded if there are more than MOST_BRANCHES.
    """
    row = engine.execute(
        "SELECT slug, report_role, login_epoch, branches, schemas FROM company_of(%s)", (claim.tenant_id,)
    ).fetchone()
    if row is None:
        return claim
    slug, role, epoch, branches, schemas = row
    if len(branches) > MOST_BRANCHES:
        said = f"company {slug} has {len(branches)} branches, and a report reads at most {MOST_BRANCHES}"
        raise psycopg.errors.ProgramLimitExceeded(said)
    login = HandlerLogin(slug=slug, schema=claim.login.schema, role=role, epoch=epoch)
    return replace(claim, company=CompanyLogin(login, dict(zip(branches, schemas, strict=True))))


def in_step(types: Sequence[TypeVersion]) -> tuple[list[str], list[Int2]]:
    """Return the types and their versions as two arrays for one statement."""
    return [name for name, _ in types], [Int2(version) for _, version in types]


def claim_of(row: tuple[Any, ...]) -> Claim:
    """Return the claim that a row of the type `claimed` says."""
    job_id, token, attempt, job_type, version, tenant_id, *login = row
    return Claim(
        job_id=job_id,
        token=token,
        attempt=attempt,
        type=job_type,
        version=version,
        tenant_id=tenant_id,
        login=HandlerLogin(*login),
    )
