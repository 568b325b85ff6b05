"""Memory of a resident worker's children: the memory of a child, and its growth over three hundred thousand jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.latency_probe import Chime, Ring
from benchmarks.report import Report
from benchmarks.resident import Client, anonymous_megabytes, children, pss_megabytes, resident

if TYPE_CHECKING:
    import subprocess

    from benchmarks.benchmark import Options

CHILDREN, TENANTS = 2, 2
TENTH = {Chime: 2_000, Ring: 28_000}
REMAINING = {Chime: 2_000, Ring: 268_000}
AT_MOST = 1.05
MOST_OF_A_CHILD = 30.0  # MB


def run(options: Options) -> Report:
    """Measure after a tenth of the jobs, when all that is loaded is loaded, and after all of them.

    Most of them share transactions: one by one they would take an hour on a busy machine. The size of a child divides
    shared pages; its growth counts the pages without a file: the former falls and rises with the number of other
    processes.
    """
    report = Report("memory", "MB")
    share = options.of(1, quick=20, smoke=1_000)
    with open_environment() as bench, Client(bench) as client:
        tenants = [bench.tenant(f"suc000{number}") for number in range(TENANTS)]

        def have_done(jobs: dict[type[Ring], int]) -> dict[int, float]:
            for handler, count in jobs.items():
                for tenant in tenants:
                    client.backlog(tenant, count // share // TENANTS, handler=handler)
            client.wait_until_left(0, within=1800)
            return _sizes(pool)

        with resident(bench, fewest=CHILDREN, most=CHILDREN, TURNO_LIMITS="child_jobs=100000000") as pool:
            idle = _sizes(pool)
            at_first, at_last = have_done(TENTH), have_done(REMAINING)
            report.facts["largest child, PSS"] = max(pss_megabytes(pid) for pid in children(pool))
    report.add({"idle": [*idle.values()], "after a tenth": [*at_first.values()], "after all": [*at_last.values()]})
    report.facts["jobs"] = {handler.type: (TENTH[handler] + REMAINING[handler]) // share for handler in TENTH}
    report.facts["the same children"] = at_first.keys() == at_last.keys()
    report.facts["ratio"] = sum(at_last.values()) / sum(at_first.values())
    report.wanted |= {"ratio": AT_MOST, "largest child, PSS": MOST_OF_A_CHILD}
    return report


def _sizes(pool: subprocess.Popen[bytes]) -> dict[int, float]:
    return {pid: anonymous_megabytes(pid) for pid in children(pool)}
