"""The steps of a scenario's sessions: in a transaction, in a job's attempt, and at the gate of an INSERT."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nemesis.effects import EFFECT, THE_END
from tests import attempt_steps
from tests.permutations import Session, Step
from turno.jobs.job import Claim
from turno.store.handler import attempts

GATE = 1  # an advisory lock
Steps = list[Step]


def in_transaction(*steps: Step, end: str = "COMMIT") -> Steps:
    """Play the steps in one transaction, and its end as a separate step."""

    def first(session: Session) -> object:
        session.execute("BEGIN")
        return steps[0](session)

    def last(session: Session) -> None:
        session.execute(end.encode())

    return [first, *steps[1:], last]


def in_attempt(*steps: Step) -> Steps:
    """Play the steps in the job's transaction, its beginning and its end as steps of their own."""

    def first(session: Session) -> None:
        attempt_steps.begin(session)

    def last(session: Session) -> None:
        session.execute("COMMIT")

    return [first, *steps, last]


def does(claim: Claim, key: str) -> Step:
    """Do a piece of work and enter it into the ledger; a refusal undoes both."""

    def step(handler: Session) -> str:
        handler.execute(EFFECT, (str(claim.job_id), key, str(claim.attempt)))
        attempts.items(handler, claim, [{"key": key, "state": "done"}], 1)
        return "done"

    return step


def completes(claim: Claim) -> Step:
    def step(handler: Session) -> str:
        handler.execute(EFFECT, (str(claim.job_id), THE_END, str(claim.attempt)))
        attempt_steps.complete(handler, claim, "{}")
        return "completed"

    return step


def fails(claim: Claim, retry_in: timedelta | None) -> Step:
    return lambda handler: attempt_steps.fail(handler, claim, "test", {"class": "Oops"}, retry_in)


def releases(claim: Claim) -> Step:
    return lambda handler: attempt_steps.release(handler, claim, "released", "test", datetime(2000, 1, 1, tzinfo=UTC))


def progresses(claim: Claim) -> Step:
    return lambda handler: attempts.progress(handler, claim, 1, 2, None) or "shown"


def starts(claim: Claim) -> Step:
    return lambda handler: "started" if attempt_steps.start(handler, claim, "test") else ""


def closes_gate(gate: Session) -> None:
    gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))


def opens_gate(gate: Session) -> None:
    gate.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
