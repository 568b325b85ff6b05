"""The passes of maintenance beside each other and beside their objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from tests.integration.store.interleavings.scenarios import Scenarios
from tests.integration.store.interleavings.shared_job import SharedJob
from tests.integration.store.interleavings.steps import (
    Steps,
    closes_gate,
    completes,
    does,
    in_attempt,
    in_transaction,
    opens_gate,
)

SCENARIOS = Scenarios()


@SCENARIOS.may_end(
    "engine 1 gone; engine 2 pending; engine claims nothing: pending after a crash ready",
    "engine 1 gone; engine 2 pending; engine claims taken: pending after a crash running",
    "engine 1 pending; engine 2 gone; engine claims nothing: pending after a crash ready",
    "engine 1 pending; engine 2 gone; engine claims taken: pending after a crash running",
)
def rescue_and_rescue_and_another_claim(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {
        "engine 1": [job.rescues(claim)],
        "engine 2": [job.rescues(claim)],
        "engine claims": [job.claims()],
    }


@SCENARIOS.may_end(
    "handler done, completed; web cancels ended: completed no ticket",
    "handler done, completed; web cancels requested: completed to cancel no ticket",
)
def work_and_complete_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {
        "handler": in_attempt(does(claim, "a"), completes(claim)),
        "web cancels": in_transaction(job.cancels()),
    }


@SCENARIOS.may_end(
    "engine 1 gone; engine 2 pending: pending after a crash ready",
    "engine 1 pending; engine 2 gone: pending after a crash ready",
)
def rescue_and_rescue(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"engine 1": in_transaction(job.rescues(claim)), "engine 2": in_transaction(job.rescues(claim))}


@SCENARIOS.may_end(
    "engine rescues cancelled; web cancels requested: cancelled to cancel no ticket",
    "engine rescues pending; web cancels cancelled: cancelled after a crash no ticket",
)
def rescue_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"engine rescues": in_transaction(job.rescues(claim)), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "engine expires expired 0; engine claims taken: pending running",
    "engine expires expired 1; engine claims nothing: cancelled no ticket",
)
def expire_and_claim(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine expires": in_transaction(job.expires()), "engine claims": in_transaction(job.claims())}


@SCENARIOS.may_end(
    "engine expires expired 0; web cancels cancelled: cancelled no ticket",
    "engine expires expired 1; web cancels ended: cancelled no ticket",
)
def expire_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine expires": in_transaction(job.expires()), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "engine 1 expired 0; engine 2 expired 3: cancelled no ticket, cancelled no ticket, cancelled no ticket",
    "engine 1 expired 3; engine 2 expired 0: cancelled no ticket, cancelled no ticket, cancelled no ticket",
)
def expire_and_expire(job: SharedJob) -> Mapping[str, Steps]:
    for _ in range(3):
        job.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine 1": in_transaction(job.expires()), "engine 2": in_transaction(job.expires())}


@SCENARIOS.may_end(
    "engine repairs repaired 0; handler completed: completed no ticket",
)
def repair_and_complete(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    return {"engine repairs": in_transaction(job.repairs()), "handler": in_attempt(completes(claim))}


@SCENARIOS.may_end(
    "engine repairs repaired 1; handler lost: pending ready",
)
def repair_and_complete_without_a_ticket(job: SharedJob) -> Mapping[str, Steps]:
    claim = job.started()
    job.without_ticket()
    return {"engine repairs": in_transaction(job.repairs()), "handler": in_attempt(completes(claim))}


@SCENARIOS.may_end(
    "engine repairs repaired 0; web accepted: pending ready",
)
def repair_and_enqueue(job: SharedJob) -> Mapping[str, Steps]:
    return {"engine repairs": in_transaction(job.repairs()), "web": in_transaction(job.enqueues(None))}


@SCENARIOS.may_end(
    "engine repairs repaired 0; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; web cancels cancelled: cancelled no ticket",
)
def repair_and_cancel_without_a_ticket(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    job.without_ticket()
    return {"engine repairs": in_transaction(job.repairs()), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "engine repairs repaired 0; web cancels requested: running to cancel no ticket",
    "engine repairs repaired 1; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; web cancels requested: pending to cancel ready",
)
def repair_and_cancel_of_a_running_job_without_a_ticket(job: SharedJob) -> Mapping[str, Steps]:
    job.started()
    job.without_ticket()
    return {"engine repairs": in_transaction(job.repairs()), "web cancels": in_transaction(job.cancels())}


@SCENARIOS.may_end(
    "engine 1 repaired 0; engine 2 repaired 2: pending ready, pending ready",
    "engine 1 repaired 2; engine 2 repaired 0: pending ready, pending ready",
)
def repair_and_repair(job: SharedJob) -> Mapping[str, Steps]:
    job.started()
    job.without_ticket()
    job.waiting()
    job.without_ticket()
    return {"engine 1": in_transaction(job.repairs()), "engine 2": in_transaction(job.repairs())}


@SCENARIOS.may_end(
    "engine repairs repaired 1; engine claims nothing: pending ready",
    "engine repairs repaired 1; engine claims taken: pending running",
)
def repair_and_claim(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    job.without_ticket()
    return {"engine repairs": in_transaction(job.repairs()), "engine claims": in_transaction(job.claims())}


@SCENARIOS.may_end(
    "engine purges purged 0; web retries accepted: cancelled no ticket, pending ready",
    "engine purges purged 1; web retries accepted: pending ready",
    "engine purges purged 1; web retries unknown: no job",
)
def purge_and_retry(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago()
    return {"engine purges": in_transaction(job.purges()), "web retries": in_transaction(job.retries())}


@SCENARIOS.may_end(
    "engine 1 purged 0; engine 2 purged 1: no job",
    "engine 1 purged 1; engine 2 purged 0: no job",
)
def purge_and_purge(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago()
    return {"engine 1": in_transaction(job.purges()), "engine 2": in_transaction(job.purges())}


@SCENARIOS.may_end(
    "engine purges purged 1; web accepted: pending ready",
    "engine purges purged 1; web replayed: no job",
)
def purge_and_the_same_key(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago(idempotency_key="k")
    return {"engine purges": in_transaction(job.purges()), "web": in_transaction(job.enqueues("k"))}


@SCENARIOS.may_end(
    "engine purges purged 1; web accepted: pending ready",
    "engine purges purged 1; web replayed: no job",
)
def purge_within_an_enqueue_of_the_same_key(job: SharedJob) -> Mapping[str, Steps]:
    job.ended_long_ago(idempotency_key="k")
    return {
        "gate": [closes_gate, opens_gate],
        "engine purges": in_transaction(job.purges()),
        "web": in_transaction(job.enqueues("k")),
    }


@SCENARIOS.may_end(
    "engine repairs repaired 0; engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; engine claims taken; web cancels requested: pending to cancel running",
)
def repair_and_claim_and_cancel(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    job.without_ticket()
    return {
        "engine repairs": in_transaction(job.repairs()),
        "engine claims": in_transaction(job.claims()),
        "web cancels": in_transaction(job.cancels()),
    }


@SCENARIOS.may_end(
    "engine prunes pruned 0; engine lives alive; engine claims taken: pending running",
    "engine prunes pruned 1; engine lives dead; engine claims nothing: pending ready",
    "engine prunes pruned 1; engine lives dead; engine claims taken: pending orphan",
)
def prune_and_heartbeat_and_claim(job: SharedJob) -> Mapping[str, Steps]:
    job.waiting()
    job.example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '2 hours'")
    return {
        "engine prunes": in_transaction(job.prunes()),
        "engine lives": in_transaction(job.lives()),
        "engine claims": in_transaction(job.claims()),
    }


@SCENARIOS.may_end("engine 1 follows; engine 2 leads: no job", "engine 1 leads; engine 2 follows: no job")
def lease_and_lease(job: SharedJob) -> Mapping[str, Steps]:
    return {"engine 1": in_transaction(job.leads("one")), "engine 2": in_transaction(job.leads("two"))}


@SCENARIOS.may_end("engine 1 follows; engine 2 leads: no job", "engine 1 leads; engine 2 leads: no job")
def lease_undone_and_lease(job: SharedJob) -> Mapping[str, Steps]:
    return {
        "engine 1": in_transaction(job.leads("one"), end="ROLLBACK"),
        "engine 2": in_transaction(job.leads("two")),
    }


@pytest.mark.parametrize("name", SCENARIOS.names)
def test_every_order_ends_as_it_should(shared_job: SharedJob, name: str) -> None:
    SCENARIOS.check(name, shared_job)
