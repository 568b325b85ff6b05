"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.mutants import door, fencing, invoices, isolation, pages, recovery, running, streams, tickets

MUTANTS = (
    *fencing.MUTANTS,
    *tickets.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *isolation.MUTANTS,
    *door.MUTANTS,
    *pages.MUTANTS,
    *invoices.MUTANTS,
    *streams.MUTANTS,
)
