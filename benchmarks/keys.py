"""The cost of a claim with 100,000 jobs that wait for their concurrency keys, next to the cost without such jobs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.claim import Scene, Stage
from benchmarks.environment import open_environment
from benchmarks.report import Report

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

NONE = Scene(tenants=10, waiting=10_000)
MANY = Scene(tenants=10, waiting=10_000, keyed=100_000)
SCENES = (("none", NONE), ("many", MANY))
FEW = (("none", Scene(tenants=2, waiting=1_000)), ("many", Scene(tenants=2, waiting=1_000, keyed=10)))
MOST = 1.2  # times the cost without waiting jobs


def run(options: Options) -> Report:
    """Measure the processor time of a claim per job, for many jobs and for a single job, in both scenes."""
    report = Report("keys", "ms a job")
    with open_environment() as bench, ExitStack() as stack:
        stages = {
            f"{scene.name}, {slots} x {size}": Stage(bench, stack, scene, f"{name}_{slots}", slots=slots, size=size)
            for name, scene in options.of(SCENES, quick=SCENES, smoke=FEW)
            for slots, size in ((4, 16), (1, 1))
        }
        turns = {name: stage.turn for name, stage in stages.items()}
        samples = options.sample(turns, rounds=15, quick=15, warm_up=3)
    report.add(samples)
    means = [sum(taken) / len(taken) for taken in samples.values()]
    report.facts["keyed_of_many"], report.facts["keyed_of_one"] = means[2] / means[0], means[3] / means[1]
    report.wanted |= {"keyed_of_many": MOST, "keyed_of_one": MOST}
    return report
