"""An attempt's end, its ledger and its progress beside a rescue or a command of the web."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.integration.store.interleavings.scenarios import Scenarios
from tests.integration.store.interleavings.shared_job import NOW, SharedJob
from tests.integration.store.interleavings.steps import (
    Steps,
    completes,
    does,
    fails,
    in_attempt,
    in_transaction,
    progresses,
    releases,
)

SCENARIOS = Scenarios()


@SCENARIOS.may_end(
    "handler completed, ended; engine rescues pending: pending after a crash ready",
    "handler completed; engine rescues gone: completed no ticket",
    "handler ended; engine rescues pending: pending after a crash ready",
)
def complete_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_attempt(completes(claim)), "engine rescues": in_transaction(job.rescues(claim))}


@SCENARIOS.may_end(
    "handler completed; engine rescues gone: completed no ticket",
    "handler lost; engine rescues pending: pending after a crash ready",
)
def complete_and_rescue_that_cannot_end_the_session(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started(by="handler before")
    return {"handler": in_attempt(completes(claim)), "engine rescues": in_transaction(job.rescues(claim))}


@SCENARIOS.may_end(
    "handler completed; web cancels ended: completed no ticket",
    "handler completed; web cancels requested: completed to cancel no ticket",
)
def complete_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_attempt(completes(claim)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler completed; engine rescues gone; engine claims nothing: completed no ticket",
    "handler lost; engine rescues pending; engine claims nothing: pending after a crash ready",
    "handler lost; engine rescues pending; engine claims taken: pending after a crash running",
)
def complete_and_rescue_and_another_claim(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started(by="handler before")
    return {
        "handler": in_attempt(completes(claim)),
        "engine rescues": [job.rescues(claim)],
        "engine claims": [job.claims()],
    }


@SCENARIOS.may_end(
    "handler done, completed, ended; engine rescues pending: pending after a crash ready",
    "handler done, completed; engine rescues gone: completed no ticket",
    "handler done, ended; engine rescues pending: pending after a crash ready",
    "handler ended; engine rescues pending: pending after a crash ready",
)
def items_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {
        "handler": [*in_attempt(does(claim, "a")), *in_attempt(completes(claim))],
        "engine rescues": in_transaction(job.rescues(claim)),
    }


@SCENARIOS.may_end(
    "handler done, completed, ended; engine rescues pending: pending after a crash ready",
    "handler done, completed; engine rescues gone: completed no ticket",
    "handler done, ended; engine rescues pending: pending after a crash ready",
    "handler done, lost; engine rescues pending: pending after a crash ready",
    "handler lost, lost; engine rescues pending: pending after a crash ready",
)
def items_and_rescue_that_cannot_end_the_session(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started(by="handler before")
    return {
        "handler": [*in_attempt(does(claim, "a")), *in_attempt(completes(claim))],
        "engine rescues": in_transaction(job.rescues(claim)),
    }


@SCENARIOS.may_end(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler pending; web cancels cancelled: cancelled after an error no ticket",
)
def fail_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_transaction(fails(claim, NOW)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler failed; web cancels ended: failed after an error no ticket",
)
def fail_for_good_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_transaction(fails(claim, None)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler failed; web retries accepted: failed after an error no ticket, pending ready",
    "handler failed; web retries not_retryable: failed after an error no ticket",
)
def fail_for_good_and_retry(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_transaction(fails(claim, None)), "web retries": in_transaction(job.retries())}


@SCENARIOS.may_end(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler pending; web cancels cancelled: cancelled no ticket",
)
def release_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler": in_transaction(releases(claim)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "handler shows lost; handler completed: completed no ticket",
    "handler shows shown; handler completed: completed no ticket",
)
def progress_and_complete(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"handler shows": in_transaction(progresses(claim)), "handler": in_attempt(completes(claim))}


@SCENARIOS.may_end(
    "handler shows lost; engine rescues pending: pending after a crash ready",
    "handler shows shown; engine rescues pending: pending after a crash ready",
)
def progress_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {
        "handler shows": in_transaction(progresses(claim)),
        "engine rescues": in_transaction(job.rescues(claim)),
    }


@pytest.mark.parametrize("name", SCENARIOS.names)
def test_every_order_ends_as_it_should(shared_job: SharedJob, name: str) -> None:
    SCENARIOS.check(name, shared_job)
