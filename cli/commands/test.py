"""The command `turno test`: the checks of a change, in two rings."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

import click

from cli.commands.development_tools import DEEP_TOOLS, begin_anew_with_tools
from cli.commands.test_run import ROOT, Report, run_static_checks, run_tests, tests_compiled
from cli.servers import system_packages

# The fast ring: rules, SQL and HTTP against a real server, spawned workers, and a kill of one.
FAST_RING = ("tests/test_architecture.py", "tests/unit", "tests/integration", "tests/acceptance/test_worker.py")
# The markers of the deep ring: tests that need a system package, or root, or take long.
DEEP = (*(package.marker for package in system_packages.WANTED), "root", "deep")


@click.command("test", context_settings={"ignore_unknown_options": True})
@click.option(
    "--deep", is_flag=True, help="Run every test: also RabbitMQ, the browser, faults, mutants and the nemesis."
)
@click.option("--yes", is_flag=True, help="Install missing system packages without a confirmation.")
@click.option("--coverage", is_flag=True, help="Measure the coverage; fails below 85 %.")
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(*, deep: bool, yes: bool, coverage: bool, pytest_arguments: tuple[str, ...]) -> None:
    """Run the static checks and the fast ring of the tests, or with --deep every test there is.

    Everything after the command's own options goes to pytest instead, for example `turno test tests/unit -k lock`.
    """
    if not (ROOT / "tests").is_dir():
        raise click.ClickException("the tests are not part of the installed package: run this in a checkout")
    if deep or pytest_arguments:
        begin_anew_with_tools(DEEP_TOOLS, group="deep")
    else:
        begin_anew_with_tools()
    report = Report()
    if deep or pytest_arguments:
        left_out = get_ready(yes=yes or os.environ.get("CI") == "true")
        with nullcontext() if pytest_arguments else tests_compiled():
            run_static_checks(report)
        run_tests(
            report,
            left_out=list(left_out),
            arguments=pytest_arguments,
            whole=not pytest_arguments,
            coverage=coverage,
        )
        report.failures += [f"left out: {reason}" for reason in left_out.values()]
    else:
        run_static_checks(report)
        run_tests(report, left_out=DEEP, arguments=FAST_RING, whole=False, coverage=coverage)
        click.echo("this was the fast ring; `turno test --deep` runs every test")
    for failure in report.failures:
        click.echo(f"failed: {failure}")
    click.echo(report.closing_line or "pytest did not get to its closing line")
    if report.failures:
        raise SystemExit(1)


def get_ready(*, yes: bool) -> dict[str, str]:
    """Install missing packages; return for each marker that cannot run the missing package and the reason."""
    absent = system_packages.missing()
    why = system_packages.reason_not_to_install()
    if absent and why is None:
        names = ", ".join(package.name for package in absent)
        if not yes and not someone_can_answer():
            why = "no terminal to confirm: use --yes or CI=true"
        elif yes or click.confirm(f"The tests need {names}. Install with apt-get?", default=True):
            click.echo(f"--- apt-get install {names}")
            why = None if system_packages.install(absent) else "apt-get could not install it"
        else:
            why = "you said no"
    left_out = {
        package.marker: f"tests that need {package.name} ({why or 'installed, yet its program is not found'})"
        for package in system_packages.missing(absent)
    }
    if os.geteuid() != 0:
        left_out["root"] = "tests that need root (you are not)"
    for reason in left_out.values():
        click.echo(f"left out: {reason}")
    return left_out


def someone_can_answer() -> bool:
    """Return whether questions reach a person."""
    return sys.stdin.isatty()
