"""A run from its seed to its verdict: work under faults, end the faults, drain, check the invariants."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import click
import psycopg

from cli.servers.private_rabbitmq import Node, NodeError
from nemesis.broker import FaultyBroker
from nemesis.clients import Client, submit_without_hint
from nemesis.commit_link import CommitLink
from nemesis.effects import EFFECTS
from nemesis.environment import open_environment, spread_backends
from nemesis.evidence import evidence_of
from nemesis.faults import Faults
from nemesis.http_client import HttpClient
from nemesis.network import Network
from nemesis.processes import Processes
from nemesis.schedule import BROKER, LINK, NETWORK
from nemesis.tellers import Teller, pause_schedules, put_schedules, settle
from turno.testing.checker import Checker, ClientLog
from turno.testing.leak_detector import LeakDetector
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nemesis.environment import Environment
    from nemesis.schedule import Schedule
    from nemesis.workload import Workload

CLIENTS = 4
JUDGE_EVERY = 5.0
READY_WITHIN = 60.0  # seconds for the web's first answer
UNSEEN_LOOKS = 15  # consecutive checks, a tenth of a second apart
GONE_WITHIN = 20.0  # seconds after the end of the last worker in which its traces must disappear
OPEN = "SELECT count(*) FROM turno.tickets"  # no job waits for a review, and jobs that wait for their parts continue
FIGURES = {
    "jobs": "SELECT type || ' ' || status, count(*) FROM background_jobs GROUP BY 1",
    "attempts": "SELECT coalesce(outcome, 'open'), count(*) FROM background_job_attempts GROUP BY 1",
    "invoices": "SELECT 'invoices', count(*) FROM invoices",
}


@dataclass(slots=True)
class Verdict:
    """The counts and the violations of a run; a correct run has no violations."""

    seed: int
    minutes: float
    requested: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    invoices: int = 0
    judged: int = 0
    drain_seconds: float = 0.0
    answers: dict[str, int] = field(default_factory=dict)
    not_done: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        """Return the verdict on one line."""
        return json.dumps({**asdict(self), "ok": not self.violations})


class Run:
    """Runs a schedule of faults in a private environment."""

    def __init__(self, schedule: Schedule, workload: Workload, *, patience: float) -> None:
        """Treat the drain as stuck after `patience` seconds without any change."""
        self._schedule = schedule
        self._workload = workload
        self._patience = patience
        self._client_log = ClientLog()
        self.verdict = Verdict(schedule.seed, round(schedule.seconds / 60, 3))

    def run(self) -> Verdict:
        """Return the verdict, after the end of every process."""
        with ExitStack() as stack:
            network = self._network(stack)
            environment = stack.enter_context(open_environment())
            broker = self._broker(stack, environment)
            logging.basicConfig(filename=environment.logs / "nemesis.log", level=logging.INFO)
            spread_backends(environment)
            link = CommitLink(environment.cluster.port) if self._wanted(LINK) else None
            environment.link_port = link.port if link else 0
            run_processes = Processes(environment, network=network)
            faults = Faults(environment, run_processes, network=network, broker=broker, link=link)
            self._checker = Checker(environment.url, environment.tenants, log=self._client_log, effects=EFFECTS)
            self._leak_detector = LeakDetector(environment.url, environment.tenants, environment.logs)
            self._http_client = HttpClient(
                environment.web_port, environment.settings("pool"), leak_detector=self._leak_detector
            )
            run_processes.start()
            try:
                wait_until(self._http_client.answers_at_all, within=READY_WITHIN, every=0.2)
                self._run_faults(environment, faults)
                faults.heal(everything=True)
                pause_schedules(environment, within=self._patience)
                if not self.verdict.violations and self._drained(environment):
                    # A worker that finishes claims further jobs. Without workers only maintenance finds these jobs.
                    self._wait_for_the_launched(run_processes)
                    submit_without_hint(environment, run_processes.exec_queue(), self._client_log)
                    if self._drained(environment):
                        run_processes.dismiss()
                        wait_until(lambda: not self._workers(environment), within=GONE_WITHIN, every=0.2)
            finally:
                faults.heal(everything=True)
                run_processes.stop()
            self._judge_the_end(environment)
        return self.verdict

    def _network(self, stack: ExitStack) -> Network | None:
        if not self._wanted(NETWORK):
            return None
        network = Network(os.getpid())
        try:
            network.up()
        except (OSError, subprocess.CalledProcessError) as error:
            network.down() if os.geteuid() == 0 else None
            self._left_out(NETWORK, f"this machine permits no network namespace: {error}")
            return None
        stack.callback(network.down)
        return network

    def _broker(self, stack: ExitStack, environment: Environment) -> FaultyBroker | None:
        if not self._wanted((*BROKER, "change backend")):
            return None
        node = Node(folder=environment.folder / "broker")
        try:
            stack.enter_context(node)
        except NodeError as error:
            self._left_out((*BROKER, "change backend"), str(error))
            return None
        environment.broker_url = node.url
        broker = FaultyBroker(node)
        stack.callback(broker.close)
        stack.callback(lambda: self.verdict.not_done.extend(broker.refusals))
        return broker

    def _wanted(self, kinds: Iterable[str]) -> bool:
        return not {fault.kind for fault in self._schedule.faults}.isdisjoint(kinds)

    def _left_out(self, kinds: Iterable[str], why: str) -> None:
        scheduled = {fault.kind for fault in self._schedule.faults}
        self.verdict.not_done += [f"{kind}: {why}" for kind in kinds if kind in scheduled]

    def _run_faults(self, environment: Environment, faults: Faults) -> None:
        clients = [
            Client(
                number,
                self._schedule.seed,
                environment,
                workload=self._workload,
                http_client=self._http_client,
                client_log=self._client_log,
                leak_detector=self._leak_detector,
            )
            for number in range(1, CLIENTS + 1)
        ]
        teller = Teller(
            self._schedule.seed,
            environment,
            workload=self._workload,
            client_log=self._client_log,
            leak_detector=self._leak_detector,
        )
        people: list[Client | Teller] = [*clients, teller]
        if self._workload.has("schedules"):
            put_schedules(environment)
        for item in people:
            item.start()
        began, struck, waiting = time.monotonic(), Counter[str](), list(self._schedule.faults)
        judge_at = JUDGE_EVERY
        try:
            while (now := time.monotonic() - began) < self._schedule.seconds and not self.verdict.violations:
                faults.heal()
                if waiting and waiting[0].at <= now:
                    fault = waiting.pop(0)
                    struck[fault.kind] += faults.do(fault)
                elif now >= judge_at:
                    self._judge()
                    judge_at = now + JUDGE_EVERY
                else:
                    time.sleep(0.05)
        finally:
            for item in people:
                item.leave()
            while any(item.is_alive() for item in people):  # one may wait for the lock of a fault
                faults.heal()
                time.sleep(0.05)
            self.verdict.faults, self.verdict.requested = dict(struck), len(self._client_log)
            self.verdict.answers = dict(self._http_client.answers)

    def _judge(self) -> None:
        """Check the invariants during the run: they hold between any two commits."""
        with suppress(psycopg.OperationalError):
            self.verdict.violations = self._checker.violations() + self._http_client.faults
            self.verdict.judged += 1

    def _drained(self, environment: Environment) -> bool:
        """Wait until every job has ended; return False if nothing changes for `patience` seconds."""
        began = moved = time.monotonic()
        last: list[Any] = []
        while True:
            settle(environment, Random(0))  # noqa: S311 - any numbers will do
            left, now = self._state(environment)
            if left == 0 or time.monotonic() > moved + self._patience:
                break
            if now != last:
                last, moved = now, time.monotonic()
            time.sleep(0.2)
        self.verdict.drain_seconds = round(self.verdict.drain_seconds + time.monotonic() - began, 1)
        return left == 0

    def _state(self, environment: Environment) -> tuple[int, list[Any]]:
        with environment.admin() as session:
            left = session.execute(OPEN).fetchall()[0][0]
            events = []
            for tenant in environment.tenants:
                with environment.admin(tenant) as inside:
                    events += inside.execute("SELECT count(*), (SELECT count(*) FROM background_job_items), "
                                             "(SELECT max(updated_at) FROM background_job_checkpoints) "
                                             "FROM background_job_events").fetchall()  # fmt: skip
        return int(left), events

    def _wait_for_the_launched(self, run_processes: Processes) -> None:
        """Wait until consecutive checks find no worker for a single job: a starting worker is not visible yet."""
        looks = 0

        def gone() -> bool:
            nonlocal looks
            looks = looks + 1 if run_processes.only_residents_are_left() else 0
            return looks > UNSEEN_LOOKS

        wait_until(gone, within=GONE_WITHIN, every=0.1)

    def _workers(self, environment: Environment) -> int:
        with environment.admin() as session:
            return int(session.execute("SELECT count(*) FROM turno.workers").fetchall()[0][0])

    def _nothing_lingers(self) -> bool:
        self.verdict.violations = self._checker.violations(settled=True)
        self.verdict.violations += [*self._http_client.faults, *(f"I4: {leak}" for leak in self._leak_detector.leaks())]
        kinds = {violation[:2] for violation in self.verdict.violations}
        return "I7" not in kinds or "I6" in kinds

    def _judge_the_end(self, environment: Environment) -> None:
        if not self.verdict.violations:
            # A server process notices the end of its client a moment later.
            wait_until(self._nothing_lingers, within=GONE_WITHIN, every=0.5)
            self.verdict.judged += 1
        self.verdict.evidence = evidence_of(environment, self.verdict.violations)
        for name, query in FIGURES.items():
            total = Counter[str]()
            for tenant in environment.tenants:
                with environment.admin(tenant) as session:
                    total.update(dict(session.execute(query.encode()).fetchall()))
            if name == "invoices":
                self.verdict.invoices = total["invoices"]
            else:
                setattr(self.verdict, name, dict(sorted(total.items())))


def print_verdict(verdict: Verdict) -> None:
    """Print the verdict for people."""
    click.echo(
        f"submitted {verdict.requested} times, struck {sum(verdict.faults.values())} times, {verdict.invoices} invoices"
    )
    for name in ("faults", "answers", "jobs", "attempts"):
        click.echo(f"{name}: " + ", ".join(f"{n} {what}" for what, n in getattr(verdict, name).items()))
    for line in verdict.not_done:
        click.echo(f"NOT DONE {line}")
    click.echo(f"drained in {verdict.drain_seconds} s, judged {verdict.judged} times")
    for violation in verdict.violations[:50]:
        click.echo(f"VIOLATION {violation}")
    for line in verdict.evidence:
        click.echo(f"EVIDENCE {line}")
    click.echo(f"{len(verdict.violations)} violations; seed {verdict.seed}")
