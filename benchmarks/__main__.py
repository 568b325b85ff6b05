"""Run one benchmark: `python -m benchmarks NAME [--json] [--quick | --smoke] [--peers]`; without a name, list them."""

from __future__ import annotations

import signal
import sys

import click

from benchmarks.benchmark import NAMES, Options, benchmark_named


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False, metavar="[NAME]")
@click.option("--json", "json_wanted", is_flag=True, help="Print the figures as one JSON line at the end.")
@click.option("--quick", is_flag=True, help="Fewer samples, within a minute.")
@click.option("--smoke", is_flag=True, help="The smallest sizes, within seconds: only whether the benchmark runs.")
@click.option("--peers", is_flag=True, help="Install other systems in a folder of their own to compare.")
def main(*, name: str | None, json_wanted: bool, quick: bool, smoke: bool, peers: bool) -> None:
    """Run the benchmark NAME; without a name, list them. Exit status 1 if something is broken."""
    if name is None:
        click.echo("\n".join(f"{item:<12} {benchmark_named(item).about}" for item in NAMES))
        return
    # Ended from outside, it still stops its server and leaves no folder behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = benchmark_named(name).run(Options(quick=quick, smoke=smoke, peers=peers))
    click.echo("\n".join(report.lines()))
    if json_wanted:
        click.echo(report.json(quick=quick or smoke))
    if report.broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
