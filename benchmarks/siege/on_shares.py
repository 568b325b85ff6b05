"""Attacks on the shares of tenants: of the workers, of the places for jobs, of the disk, of the web's time (C)."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.http_client import ask
from benchmarks.siege.attack import Attack, Ending, both, of_answers, of_job
from benchmarks.siege.on_web import ACCEPTED, OK, PATH, SOON
from benchmarks.siege.target import CHILDREN, ENDED, LONGEST_ANSWER, in_its_attempt
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.http_client import Answer
    from benchmarks.siege.target import Target

CHURNED = 60  # large payloads, at least
QUOTA = 20  # open jobs of one user, by default
LONG, LONGER = 10_000, 50_000  # orders of a batch
UNAUTHENTICATED = 401
TOO_MANY = 429
MOST_OPEN = 1_000  # the product's limit of jobs that enqueue jobs, per user
AT_ONCE = 200  # jobs that one of these jobs enqueues
SOON_ENOUGH = 1.0  # seconds in which a job of the victim's begins while all children are another's
LONGEST_WAIT = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(run_at))::float, 0) AS seconds
FROM background_jobs WHERE type = 'batch_invoicing' AND status = 'pending' AND run_at <= clock_timestamp()
"""
MULTIPLY = f"""
    FOR i IN 1..{AT_ONCE} LOOP
        PERFORM FROM background_jobs me, job_enqueue_child(
            job, token, jsonb_build_array(jsonb_build_object(
                'type', me.type, 'version', me.version, 'queue', me.queue, 'priority', me.priority,
                'max_attempts', me.max_attempts, 'payload', me.payload)))
        WHERE me.id = job;
    END LOOP;
"""


def long_jobs(target: Target, seconds: float) -> Callable[[], Ending]:
    """Have one user submit twice as many long batches as there are children: as long as allowed, and longer."""
    too_long = target.ask("long", "POST", PATH, _batch(LONGER))
    answers = [target.ask("long", "POST", PATH, _batch(LONG)) for _ in range(2 * CHILDREN)]
    end, most, waited = time.monotonic() + max(seconds, 3.0), 0, 0.0
    while time.monotonic() < end:
        most = max(most, _running(target))
        waited = max(waited, target.rows(LONGEST_WAIT, tenant=target.victim)[0]["seconds"])
        time.sleep(0.1)
    _cancel(target, "long", [too_long, *answers])
    reply = f"held {most} of {CHILDREN} children; the victim waited for up to {waited:.2f} s"
    fairness = Ending(most < CHILDREN or waited < SOON_ENOUGH, reply)
    return lambda: both(fairness, of_answers([too_long, *answers], fine=(ACCEPTED,), within=SOON))


def quota_evasion(target: Target, _seconds: float) -> Callable[[], Ending]:
    """Submit and cancel more jobs than one may have, then retry all of them."""
    cancelled = []
    for _ in range(QUOTA + 10):
        answer = target.ask("evader", "POST", PATH, _batch(2_000))
        if answer.status == ACCEPTED:
            cancelled.append(answer)
            _cancel(target, "evader", [answer])
    answers = [target.ask("evader", "POST", f"/api/jobs/{_job(answer)}/retry", {}) for answer in cancelled]
    at_once = len(target.rows("SELECT FROM background_jobs WHERE user_id = 'evader' AND finished_at IS NULL"))
    _cancel(target, "evader", answers)
    kept = Ending(at_once <= QUOTA, f"{at_once} open at once, {len(cancelled)} submitted")
    return lambda: both(kept, of_answers(answers, fine=(ACCEPTED,), within=SOON))


def payload_churn(target: Target, seconds: float) -> Callable[[], Ending]:
    """Submit large payloads and cancel them, again and again: cancelled jobs stay for a month."""
    largest = json.dumps({"payload": {"order_ids": [10**17 + i for i in range(LONG)]}}).encode()
    answers: list[Answer] = []
    end = time.monotonic() + seconds
    numbers = count()
    while (time.monotonic() < end or len(answers) < CHURNED) and not _limited(answers):
        # Each with separate users: the limit of a user is not the limit of a tenant.
        user = f"churner{next(numbers) % 5}"
        answers.append(target.ask(user, "POST", PATH, largest, **{"Idempotency-Key": str(uuid4())}))
        _cancel(target, user, answers[-1:])
    accepted = sum(answer.status == ACCEPTED for answer in answers)
    grown = Ending(_limited(answers), f"{accepted * len(largest) / 1e6:.1f} MB stored in {seconds:.1f} s")
    return lambda: both(grown, of_answers(answers, fine=(ACCEPTED,), within=SOON))


def _limited(answers: list[Answer]) -> bool:
    return any(answer.status == TOO_MANY for answer in answers)


def wrong_tokens(target: Target, seconds: float) -> Callable[[], Ending]:
    """Guess tokens, from many clients."""
    good = target.person("guesser").headers
    wrong = good | {"Authorization": good["Authorization"][:-6] + "wrong0"}
    answers = target.crowd(
        32, seconds, lambda _: ask(target.web.port, "GET", "/api/jobs", wrong, timeout=LONGEST_ANSWER)
    )
    return lambda: of_answers(answers, within=SOON)


def multiplying_jobs(target: Target, seconds: float) -> Callable[[], Ending]:
    """Have a job enqueue two hundred like itself, each of which does the same; then an operator pauses the tenant."""
    first = target.in_a_job(in_its_attempt(MULTIPLY), user="multiplier")
    target.reaches(first, *ENDED)
    time.sleep(max(seconds, 2.0))
    of_user = "SELECT FROM background_jobs WHERE user_id = 'multiplier' AND finished_at IS NULL"
    at_once = len(target.rows(of_user))
    _stop(target, "multiplier")
    # Concurrent jobs may each count the same free capacity.
    few = Ending(at_once <= MOST_OPEN + CHILDREN * AT_ONCE, f"one job became {at_once} open ones")
    return lambda: both(few, of_job(target.job(first), may_complete=True))


def _stop(target: Target, user: str) -> None:
    pause = "UPDATE turno.tenants SET paused_at = %s WHERE id = %s RETURNING id"
    target.rows(pause, "now", target.mallory.id)
    wait_until(lambda: not _running(target), within=target.patience)
    of_user = "SELECT id FROM background_jobs WHERE user_id = %s"
    target.rows(f"DELETE FROM turno.tickets WHERE job_id IN ({of_user}) RETURNING job_id", user)  # noqa: S608
    target.rows(pause, None, target.mallory.id)


def _running(target: Target) -> int:
    return len(target.rows("SELECT FROM turno.tickets WHERE tenant_id = %s AND state = 'running'", target.mallory.id))


def _batch(orders: int) -> dict[str, Any]:
    # No tenant has these orders: each becomes an item's error, which takes time like any other.
    return {"payload": {"order_ids": list(range(1_000_000_000, 1_000_000_000 + orders)), "point_of_sale": 1}}


def _job(answer: Answer) -> str:
    return str(json.loads(answer.body)["job_id"])


def _cancel(target: Target, user: str, answers: list[Answer]) -> None:
    for answer in answers:
        if answer.status in {OK, ACCEPTED}:
            target.ask(user, "POST", f"/api/jobs/{_job(answer)}/cancel", {})


ON_SHARES = (
    Attack("long jobs for every child", "C", "HTTP", long_jobs),
    Attack("a quota evaded by cancel and retry", "C", "HTTP", quota_evasion),
    Attack("large payloads submitted and cancelled", "C", "HTTP", payload_churn),
    Attack("a flood of wrong tokens", "C", "HTTP", wrong_tokens),
    Attack("jobs that enqueue jobs like themselves", "C", "a handler's SQL", multiplying_jobs),
)
