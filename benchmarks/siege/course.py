"""The run: calm, then the attacks in sequence, then calm again, with the same victim."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from benchmarks.environment import ROOT
from benchmarks.siege.attack import Ending, first_line
from benchmarks.siege.on_server import ON_SERVER
from benchmarks.siege.on_shares import ON_SHARES
from benchmarks.siege.on_web import ON_WEB
from benchmarks.siege.on_workers import ON_WORKERS
from benchmarks.siege.outcome import Done, Sample, SiegeReport, Window
from benchmarks.siege.target import CHILDREN, open_target
from benchmarks.siege.victim import Orders
from turno.testing.checker import Checker, Submission
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.siege.attack import Attack
    from benchmarks.siege.target import Target

ATTACKS = (*ON_WORKERS, *ON_WEB, *ON_SHARES, *ON_SERVER)
PEOPLE = 8
WARM_UP = 10  # jobs
SUBMIT_EVERY, READ_EVERY = 0.2, 0.1  # seconds
TYPE = "batch_invoicing"
JOBS = """
SELECT id, status, crashes, extract(epoch FROM created_at)::float AS created,
       extract(epoch FROM coalesce(finished_at, clock_timestamp()) - created_at)::float * 1000 AS took
FROM background_jobs WHERE type = %s
"""
ALL = "SELECT FROM background_jobs"
OPEN = "SELECT FROM background_jobs WHERE finished_at IS NULL"


@dataclass(frozen=True, slots=True)
class Plan:
    """The phases and their seconds: calm before and after, each attack.

    `patience` is how long an attacker waits for each of its jobs; a job without an end after five times this period is
    stuck.
    """

    attacks: tuple[Attack, ...] = ATTACKS
    calm: float = 30.0
    each: float = 6.0
    patience: float = 5.0


QUICK = Plan(calm=5.0, each=1.0, patience=2.5)
SMOKE = Plan(attacks=ATTACKS[:1], calm=1.0, each=0.5, patience=2.5)


def besiege(plan: Plan) -> SiegeReport:
    """Carry the plan out."""
    report = SiegeReport("siege", "ms")
    with open_target(plan.patience) as target:
        with _victim(target) as victim:
            wait_until(lambda: len(target.rows(ALL, tenant=target.victim)) >= WARM_UP, within=120, every=0.1)
            calm = [_calm(plan)]
            done, siege = _attack(target, plan)
            _settle(target, plan, report)
            if not report.facts["stuck"]:
                calm.append(_calm(plan))
            reply, _ = victim.communicate()
        _judge(target, json.loads(reply), report, done, calm=calm, siege=siege)
        target.end_the_pool()
        report.broken += target.broken
    return report


def _calm(plan: Plan) -> Window:
    began = time.time()
    time.sleep(plan.calm)
    return Window(began, time.time())


def _attack(target: Target, plan: Plan) -> tuple[list[Done], Window]:
    began, begun = time.time(), []
    for attack in plan.attacks:
        start = time.time()
        ending = _begin(target, attack, plan)
        target.keep_the_pool(attack.name)
        begun.append((attack, Window(start, time.time()), ending))
    siege = Window(began, time.time())
    with ThreadPoolExecutor(max(1, len(begun))) as threads:
        endings = threads.map(lambda item: _tell(item[2]), begun)
        done = [Done(attack, window, ending) for (attack, window, _), ending in zip(begun, endings, strict=True)]
    return done, siege


def _begin(target: Target, attack: Attack, plan: Plan) -> Callable[[], Ending]:
    try:
        return attack.begin(target, plan.each)
    except Exception as error:  # noqa: BLE001 - one attack that cannot be made hides no other
        ending = _unmade(error)
        return lambda: ending


def _tell(ending: Callable[[], Ending]) -> Ending:
    try:
        return ending()
    except Exception as error:  # noqa: BLE001 - the same
        return _unmade(error)


def _unmade(error: Exception) -> Ending:
    return Ending(decent=False, how=f"could not be made: {type(error).__name__}: {first_line(error)}")


def _settle(target: Target, plan: Plan, report: SiegeReport) -> None:
    """Wait for the victim's jobs, count the stuck jobs, and remove the attackers' remaining jobs."""
    target.keep_the_pool("at the end of the siege")
    since = time.time() - SUBMIT_EVERY
    wait_until(lambda: not _open_since(target, since), within=5 * plan.patience, every=0.2)
    report.facts["stuck"] = _open_since(target, since)
    if report.facts["stuck"]:
        report.broken.append(f"{report.facts['stuck']} jobs of the victim's do not end")
    target.rows("DELETE FROM turno.tickets WHERE tenant_id = %s RETURNING 1", target.mallory.id)


def _open_since(target: Target, since: float) -> int:
    return len(target.rows(f"{OPEN} AND created_at < to_timestamp(%s)", since, tenant=target.victim))


@contextmanager
def _victim(target: Target) -> Iterator[subprocess.Popen[str]]:
    people = [target.person(f"user{number}", target.victim) for number in range(PEOPLE)]
    ids = [row["id"] for row in target.rows("SELECT id FROM orders ORDER BY id", tenant=target.victim)]
    orders = Orders(target.web.port, target.bare_port, people, ids, SUBMIT_EVERY, READ_EVERY)
    with subprocess.Popen(
        [sys.executable, "-c", "from benchmarks.siege.victim import main; main()"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - opened with a pipe
        print(json.dumps(asdict(orders)), file=process.stdin, flush=True)
        try:
            yield process
        finally:
            process.kill()


def _judge(
    target: Target, reply: dict[str, Any], report: SiegeReport, done: list[Done], *, calm: list[Window], siege: Window
) -> None:
    for user, key in reply["requested"]:
        target.log.ask(Submission(target.victim.slug, user, TYPE, key))
    for job_id, (user, key) in reply["jobs"].items():
        target.log.answer(Submission(target.victim.slug, user, TYPE, key), UUID(job_id))
    rows = {str(row["id"]): row for row in target.rows(JOBS, TYPE, tenant=target.victim)}
    samples = [Sample(*sample) for sample in reply["samples"]]
    samples += [Sample("job", row["created"], row["took"]) for row in rows.values()]
    report.measure(samples, calm, siege)
    lost = sum(job not in rows or rows[job]["status"] in {"failed", "cancelled"} for job in reply["jobs"])
    report.facts |= {
        "lost": lost,
        "submitted": len(reply["jobs"]),
        "crashes": sum(row["crashes"] for row in rows.values()),
        "refusals": reply["refusals"],
        "children": CHILDREN,
        "siege_seconds": siege.ended - siege.began,
    }
    report.wanted |= {"lost": 0, "stuck": 0, "crashes": 0}
    report.tell(done, samples)
    if lost:
        report.broken.append(f"{lost} jobs of the victim's are lost")
    if report.facts["crashes"]:
        report.broken.append(f"jobs of the victim's were counted {report.facts['crashes']} crashes")
    report.broken += Checker(target.bench.url, [target.victim], log=target.log).violations()
