"""Every guard that is taken away in turn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.mutants import (
    admin,
    adoption,
    alerting,
    batches,
    broker,
    counting,
    enqueueing,
    fencing,
    invoices,
    isolation,
    launched_workers,
    limits,
    outside,
    pages,
    records,
    recovery,
    reserve,
    running,
    serving,
    short_jobs,
    steering,
    streams,
    supervising,
    tickets,
    upgrades,
    values,
    web_requests,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.mutants.mutant import Mutant

MUTANTS = (
    *admin.MUTANTS,
    *adoption.MUTANTS,
    *fencing.MUTANTS,
    *tickets.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *supervising.MUTANTS,
    *batches.MUTANTS,
    *outside.MUTANTS,
    *isolation.MUTANTS,
    *web_requests.MUTANTS,
    *enqueueing.MUTANTS,
    *limits.MUTANTS,
    *pages.MUTANTS,
    *invoices.MUTANTS,
    *streams.MUTANTS,
    *broker.MUTANTS,
    *counting.MUTANTS,
    *alerting.MUTANTS,
    *serving.MUTANTS,
    *launched_workers.MUTANTS,
    *steering.MUTANTS,
    *short_jobs.MUTANTS,
    *reserve.MUTANTS,
    *upgrades.MUTANTS,
    *values.MUTANTS,
    *records.MUTANTS,
)


def named_tests(mutants: Iterable[Mutant]) -> dict[str, list[str]]:
    """Return what must notice these mutants, each test once, under the name of its file."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted({test for mutant in mutants for test in mutant.tests}):
        tests[test.partition("::")[0]].append(test)
    return dict(tests)
