"""Attempts with a failure, by the hundred: an invoice is authorised once, or a person learns the reason.

AUTHORITY_RUNS is their number, 150 by default; a thousand take some minutes. `-o log_cli=true` shows the counts of a
long run.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest

from tax_authority.stub.books import Granted, Series
from tax_authority.stub.faults import FAULTS
from tests.fiscal_branch import FIRST_ORDER, FiscalBranch, fiscal_branch
from tests.installation import ExampleInstallation
from turno import crash_points
from turno.testing.build import FOREVER
from turno.testing.in_process_worker import InProcessWorker
from turno.testing.wait import wait_until

log = logging.getLogger(__name__)

RUNS = int(os.environ.get("AUTHORITY_RUNS", "150"))
MANY = 400  # in which everything has failed that may
POINTS, TAKEN = 4, 5  # points of sale, and invoices with a number that another program has used
PER_JOB = 3
READ_SECONDS = 0.06  # a crowded machine's longer request has failed, too
WELL = {"answer", "observe"}
DEADLY = ("intended", "called", "settled", "chunk_recorded", "chunk_committed")
B = 6


class Died(BaseException):
    """Ends an attempt in this process as a kill ends a child: nothing is recorded."""


@dataclass
class Fate:
    """Decides by its seed the faults of each attempt."""

    branch: FiscalBranch
    chance: random.Random
    deadly: bool = True
    deaths: Counter[str] = field(default_factory=Counter)

    def reach(self, step: str) -> None:
        """Die here, now and then."""
        if self.deadly and step in DEADLY and self.chance.random() < 0.04:
            self.deaths[step] += 1
            raise Died(step)

    def befall(self) -> None:
        """Let something fail while an invoice is sent, and sometimes during a look-up."""
        faults, any_fault = self.branch.stub.faults, sorted(FAULTS)
        faults.set("FECAESolicitar", self.chance.choice(any_fault))
        for operation in ("FECompConsultar", "FECompUltimoAutorizado", "loginCms"):
            bad = self.chance.random() < 0.1
            faults.set(operation, self.chance.choice(any_fault) if bad else "answer")
        if self.chance.random() < 0.02:
            self.branch.stub.login.expire()

    def heal(self) -> None:
        """Let nothing fail any more."""
        self.deadly = False
        for operation in ("FECAESolicitar", "FECompConsultar", "FECompUltimoAutorizado", "loginCms"):
            self.branch.stub.faults.set(operation)

    @property
    def went_wrong(self) -> int:
        """How often something has failed."""
        requested = self.branch.stub.faults.requested
        return self.deaths.total() + sum(n for (_, fault), n in requested.items() if fault not in WELL)


@pytest.fixture
def branch(example: ExampleInstallation) -> Iterator[FiscalBranch]:
    with fiscal_branch(example) as branch:
        branch.stub.login.refusal_seconds = 0.2
        yield branch


def attempt(branch: FiscalBranch, worker: InProcessWorker, job_id: UUID, fate: Fate) -> None:
    """Run an attempt; if it dies, its death is seen by its supervisor, or by no process."""
    example = branch.example
    example.engine.promote(1000)
    claim = worker.claim(job_id)
    if claim is None:
        return
    try:
        worker.execute(claim)
    except Died:
        seen = 1 if fate.chance.random() < 0.5 else None
        example.engine.rescue(example.one.schema, job_id, claim.token, cause="died", retry_in=timedelta(0), child=seen)
    # The authority has finished late requests before the next look.
    assert wait_until(lambda: branch.stub.under_way == 0, within=10)


ALL_DUE = """
UPDATE tax_authority_outages SET ask_again_at = clock_timestamp();
UPDATE background_jobs SET run_at = clock_timestamp() WHERE status = 'pending' AND run_at < 'infinity';
UPDATE turno.tickets t SET run_at = j.run_at FROM background_jobs j
WHERE j.id = t.job_id AND t.state = 'scheduled' AND t.run_at < 'infinity';
SELECT id FROM background_jobs WHERE finished_at IS NULL AND run_at < 'infinity' ORDER BY id LIMIT 6
"""


def open_jobs(branch: FiscalBranch) -> list[UUID]:
    """Let every waiting job be due, and return the first jobs that may run."""
    cursor = branch.example.admin.execute(ALL_DUE)
    while cursor.nextset():
        pass
    return [job_id for (job_id,) in cursor]


def continue_ended(branch: FiscalBranch) -> int:
    """Do a user's part: continue the failed jobs, until nothing is left."""
    ended = branch.example.rows(
        "SELECT id FROM background_jobs j WHERE successor_id IS NULL AND (status = 'failed' OR status = 'completed'"
        " AND EXISTS (SELECT FROM background_job_items i WHERE i.job_id = j.id AND i.state = 'failed'))"
    )
    for job in ended:
        branch.example.retry(job["id"])
    return len(ended)


def decide(branch: FiscalBranch) -> int:
    """Do a person's part: settle the effects by the authority's books, and leave another's vouchers."""
    query = (
        "SELECT in_doubt AS key, min(id::text)::uuid AS job FROM background_jobs"
        " WHERE in_doubt IS NOT NULL AND strpos(in_doubt, %s) = 0 GROUP BY in_doubt"
    )
    waiting = branch.example.rows(query, f" {POINTS:05}-")
    for effect in waiting:
        label = effect["key"].removeprefix("authorisation of ")
        point, number = int(label[2:7]), int(label[8:])
        voucher = branch.stub.books.find(Series(branch.cuit, point, B), number)
        branch.settle(effect["job"], effect["key"], None if voucher is None else "{}")
    return len(waiting)


OTHERS_DOCUMENT = "12345678"


def take_number(branch: FiscalBranch, point: int, number: int) -> None:
    """Have another program of the same CUIT be granted a number."""
    series = Series(branch.cuit, point, B)
    fields: list[tuple[str, Any]] = [
        ("DocTipo", "96"), ("DocNro", OTHERS_DOCUMENT), ("CbteDesde", str(number)), ("CbteHasta", str(number)),
        ("CbteFch", "20261120"), ("ImpTotal", "1.00"),
    ]  # fmt: skip
    branch.stub.books.keep(
        Granted(
            series=series,
            number=number,
            issued_on=date(2026, 11, 20),
            document_number=OTHERS_DOCUMENT,
            total="1.00",
            cae=f"999{point:03}{number:08}",
            observed=False,
            fields=fields,
        )
    )


@pytest.mark.deep
@pytest.mark.timeout(120 + 2 * RUNS)
def test_failures_authorise_no_invoice_twice_and_lose_none(
    branch: FiscalBranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, fate = branch.example, Fate(branch, random.Random(RUNS))  # noqa: S311
    monkeypatch.setattr(crash_points, "reach", fate.reach)
    # The first numbers of the last point of sale are another program's.
    for number in range(1, TAKEN + 1):
        take_number(branch, POINTS, number)
    taken = branch.invoices(TAKEN, point=POINTS)
    for invoice in taken:
        branch.enqueue(invoice, concurrency_key="")  # without the key of the type, several jobs are open at once
    wanted = runs = parked = 0
    worker = InProcessWorker(example, branch.registry(read_seconds=READ_SECONDS))
    while (waiting := open_jobs(branch)) or runs < RUNS:
        if runs >= RUNS:
            fate.heal()
            worker = InProcessWorker(example, branch.registry())
        elif len(waiting) < POINTS:
            first = 1 + wanted // (POINTS - 1)
            for point in range(1, POINTS):
                branch.enqueue(*branch.invoices(PER_JOB, first=first, point=point), concurrency_key="")
                wanted += PER_JOB
            waiting = open_jobs(branch)
        if fate.deadly:
            fate.befall()
        before = fate.went_wrong
        attempt(branch, worker, fate.chance.choice(waiting), fate)
        runs += fate.went_wrong > before
        parked += decide(branch)
        if len(waiting) <= POINTS:
            continue_ended(branch)
    codes = example.rows("SELECT point_of_sale, number, cae, total FROM invoices WHERE order_id >= %s", FIRST_ORDER)
    ours = [voucher for voucher in branch.granted() if voucher.document_number != OTHERS_DOCUMENT]
    assert len(ours) == wanted == len({voucher.cae for voucher in ours})
    granted = {(voucher.series.point_of_sale, voucher.number): (voucher.cae, voucher.total) for voucher in ours}
    known = {(row["point_of_sale"], row["number"]): (row["cae"], str(row["total"])) for row in codes if row["cae"]}
    assert known == granted
    # A number used by another program is for a person, who sees both.
    left = example.rows("SELECT status, run_at, error FROM background_jobs WHERE finished_at IS NULL")
    assert [row["run_at"] for row in left] == [FOREVER] * TAKEN
    assert all("ERP:" in row["error"]["message"] and "AFIP:" in row["error"]["message"] for row in left)
    requested = branch.stub.faults.requested
    log.warning("%d runs in which something failed, %d deaths; %d invoices", runs, fate.deaths.total(), wanted)
    log.warning("%d times a person decided; requests: %s", parked, requested.total())
    if RUNS >= MANY:
        assert {fault for operation, fault in requested if operation == "FECAESolicitar"} == set(FAULTS)
        assert set(fate.deaths) == set(DEADLY)
