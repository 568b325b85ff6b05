"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.mutants import fencing, recovery, tickets

MUTANTS = (*fencing.MUTANTS, *tickets.MUTANTS, *recovery.MUTANTS)
