"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.mutants import door, fencing, invoices, isolation, recovery, running, streams, tickets

MUTANTS = (
    *fencing.MUTANTS,
    *tickets.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *isolation.MUTANTS,
    *door.MUTANTS,
    *invoices.MUTANTS,
    *streams.MUTANTS,
)
