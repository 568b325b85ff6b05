"""Two commands of the web on one job, or with one idempotency key."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.integration.store.interleavings.scenarios import Scenarios
from tests.integration.store.interleavings.shared_job import SharedJob
from tests.integration.store.interleavings.steps import Steps, in_transaction

SCENARIOS = Scenarios()


@SCENARIOS.may_end(
    "web 1 accepted; web 2 replayed: cancelled no ticket, pending ready",
    "web 1 replayed; web 2 accepted: cancelled no ticket, pending ready",
)
def retry_and_retry(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago()
    return {"web 1": in_transaction(job.retries()), "web 2": in_transaction(job.retries())}


@SCENARIOS.may_end(
    "web 1 accepted; web 2 accepted: cancelled no ticket, pending ready",
    "web 1 replayed; web 2 accepted: cancelled no ticket, pending ready",
)
def retry_undone_and_retry(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago()
    return {"web 1": in_transaction(job.retries(), end="ROLLBACK"), "web 2": in_transaction(job.retries())}


@SCENARIOS.may_end(
    "web 1 accepted; web 2 replayed: pending ready",
    "web 1 replayed; web 2 accepted: pending ready",
)
def same_key_twice(job: SharedJob) -> Mapping[str, Steps]:
    return {"web 1": in_transaction(job.enqueues("k")), "web 2": in_transaction(job.enqueues("k"))}


@SCENARIOS.may_end(
    "web 1 accepted; web 2 accepted: pending ready",
    "web 1 replayed; web 2 accepted: pending ready",
)
def same_key_undone_and_again(job: SharedJob) -> Mapping[str, Steps]:
    return {
        "web 1": in_transaction(job.enqueues("k"), end="ROLLBACK"),
        "web 2": in_transaction(job.enqueues("k")),
    }


@SCENARIOS.may_end(
    "web 1 accepted; web 2 conflict: pending ready",
    "web 1 conflict; web 2 accepted: pending ready",
)
def same_key_with_two_bodies(job: SharedJob) -> Mapping[str, Steps]:
    return {"web 1": in_transaction(job.enqueues("k")), "web 2": in_transaction(job.enqueues("k", 2))}


@pytest.mark.parametrize("name", SCENARIOS.names)
def test_every_order_ends_as_it_should(shared_job: SharedJob, name: str) -> None:
    SCENARIOS.check(name, shared_job)
