"""The command `turno nemesis`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.schedule import WEIGHTS, Schedule
from nemesis.workload import KINDS, MOST_OPEN, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[2]
GUARDS = ("sweep", "rescue", "unique", "savepoint", "order")


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the faults and of the clients' jobs.")
@click.option(
    "--minutes", type=click.FloatRange(0.1, 24 * 60), default=2.0, show_default=True, help="Minutes with faults."
)
@click.option("--faults", help=f"Inject only these kinds, by comma: {', '.join(WEIGHTS)}.")
@click.option("--work", help=f"Submit only these kinds of work, by comma: {', '.join(KINDS)}.")
@click.option("--open", "most_open", type=int, default=MOST_OPEN, show_default=True, help="Most open jobs.")
@click.option(
    "--patience", type=float, default=30.0, show_default=True, help="Seconds without progress before the run fails."
)
@click.option("--without", type=click.Choice(GUARDS), help="Remove a guard, in a copy of the checkout.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
def nemesis(
    *,
    seed: int,
    minutes: float,
    faults: str | None,
    work: str | None,
    most_open: int,
    patience: float,
    without: str | None,
    as_json: bool,
) -> None:
    """Run real jobs on a private server, inject random faults, heal, drain, and check the promises.

    The seed fixes the schedule, which is printed first. Exit status 0 means that no invariant was violated. With
    --without, the run must fail: that proves that the judge would notice.
    """
    kinds, wanted = _named(faults, WEIGHTS, "fault"), _named(work, KINDS, "kind of work")
    if without:
        requested = {"seed": seed, "minutes": minutes, "faults": ",".join(kinds), "work": ",".join(wanted)}
        requested |= {"open": most_open, "patience": patience}
        further = [f"--{name}={value}" for name, value in requested.items()]
        raise SystemExit(_in_a_copy(without, [*further, *(("--json",) if as_json else ())]))
    schedule = Schedule.of(seed, minutes * 60, kinds)
    click.echo(f"seed {seed}, {minutes:g} minutes, {len(schedule.faults)} faults")
    for fault in schedule.faults:
        click.echo(str(fault))
    from nemesis.run import Run, print_verdict  # noqa: PLC0415 - help for the command must not load everything

    # SIGTERM acts like Ctrl-C: its children must end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdict = Run(schedule, Workload(wanted, most_open), patience=patience).run()
    print_verdict(verdict)
    if as_json:
        click.echo(verdict.as_json())
    if verdict.violations:
        raise SystemExit(1)


def _named(text: str | None, known: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names in a list by comma, all without one; raises BadParameter for one that is not known."""
    names = tuple(name.strip() for name in text.split(",")) if text else tuple(known)
    if unknown := sorted(set(names) - set(known)):
        raise click.BadParameter(f"no such {what}: {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


def _in_a_copy(guard: str, arguments: Sequence[str]) -> int:
    """Run the same command in a copy of this checkout without the guard; production has no switch for it."""
    if not (ROOT / "tests").is_dir():
        raise click.ClickException("only a checkout can be run without a guard: the tests know how to cut it out")
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants.nemesis", guard, *arguments], cwd=ROOT, check=False
    ).returncode
