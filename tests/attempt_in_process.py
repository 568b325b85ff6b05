"""Run one attempt of a job in the test's own process, with the handlers that misbehave at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.misbehaving_handlers import REGISTRY
from turno.testing.in_process_worker import InProcessWorker

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job import Claim


def claim_in_process(example: ExampleInstallation, job_id: UUID) -> Claim:
    """Claim a job for this process."""
    claim = InProcessWorker(example, REGISTRY).claim(job_id)
    assert claim is not None
    return claim


def execute_in_process(example: ExampleInstallation, claim: Claim) -> dict[str, Any]:
    """Run the attempt and return the job after it."""
    InProcessWorker(example, REGISTRY).execute(claim)
    return example.job(claim.job_id, tenant=example.tenants[claim.login.slug])


def attempt(example: ExampleInstallation, job_id: UUID) -> dict[str, Any]:
    """Claim a job, run one attempt of it and return the job after it."""
    return execute_in_process(example, claim_in_process(example, job_id))
