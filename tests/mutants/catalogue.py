"""Every guard that is taken away in turn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.mutants import (
    broker,
    door,
    fencing,
    groups,
    invoices,
    isolation,
    limits,
    outside,
    pages,
    records,
    recovery,
    reserve,
    running,
    serving,
    staying,
    streams,
    supervising,
    tickets,
    turns,
    upgrades,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.mutants.mutant import Mutant

MUTANTS = (
    *fencing.MUTANTS,
    *tickets.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *supervising.MUTANTS,
    *groups.MUTANTS,
    *outside.MUTANTS,
    *isolation.MUTANTS,
    *door.MUTANTS,
    *limits.MUTANTS,
    *pages.MUTANTS,
    *invoices.MUTANTS,
    *streams.MUTANTS,
    *broker.MUTANTS,
    *serving.MUTANTS,
    *staying.MUTANTS,
    *turns.MUTANTS,
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
