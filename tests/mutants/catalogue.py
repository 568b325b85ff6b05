"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.mutants import fencing

MUTANTS = (*fencing.MUTANTS,)
