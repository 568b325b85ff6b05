"""The command `turno`: assembled from a table, so that asking for one command loads that one alone."""

from __future__ import annotations

import os
from typing import NamedTuple

import click

from turno.commands.output.failures import run_plainly
from turno.environment import read_env_file, said
from turno.errors import InvalidSettings
from turno.named import load


class Entry(NamedTuple):
    """Where a command is defined, as `module:name`, and its line in `turno --help`."""

    place: str
    line: str


COMMANDS = {
    "init": Entry("turno.commands.init:init", "Prepare this folder: keys, one handler and its test."),
    "new-handler": Entry("turno.commands.new_handler:new_handler", "Write a handler and its test."),
    "doctor": Entry("turno.commands.doctor:doctor", "Find what is wrong in this installation and say how to fix it."),
    "status": Entry("turno.commands.status:status", "Say in a sentence whether anything is wrong."),
    "alerts": Entry("turno.commands.alerts:alerts", "Show which alerts are raised, and try whether they arrive."),
    "serve": Entry("turno.commands.serve:serve", "Serve HTTP."),
    "worker": Entry("turno.commands.worker:worker", "Run waiting jobs in the foreground, then exit."),
    "pool": Entry("turno.commands.pool:pool", "Run waiting jobs in resident child processes until SIGTERM."),
    "workers": Entry("turno.commands.workers:workers", "List the workers and how long each has been silent."),
    "consume": Entry("turno.commands.consume:consume", "Run the jobs that RabbitMQ distributes until SIGTERM."),
    "maintain": Entry("turno.commands.maintain:maintain", "Run the maintenance tasks until SIGTERM, if no pool does."),
    "cleanup": Entry("turno.commands.cleanup:cleanup", "Run every maintenance task once, as cron does."),
    "migrate": Entry(
        "turno.commands.migrate:migrate", "Migrate the database and every tenant to this release, or back."
    ),
    "backend": Entry(
        "turno.commands.backend:backend", "Show the backends and their jobs, or change which one runs jobs."
    ),
    "broker": Entry("turno.commands.broker:broker", "Create the exchange and queues in RabbitMQ, check existing ones."),
    "jobs": Entry("turno.commands.jobs:jobs", "Submit, list, show and change jobs, of one tenant or of many."),
    "events": Entry("turno.commands.events:events", "List and replay events; list and remove subscriptions."),
    "schedule": Entry("turno.commands.schedule:schedule", "Make jobs again and again: add, list, set, pause, preview."),
    "tenant": Entry("turno.commands.tenant:tenant", "Add, list, set and remove tenants; reset their access."),
    "type": Entry("turno.commands.type_settings:job_type", "List and change the settings of job types."),
    "callbacks": Entry(
        "turno.commands.callbacks:callbacks", "Have addresses told of jobs' ends, and send again what nobody took."
    ),
    "audit": Entry("turno.commands.audit:audit", "Show what operators have changed."),
    "host": Entry("turno.commands.host:host", "Give roles of the application what PUBLIC had before Turno."),
    "uninstall": Entry("turno.commands.uninstall:command", "Remove Turno from the database; adopted schemas stay."),
    "company": Entry("turno.commands.company:company", "Add companies, which group tenants."),
    "token": Entry("turno.commands.token:token", "Print a token for development."),
}


def application_commands() -> dict[str, Entry]:
    """Return the further commands of the application, where COMMANDS names a table of them.

    The table maps a command's name to its place, as `module:name`, and its line in `turno --help`.
    """
    place = said("COMMANDS")
    if not place:
        return {}
    try:
        return {name: Entry(*entry) for name, entry in load(place).items()}
    except Exception as error:  # a module may raise anything
        raise InvalidSettings([f"COMMANDS={place}: {type(error).__name__}: {error}"]) from error


class LazyGroup(click.Group):
    """Loads a command's module when the command is asked for, and tells its errors plainly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the tables' order."""
        del ctx
        return [*COMMANDS, *application_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command's module."""
        del ctx
        entry = COMMANDS.get(cmd_name) or application_commands().get(cmd_name)
        if entry is None:
            return None
        command: click.Command = load(entry.place)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's lines: help for all must not load all."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in (COMMANDS | application_commands()).items()])

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
