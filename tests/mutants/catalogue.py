"""Every guard that is taken away in turn."""

from __future__ import annotations

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
    values,
)

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
    *values.MUTANTS,
    *records.MUTANTS,
)
