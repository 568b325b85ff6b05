"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.mutants import broker, door, fencing, invoices, isolation, recovery, running, tickets

MUTANTS = (
    *fencing.MUTANTS,
    *tickets.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *isolation.MUTANTS,
    *door.MUTANTS,
    *invoices.MUTANTS,
    *broker.MUTANTS,
)
