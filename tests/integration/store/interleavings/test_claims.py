"""Claims and starts of a job beside any other event of the job."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.integration.store.interleavings.scenarios import Scenarios
from tests.integration.store.interleavings.shared_job import SharedJob
from tests.integration.store.interleavings.steps import Steps, in_transaction, starts

SCENARIOS = Scenarios()


@SCENARIOS.may_end(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 nothing: pending running",
)
def claim_and_claim(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    return {"engine 1": in_transaction(job.claims()), "engine 2": in_transaction(job.claims())}


@SCENARIOS.may_end(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 taken: pending running",
)
def claim_undone_and_claim(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    return {
        "engine 1": in_transaction(job.claims(), end="ROLLBACK"),
        "engine 2": in_transaction(job.claims()),
    }


@SCENARIOS.may_end(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 nothing: pending running",
)
def claim_next_and_claim_next(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    return {"engine 1": in_transaction(job.claims_next()), "engine 2": in_transaction(job.claims_next())}


@SCENARIOS.may_end(
    "engine claims nothing; engine rescues pending: pending after a crash ready",
    "engine claims taken; engine rescues pending: pending after a crash running",
)
def claim_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"engine claims": in_transaction(job.claims()), "engine rescues": in_transaction(job.rescues(claim))}


@SCENARIOS.may_end(
    "engine claims nothing; engine rescues pending: pending after a crash ready",
    "engine claims taken; engine rescues pending: pending after a crash running",
)
def claim_next_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {
        "engine claims": in_transaction(job.claims_next()),
        "engine rescues": in_transaction(job.rescues(claim)),
    }


@SCENARIOS.may_end(
    "engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine claims taken; web cancels requested: pending to cancel running",
)
def claim_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    return {"engine claims": in_transaction(job.claims()), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler started; web cancels requested: running to cancel running",
)
def start_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.claimed()
    return {"handler": in_transaction(starts(claim)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler lost; engine rescues pending: pending ready",
    "handler started; engine rescues pending: pending after a crash ready",
)
def start_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.claimed()
    return {"handler": in_transaction(starts(claim)), "engine rescues": in_transaction(job.rescues(claim))}


@SCENARIOS.may_end(
    "handler lost; web cancels cancelled; engine rescues pending: cancelled no ticket",
    "handler lost; web cancels requested; engine rescues cancelled: cancelled to cancel no ticket",
    "handler started; web cancels cancelled; engine rescues pending: cancelled after a crash no ticket",
    "handler started; web cancels requested; engine rescues cancelled: cancelled to cancel no ticket",
)
def start_and_cancel_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.claimed()
    return {
        "handler": in_transaction(starts(claim)),
        "web cancels": in_transaction(job.cancels()),
        "engine rescues": in_transaction(job.rescues(claim)),
    }


@pytest.mark.parametrize("name", SCENARIOS.names)
def test_every_order_ends_as_it_should(shared_job: SharedJob, name: str) -> None:
    SCENARIOS.check(name, shared_job)
