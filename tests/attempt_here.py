"""Run one attempt of a job in the test's own process: no worker, no fork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.store import tickets
from app.work.executor import Executor
from app.work.session import HandlerConnection
from app.work.sessions import Sessions
from app.work.stop import StopRequest
from tenants.session import handler_session
from tests.odd_handlers import REGISTRY

if TYPE_CHECKING:
    from uuid import UUID

    from app.jobs.claim import Claim
    from tests.world import World


def claim_here(world: World, job_id: UUID) -> Claim:
    """Claim a job for this process."""
    worker = tickets.start_worker(world.engine, backend="exec", host="test", pid=1)
    claim = tickets.claim_job(world.engine, worker, job_id, types=REGISTRY.versions)
    assert claim is not None
    return claim


def execute_here(world: World, claim: Claim) -> dict[str, Any]:
    """Run the attempt and return the job after it."""
    sessions = Sessions(lambda login: handler_session(world.logins, login, application="test", kind=HandlerConnection))
    Executor(registry=REGISTRY, sessions=sessions, worker="test", stop=StopRequest()).execute(claim)
    return world.job(claim.job_id, tenant=world.tenants[claim.login.slug])


def attempt(world: World, job_id: UUID) -> dict[str, Any]:
    """Claim a job, run one attempt of it and return the job after it."""
    return execute_here(world, claim_here(world, job_id))
