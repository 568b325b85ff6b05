"""One hostile tenant attacks in twenty-two ways; how long another tenant's requests and jobs take meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.report import Report


def run(options: Options) -> Report:
    """Measure the victim in calm and under siege, and name every attack with its ending."""
    from benchmarks.siege.course import QUICK, SMOKE, Plan, besiege  # noqa: PLC0415 - the victim's process needs none of it

    return besiege(options.of(Plan(), quick=QUICK, smoke=SMOKE))
