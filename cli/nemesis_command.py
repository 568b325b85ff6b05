"""The command `turno nemesis`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click

from cli.nemesis.schedule import WEIGHTS, Schedule
from cli.wiring import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

GUARDS = ("token", "sweep", "rescue", "unique", "savepoint")


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Whence the faults and the clients' wishes come.")
@click.option("--minutes", type=click.FloatRange(0.1, 24 * 60), default=2.0, show_default=True, help="Time of faults.")
@click.option("--faults", help="Only these kinds, by comma.")
@click.option("--patience", type=float, default=30.0, show_default=True, help="Seconds of standstill that are stuck.")
@click.option("--without", type=click.Choice(GUARDS), help="Switch a guard off, in a copy of a checkout.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
def nemesis(
    *, seed: int, minutes: float, faults: str | None, patience: float, without: str | None, as_json: bool
) -> None:
    """Do real work on a server of its own, break everything at random, heal, drain, and judge what is left.

    The seed fixes the schedule, which is printed first. Exit status 0 means that no invariant was violated. With
    --without, the run must fail: that proves that the judge would notice.
    """
    if without:
        further = [*(("--faults", faults) if faults else ()), *(("--json",) if as_json else ())]
        asked = ("--seed", str(seed), "--minutes", str(minutes), "--patience", str(patience), *further)
        raise SystemExit(_in_a_copy(without, asked))
    kinds = tuple(kind.strip() for kind in faults.split(",")) if faults else tuple(WEIGHTS)
    if unknown := sorted(set(kinds) - set(WEIGHTS)):
        raise click.BadParameter(f"no such fault: {', '.join(unknown)}; there are: {', '.join(WEIGHTS)}")
    schedule = Schedule.of(seed, minutes * 60, kinds)
    click.echo(f"seed {seed}, {minutes:g} minutes, {len(schedule.faults)} faults")
    for fault in schedule.faults:
        click.echo(str(fault))
    from cli.nemesis.run import Run, tell  # noqa: PLC0415 - help for the command must not load everything

    verdict = Run(schedule, patience=patience).play()
    tell(verdict)
    if as_json:
        click.echo(verdict.as_json())
    if verdict.violations:
        raise SystemExit(1)


def _in_a_copy(guard: str, arguments: Sequence[str]) -> int:
    """Run the same command in a copy of this checkout whose guard is cut out; production has no switch for it."""
    if not (ROOT / "tests").is_dir():
        raise click.ClickException("only a checkout can be run without a guard: the tests know how to cut it out")
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants.nemesis", guard, *arguments], cwd=ROOT, check=False
    ).returncode
