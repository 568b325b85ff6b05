"""Run each row of the goals with its floor and its peers, and write the page and the chart of their figures."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.benchmark import NAMES, Options, benchmark_named
from benchmarks.environment import ROOT, private_server
from benchmarks.processor_time import OtherProcesses
from benchmarks.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

QUIET_AT_MOST = 0.1  # processors that others use
CHART_AT_MOST = 3.0  # times a goal
BAR, LINE, LABELS = 200, 18, 420  # pixels
REACHED, MISSED = "#2f855a", "#c05621"
COLUMNS = 6


class Row(NamedTuple):
    """A subject with its goals: the benchmark that measures it, and the systems it is compared with."""

    subject: str
    benchmark: str
    peers: tuple[str, ...] = ()


ROWS = (
    Row("enqueue one job", "dispatch", ("pgqueuer", "procrastinate", "dramatiq", "celery", "oban")),
    Row("enqueue in the caller's transaction, and in bulk", "enqueue", ("pgqueuer", "procrastinate", "oban", "rq")),
    Row("POST to 202", "http"),
    Row("start a process for a job", "spawn", ("rq",)),
    Row("short jobs", "throughput", ("pgqueuer", "procrastinate", "oban", "awa")),
    Row("jobs over a broker", "broker", ("celery", "dramatiq")),
    Row(
        "start of a job on an idle system",
        "pickup",
        ("pgqueuer", "procrastinate", "dramatiq", "celery", "oban", "huey"),
    ),
    Row("growth of the tables", "growth", ("pgqueuer", "procrastinate", "oban", "huey")),
    Row("one fleet for many tenants", "tenants", ("procrastinate", "oban", "dramatiq")),
    Row("fairness between tenants", "fairness", ("pgqueuer", "procrastinate", "oban", "rq", "celery", "huey")),
    Row("kill -9", "recovery", ("pgqueuer", "procrastinate", "oban", "rq", "celery", "huey", "dramatiq")),
    Row("memory of a child", "memory", ("pgqueuer", "procrastinate", "oban", "rq", "celery", "dramatiq")),
    Row("live streams", "stream", ("flask",)),
    Row("500 invoices", "invoicing"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A row after its benchmark; `others` is the mean number of processors that other processes used."""

    row: Row
    report: Report
    others: float

    @property
    def name(self) -> str:
        """The subject, marked if the machine had other work."""
        return self.row.subject + ("" if self.others <= QUIET_AT_MOST else " †")


class Server(NamedTuple):
    """The machine of the figures."""

    cores: int
    python: str
    postgres: str


def run(options: Options) -> Report:
    """Run the benchmarks one after another; the contestants of each take turns. A smoke run writes no page."""
    rows = options.of(ROWS, quick=ROWS, smoke=ROWS[:1])
    report = Report("all", "rows")
    with tempfile.TemporaryDirectory(prefix="turno-bench-") as scratch:
        folder = options.of(ROOT / "docs", quick=ROOT / "docs", smoke=Path(scratch))
        server = _server(Path(scratch))
        measured: list[Measured] = []
        began = time.monotonic()
        for row in rows:
            measured.append(_measured(row, options))
            report.broken += [f"{row.benchmark}: {problem}" for problem in measured[-1].report.broken]
            # After each row, so that an interrupted run keeps its figures.
            (folder / "benchmarks.svg").write_text(chart(measured))
            (folder / "benchmarks.md").write_text(page(measured, server, options, seconds=time.monotonic() - began))
    goals = [goal for item in measured for goal in item.report.goals()]
    report.facts = {
        "rows": len(measured),
        "goals": len(goals),
        "goals reached": sum(value <= at_most for _, value, at_most in goals),
        "processors used by others": max(item.others for item in measured),
    }
    return report


def _measured(row: Row, options: Options) -> Measured:
    wanted = Options(quick=options.quick, smoke=options.smoke, peers=not options.smoke)
    others = OtherProcesses()
    try:
        report = benchmark_named(row.benchmark).run(wanted)
    except Exception as failure:  # noqa: BLE001 - a row that does not run is a line of the table
        report = Report(row.benchmark, "", broken=[f"{type(failure).__name__}: {failure}".replace(sys.prefix, "")])
    return Measured(row, report, others.cores())


def _server(folder: Path) -> Server:
    with private_server(folder) as cluster, psycopg.connect(cluster.url) as session:
        (release,) = session.execute("SHOW server_version").fetchone() or ("",)
    return Server(os.cpu_count() or 0, platform.python_version(), release)


def page(measured: Sequence[Measured], server: Server, options: Options, *, seconds: float = 0.0) -> str:
    """Return the page in Markdown."""
    now = datetime.now(UTC)
    busiest = max(item.others for item in measured)
    command = "python -m benchmarks all" + (" --quick" if options.quick else "")
    load = f"Other processes used up to {busiest:.1f} processors; † marks the rows with more than {QUIET_AT_MOST}."
    quiet = "Other processes used no processor."
    return "\n".join(
        (
            "# Benchmarks",
            "",
            f"`{command}` wrote this page on {now:%Y-%m-%d} in {seconds / 60:.0f} minutes: {server.cores} cores,",
            f"PostgreSQL {server.postgres} with `fsync` and `synchronous_commit` on, Python {server.python}.",
            load if busiest > QUIET_AT_MOST else quiet,
            "The contestants of a row take turns, so load slows all of them: compare ratios, not times. `--quick`",
            "takes fewer samples. A line with a goal states whether the figure reaches it. A peer without a figure has",
            "a line with the reason. On a loaded machine the wait for a processor is a part of each time, and moves",
            "ratios towards 1: repeat a run with † before a conclusion.",
            "",
            "![Measured figures as multiples of their goals; shorter is better](benchmarks.svg)",
            "",
            "## Figures and goals",
            "",
            _row("row", "measurement", "median", "p99", "goal: at most", "reached"),
            "|---|---|--:|--:|--:|---|",
            *(line for item in measured for line in _lines(item)),
            "",
            *_throughput(measured),
            "## Commands",
            "",
            "Each benchmark runs alone, with `--json`, `--quick`, `--smoke` or `--peers` if wanted; `--peers` installs",
            "the versions that `pyproject.toml` pins, in folders that are removed at the end.",
            "`python -m benchmarks.harness_adapter` is the adapter for the public harness",
            "[postgresql-job-queue-benchmarking](https://github.com/hardbyte/postgresql-job-queue-benchmarking), and",
            "`python -m benchmarks.job_path` lists the files, functions and statements of a job in the demo.",
            "",
            "| command | measures |",
            "|---|---|",
            *(f"| `python -m benchmarks {name}` | {benchmark_named(name).about} |" for name in NAMES),
            "",
        )
    )


def _lines(item: Measured) -> Iterator[str]:
    report = item.report
    goals = {name: (value, at_most) for name, value, at_most in report.goals()}

    def line(name: str, median: str = "", p99: str = "") -> str:
        value, at_most = goals.pop(name, (0.0, None))
        goal = ("", "") if at_most is None else (_number(at_most), "yes" if value <= at_most else "**no**")
        return _row("", name, median, p99, *goal)

    yield _row(f"**{item.name}**", f"`{item.row.benchmark}`, others used {item.others:.1f} processors", report.unit)
    yield from (line(f"did not run: {_cell(problem)}") for problem in report.broken)
    yield from (line(name, _number(figure.median), _number(figure.p99)) for name, figure in report.figures.items())
    yield from (line(name, f"{_number(ratio.median)} x") for name, ratio in report.ratios.items())
    yield from [line(name, _number(value)) for name, (value, _) in list(goals.items())]
    yield from (line(f"peer {peer}: {_cell(report.facts[peer])}") for peer in item.row.peers if peer in report.facts)
    missing = [peer for peer in item.row.peers if peer not in report.facts]
    if missing:
        yield line(f"peers without a figure, as `benchmarks/` does not run them here: {', '.join(missing)}")


def _row(*cells: str) -> str:
    return f"| {' | '.join([*cells, *[''] * (COLUMNS - len(cells))])} |"


def _cell(value: object) -> str:
    parts = ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)
    return re.sub(r"\s+", " ", parts).replace("|", "/")[:160]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _throughput(measured: Sequence[Measured]) -> Iterator[str]:
    for item in measured:
        per_job = item.report.facts.get("per job")
        if per_job:
            columns = list(next(iter(per_job.values())))
            yield from ("## Work of the database for a job", "")
            yield "Without the enqueueing, counted from the records of the write-ahead log."
            yield from ("", f"| {item.name} | jobs/s | {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) + 1)}")
            for name, figures in per_job.items():
                cells = (item.report.facts["jobs/s"][name], *figures.values())
                yield f"| {name} | {' | '.join(map(_number, cells))} |"
            yield ""


def chart(measured: Sequence[Measured]) -> str:
    """Return a bar for each goal: the figure as a multiple of the goal, with a line at the goal."""
    bars = [
        (f"{item.name}: {name}", value / at_most if at_most else float(value > 0) * CHART_AT_MOST)
        for item in measured
        for name, value, at_most in item.report.goals()
    ]
    goal, height = LABELS + BAR / CHART_AT_MOST, LINE * len(bars) + LINE
    shapes = "\n".join(
        f'<text x="{LABELS - 6}" y="{LINE * number + 13}" text-anchor="end">{_escaped(label)}</text>'
        f'<rect x="{LABELS}" y="{LINE * number + 3}" height="{LINE - 6}"'
        f' width="{BAR * min(times, CHART_AT_MOST) / CHART_AT_MOST:.1f}" fill="{REACHED if times <= 1 else MISSED}"/>'
        f'<text x="{LABELS + BAR + 6}" y="{LINE * number + 13}">{times:.2f}</text>'
        for number, (label, times) in enumerate(bars)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + BAR + 50}" height="{height}"'
        ' font-family="sans-serif" font-size="11" fill="#4a5568">\n'
        f"<title>Figures as multiples of their goals</title>\n{shapes}\n"
        f'<line x1="{goal:.1f}" x2="{goal:.1f}" y1="0" y2="{height}" stroke="#4a5568"/>\n</svg>\n'
    )


def _escaped(label: str) -> str:
    return label.replace("&", "&amp;").replace("<", "&lt;")
