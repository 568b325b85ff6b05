"""The command `turno`: assembled from a table, so that asking for one command loads that one alone."""

from __future__ import annotations

import click

from turno.capability import Command, enabled, merged
from turno.commands.output.failures import run_plainly
from turno.environment import project, read_env_file, set_on_command_line, setting
from turno.errors import InvalidSettings
from turno.named import load

COMMANDS = {
    "init": Command("turno.commands.init:init", "Prepare this folder: keys, one handler and its test."),
    "new-handler": Command("turno.commands.new_handler:new_handler", "Write a handler and its test."),
    "doctor": Command("turno.commands.doctor:doctor", "Find what is wrong in this installation and say how to fix it."),
    "status": Command("turno.commands.status:status", "Say in a sentence whether anything is wrong."),
    "serve": Command("turno.commands.serve:serve", "Serve HTTP."),
    "worker": Command("turno.commands.worker:worker", "Run waiting jobs in the foreground, then exit."),
    "pool": Command("turno.commands.pool:pool", "Run waiting jobs in resident child processes until SIGTERM."),
    "workers": Command("turno.commands.workers:workers", "List the workers and how long each has been silent."),
    "maintain": Command(
        "turno.commands.maintain:maintain", "Run the maintenance tasks until SIGTERM, if no pool does."
    ),
    "cleanup": Command("turno.commands.cleanup:cleanup", "Run every maintenance task once, as cron does."),
    "migrate": Command("turno.commands.migrate:migrate", "Migrate the database and every tenant to this release."),
    "backend": Command(
        "turno.commands.backend:backend", "Show the backends and their jobs, or change which one runs jobs."
    ),
    "jobs": Command("turno.commands.jobs:jobs", "Submit, list, show and change jobs, of one tenant or of many."),
    "tenant": Command("turno.commands.tenant:tenant", "Add, list, set and remove tenants; reset their access."),
    "type": Command("turno.commands.type_settings:job_type", "List and change the settings of job types."),
    "company": Command("turno.commands.company:company", "Add companies, which group tenants."),
    "token": Command("turno.commands.token:token", "Print a token for development."),
}


def all_commands() -> dict[str, Command]:
    """Return the commands of the core, of the enabled capabilities and of the application, in this order.

    `commands` in [tool.turno] names the application's table: names of commands with (place, line of help).
    """
    capabilities = enabled(setting("capabilities"))
    own = merged("command", [COMMANDS, *(one.commands for one in capabilities)])
    place = project().get("commands")
    if not place:
        return own
    try:
        return own | {name: Command(*entry) for name, entry in load(place).items() if name not in own}
    except Exception as error:  # a module may raise anything
        raise InvalidSettings(
            [f"pyproject.toml: [tool.turno] commands={place}: {type(error).__name__}: {error}"]
        ) from error


class LazyGroup(click.Group):
    """Loads a command's module when the command is asked for, and tells its errors plainly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the tables' order."""
        del ctx
        return [*all_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command's module."""
        del ctx
        entry = all_commands().get(cmd_name)
        if entry is None:
            return None
        command: click.Command = load(entry.place)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's lines: help for all must not load all."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in all_commands().items()])

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; what it returns is the exit status, 1 after an error that a person can act on."""
        ctx.exit(run_plainly(lambda: super(LazyGroup, self).invoke(ctx)))


@click.group(cls=LazyGroup)
@click.version_option(package_name="turno-jobs", message="%(prog)s %(version)s")
@click.option("--env-file", metavar="FILE", help="Read settings from FILE instead of .env; `-` is standard input.")
@click.option(
    "--app", metavar="PLACE", help="Where the handlers are, as package.module:name; in place of TURNO_HANDLERS."
)
def main(env_file: str | None, app: str | None) -> None:
    """Run background jobs for applications that keep each tenant in its own PostgreSQL schema."""
    if app is not None:
        set_on_command_line("handlers", app)
    if env_file is not None:
        read_env_file(env_file)


if __name__ == "__main__":
    main(prog_name="turno")
