"""The injection and the end of each kind of fault."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import psycopg

from nemesis import database_faults
from nemesis.schedule import BROKER, DATABASE
from turno.testing import processes
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from nemesis.broker import FaultyBroker
    from nemesis.commit_link import CommitLink
    from nemesis.environment import Environment
    from nemesis.network import Network
    from nemesis.processes import Processes
    from nemesis.schedule import Fault
    from turno.tenancy.identity.tenant import Tenant

T = TypeVar("T")
log = logging.getLogger(__name__)
WAKES_LATER = 2.0  # seconds between resuming the children and the supervisor, which would end them
SESSIONS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND usename <> current_user AND backend_type = 'client backend' ORDER BY pid
"""
HOLDERS = """
SELECT w.pid, array_agg(t.job_id), array_agg(t.token), bool_or(t.type = 'nemesis_plain')
FROM turno.tickets t JOIN turno.workers w ON w.id = t.worker_id
GROUP BY w.pid ORDER BY w.pid
"""
STARTED_ANEW = """
SELECT FROM background_job_attempt_rows WHERE job_id = ANY(%s) AND token <> ALL(%s) AND finished_at IS NULL LIMIT 1
"""
FREEZE_PAUSE = 14.0  # seconds from resuming a frozen worker to freezing the next: the length of the longest work
COMMIT_WITHIN = 2.0  # seconds in which a process behind the link commits
LOOK_EVERY = 0.4  # seconds between two checks whether another worker has begun the job of a frozen worker


class Holder(NamedTuple):
    """A worker with running jobs."""

    pid: int
    jobs: list[UUID]
    tokens: list[UUID]
    long: bool


class Undo(NamedTuple):
    """The end of a fault: due at a time, or when `early` returns True."""

    at: float
    what: Callable[[], object]
    early: Callable[[], bool] = bool  # never


class Faults:
    """Injects the faults of the schedule, and ends each lasting fault after its time."""

    def __init__(
        self,
        environment: Environment,
        run_processes: Processes,
        *,
        network: Network | None = None,
        broker: FaultyBroker | None = None,
        link: CommitLink | None = None,
    ) -> None:
        self._environment = environment
        self._processes = run_processes
        self._network = network
        self._broker = broker
        self._link = link
        self._to_heal: list[Undo] = []
        self._frozen_again_at = 0.0

    def do(self, fault: Fault) -> int:
        """Inject a fault; return the number of victims, 0 without a candidate."""
        match fault.kind:
            case "restart database":
                self._environment.cluster.restart_immediate()
                return 1
            case "kill database":
                self._environment.cluster.kill()
                self._environment.cluster.start()
                return 1
            case "end session":
                return self._end_session(fault.fraction)
            case "lose commit reply":
                return int(self._link is not None and self._link.lose_reply(within=COMMIT_WITHIN))
            case "blackhole":
                return self._blackhole(fault)
            case "change backend":
                return self._change_backend(fault.fraction)
            case kind if kind in BROKER:
                return self._broker.strike(kind, fault.hold) if self._broker is not None else 0
            case kind if kind in DATABASE:
                return self._lasting(fault, database_faults.strike(self._environment, kind, fault.fraction))
            case _:
                return self._on_processes(fault)

    def _on_processes(self, fault: Fault) -> int:
        match fault.kind:
            case "second maintenance":
                return self._lasting(fault, self._processes.start_second_cron())
            case "stop cron":
                self._processes.cron_paused.set()
                self._later(fault.hold, self._processes.cron_paused.clear)
                return 1
            case "kill web" | "terminate web":
                return self._end_web(fault)
            case _:
                return self._signal(fault)

    def heal(self, *, everything: bool = False) -> None:
        """End the faults whose time is over, or all faults."""
        now = time.monotonic()
        due = [item for item in self._to_heal if everything or item.at <= now or item.early()]
        self._to_heal = [item for item in self._to_heal if item not in due]
        for item in sorted(due, key=lambda item: item.at):
            item.what()
        if everything and self._broker is not None:
            self._broker.heal()

    def _signal(self, fault: Fault) -> int:
        workers = self._processes.workers()
        verb, _, role = fault.kind.partition(" ")
        if role == "child":
            child = _pick([child for children in workers.values() for child in children], fault.fraction)
            victims = [child] if child else []
        elif verb == "freeze":
            return self._freeze_worker(workers, fault)
        else:
            supervisor = _pick(list(workers), fault.fraction)
            victims = [supervisor] if supervisor else []
            if supervisor and role == "both":
                victims += workers[supervisor]
        match verb:
            case "kill":
                return len(processes.kill(*victims))
            case "terminate":
                return len(processes.terminate(*victims))
            case _:
                return self._freeze(victims, fault.hold)

    def _freeze(self, victims: list[int], hold: float) -> int:
        frozen = processes.stop(*victims)
        self._later(hold, lambda: processes.resume(*frozen))
        return len(frozen)

    def _freeze_worker(self, workers: dict[int, list[int]], fault: Fault) -> int:
        """Freeze a worker with its children until other workers run its jobs: then its writes do most harm."""
        # Freeze a single worker at a time: other workers must run its jobs, and must not be frozen in turn, so that the
        # run can see the writes of the resumed worker.
        if time.monotonic() < self._frozen_again_at or any(processes.state(pid) == "T" for pid in workers):
            return 0
        # Prefer a worker with a long job that does not check its claim: shorter jobs end before any harm.
        holders = [holder for holder in self._holders() if holder.pid in workers]
        holder = _pick([holder for holder in holders if holder.long] or holders, fault.fraction)
        if holder is None:
            return 0
        supervisor = holder.pid
        # Stop the parent first, because it watches its children; the children resume before the parent, and must notice
        # the loss of their claims without its help.
        children = [pid for pid in (supervisor, *workers[supervisor]) if processes.stop(pid)][1:]
        self._to_heal.append(
            Undo(
                time.monotonic() + fault.hold,
                lambda: self._wake(supervisor, children),
                self._taken_over(holder),
            )
        )
        return 1 + len(children)

    def _wake(self, supervisor: int, children: list[int]) -> None:
        processes.resume(*children)
        self._frozen_again_at = time.monotonic() + FREEZE_PAUSE
        self._later(WAKES_LATER, lambda: processes.resume(supervisor))

    def _holders(self) -> list[Holder]:
        with suppress(psycopg.Error), self._environment.admin() as session:
            return [Holder(*row) for row in session.execute(HOLDERS).fetchall()]
        return []

    def _taken_over(self, frozen: Holder) -> Callable[[], bool]:
        """Return a check whether another worker has begun a job of a frozen worker; a claim alone is not enough.

        A frozen attempt that resumes earlier finds no attempt that it could end wrongly.
        """
        looked = time.monotonic()

        def look() -> bool:
            nonlocal looked
            if time.monotonic() < looked + LOOK_EVERY:
                return False
            looked = time.monotonic()
            return any(self._started_anew(tenant, frozen) for tenant in self._environment.tenants)

        return look

    def _started_anew(self, tenant: Tenant, frozen: Holder) -> bool:
        with suppress(psycopg.Error), self._environment.admin(tenant) as session:
            return session.execute(STARTED_ANEW, (frozen.jobs, frozen.tokens)).rowcount > 0
        return False

    def _end_session(self, fraction: float) -> int:
        with suppress(psycopg.Error), self._environment.admin() as session:
            pid = _pick([pid for (pid,) in session.execute(SESSIONS)], fraction)
            if pid is not None:
                session.execute("SELECT pg_terminate_backend(%s)", (pid,))
                return 1
        return 0

    def _blackhole(self, fault: Fault) -> int:
        if self._network is None:
            return 0
        self._network.swallow()
        self._later(fault.hold, self._network.restore)
        return 1

    def _end_web(self, fault: Fault) -> int:
        result = self._processes.web_processes()
        if fault.kind == "terminate web":
            return len(processes.terminate(*result[:1]))
        victim = _pick(result, fault.fraction)
        if victim is None:
            return 0
        # The parent takes all processes with it; the parent replaces a single serving process.
        return len(processes.kill(*(result if victim == result[0] else [victim])))

    def _change_backend(self, fraction: float) -> int:
        """Change the backend as an operator does, for all tenants, half of them or a single tenant."""
        names = ("exec", "pool", *(("rabbitmq",) if self._broker is not None else ()))
        some = [("--canary", "50"), *(("--tenant", tenant.slug) for tenant in self._environment.tenants)]
        orders = [(name,) for name in names] + [(name, *item) for name in (*names, "default") for item in some]
        order = orders[int(fraction * len(orders))]
        command = [sys.executable, "-m", "turno.commands.main", "backend", "set", *order]
        variables = self._environment.web_variables()
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
        log.info("backend set %s: %s%s", " ".join(order), done.stdout, done.stderr)
        return int(done.returncode == 0)

    def _lasting(self, fault: Fault, undo: Callable[[], object] | None) -> int:
        if undo is None:
            return 0
        self._later(fault.hold, undo)
        return 1

    def _later(self, seconds: float, undo: Callable[[], object]) -> None:
        self._to_heal.append(Undo(time.monotonic() + seconds, undo))


def _pick(candidates: Sequence[T], where: float) -> T | None:
    return candidates[int(where * len(candidates))] if candidates else None
