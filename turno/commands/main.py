"""The command `turno`: assembled from a table, so that asking for one command loads that one alone."""

from __future__ import annotations

import os
from importlib import import_module
from typing import NamedTuple

import click

from turno.commands.output.failures import run_plainly
from turno.environment import read_env_file


class Entry(NamedTuple):
    """Where a command is defined, as `module:name`, and its line in `turno --help`."""

    place: str
    line: str


COMMANDS = {
    "demo": Entry("cli.commands.demo:demo", "Start everything here, invoice 830 orders and leave the pages open."),
    "serve": Entry("turno.commands.serve:serve", "Serve HTTP."),
    "worker": Entry("turno.commands.worker:worker", "Run waiting jobs in the foreground, then leave."),
    "pool": Entry("turno.commands.pool:pool", "Stay and run what waits, with resident children."),
    "workers": Entry("turno.commands.workers:workers", "List the workers and how long each has been silent."),
    "consume": Entry(
        "turno.commands.consume:consume", "Stay and run what RabbitMQ distributes, with resident children."
    ),
    "maintain": Entry("turno.commands.maintain:maintain", "Stay and run the maintenance passes, where no pool does."),
    "cleanup": Entry("turno.commands.cleanup:cleanup", "Run every maintenance pass once, as cron does."),
    "migrate": Entry("turno.commands.migrate:migrate", "Bring the database and every tenant to this release, or back."),
    "backend": Entry(
        "turno.commands.backend:backend", "Show which backend has what, or change which one runs the jobs."
    ),
    "broker": Entry("turno.commands.broker:broker", "Make what Turno needs in RabbitMQ, and compare what is there."),
    "jobs": Entry("turno.commands.jobs:jobs", "List, show, retry and cancel jobs."),
    "tenant": Entry("turno.commands.tenant:tenant", "Add, list and remove tenants; mend their access."),
    "company": Entry("turno.commands.company:company", "Add companies, which group tenants."),
    "token": Entry("turno.commands.token:token", "Print a token for development."),
    "nemesis": Entry("cli.commands.nemesis:nemesis", "Break everything at random on a server of its own, and judge."),
    "test": Entry(
        "cli.commands.test:test",
        "Run the static checks and the fast ring of the tests, or with --deep every test there is.",
    ),
}


class LazyGroup(click.Group):
    """Loads a command's module when the command is asked for, and tells its errors plainly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command's module."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].place.split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's lines: help for all must not load all."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; what it returns is the exit status, 1 after an error that a person can act on."""
        ctx.exit(run_plainly(lambda: super(LazyGroup, self).invoke(ctx)))


@click.group(cls=LazyGroup)
@click.version_option(package_name="turno-jobs", message="%(prog)s %(version)s")
@click.option("--env-file", metavar="FILE", help="Read settings from FILE instead of .env; `-` is standard input.")
@click.option("--app", metavar="PLACE", help="Where the handlers are, as package.module:name; in place of HANDLERS.")
def main(env_file: str | None, app: str | None) -> None:
    """Run background jobs for applications that keep each tenant in its own PostgreSQL schema."""
    if app is not None:
        os.environ["HANDLERS"] = app
    if env_file is not None:
        read_env_file(env_file)


if __name__ == "__main__":
    main(prog_name="turno")
