"""Memory of a resident worker's children: what one takes, and how much it grows over a hundred thousand jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ground import open_ground
from benchmarks.report import Report
from benchmarks.resident import Client, anonymous_megabytes, children, pss_megabytes, resident

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

CHILDREN = 2
AT_MOST = 1.05
MOST_OF_A_CHILD = 30.0  # MB


def run(options: Options) -> Report:
    """Measure after a tenth of the jobs, when all that is loaded is loaded, and after all of them.

    A child's size is told with shared pages divided, its growth by what no file backs: the former falls and rises with
    the number of other processes.
    """
    report = Report("memory", "MB")
    jobs = 4_000 if options.quick else 100_000
    with open_ground() as ground, Client(ground) as client:
        tenants = [ground.tenant(f"suc000{n}") for n in range(2)]
        with resident(ground, fewest=CHILDREN, most=CHILDREN, POOL_JOBS_PER_CHILD="100000000") as pool:
            idle = [anonymous_megabytes(pid) for pid in children(pool)]
            for tenant in tenants:
                client.backlog(tenant, jobs // 2)
            client.wait_until_left(jobs - jobs // 10, within=1800)
            at_first = {pid: anonymous_megabytes(pid) for pid in children(pool)}
            client.wait_until_left(0, within=1800)
            at_last = {pid: anonymous_megabytes(pid) for pid in children(pool)}
            report.facts["largest child, PSS"] = max(pss_megabytes(pid) for pid in children(pool))
    report.add({"idle": idle, "after a tenth": list(at_first.values()), "after all": list(at_last.values())})
    report.facts["jobs"] = jobs
    report.facts["the same children"] = at_first.keys() == at_last.keys()
    report.facts["ratio"] = sum(at_last.values()) / sum(at_first.values())
    report.wanted |= {"ratio": AT_MOST, "largest child, PSS": MOST_OF_A_CHILD}
    return report
