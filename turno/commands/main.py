"""The command `turno`: a table of commands, so that each call imports only its own command."""

from typing import Any

import click

from turno.capability import Command, enabled, load, merged
from turno.commands.failures import run_plainly
from turno.commands.output import completed
from turno.environment import project, read_env_file, set_on_command_line, setting
from turno.errors import InvalidSettings

COMMANDS = {
    "init": Command("turno.commands.init:init", "Prepare this folder: keys, one handler and its test."),
    "handler add": Command("turno.commands.init:new_handler", "Write a handler and its test."),
    "doctor": Command("turno.commands.doctor:doctor", "Find the problems of this installation and their remedies."),
    "status": Command("turno.commands.doctor:status", "State whether anything is wrong."),
    "serve": Command("turno.commands.work:serve", "Serve HTTP."),
    "work": Command("turno.commands.work:work", "Run waiting jobs until SIGTERM, or once."),
    "maintain": Command("turno.commands.work:maintain", "Run the maintenance tasks until SIGTERM, or once."),
    "db migrate": Command("turno.commands.db:migrate", "Migrate the database and each tenant to this release."),
    "db plan": Command("turno.commands.db:plan", "Print the SQL that an installation would run on roles and rights."),
    "db check": Command("turno.commands.db:check", "Compare the rights in the database with this release."),
    "db status": Command("turno.commands.db:status", "Show the version of each schema."),
    "db rollback": Command("turno.commands.db:rollback", "Roll back the application's last migrations."),
    "worker list": Command("turno.commands.workers:list_all", "List the workers and the age of their heartbeats."),
    "worker set": Command("turno.commands.workers:change_worker", "Request that a worker pauses, continues or stops."),
    "backend": Command(
        "turno.commands.workers:backend", "Show the backends and their jobs, or change which one runs jobs."
    ),
    "job": Command("turno.commands.jobs:jobs", "Submit, list, show and change jobs, of one tenant or of many."),
    "tenant": Command("turno.commands.tenant:tenant", "Add, list, set and remove tenants; reset their access."),
    "type": Command("turno.commands.run_time_settings:job_type", "List and change the settings of job types."),
    "company": Command("turno.commands.tenant:company", "Add companies, which group tenants."),
    "token": Command("turno.commands.token:token", "Print a token for development."),
}


def all_commands() -> dict[str, Command]:
    """Return the commands of the core, of the enabled capabilities and of the application, in this order.

    `commands` in [tool.turno] names the application's table: names of commands with (place, line of help).
    """
    capabilities = enabled(setting("capabilities"))
    own = merged("command", [COMMANDS, *(capability.commands for capability in capabilities)])
    reference = project().get("commands")
    if not reference:
        return own
    try:
        return own | {name: Command(*entry) for name, entry in load(reference).items() if name not in own}
    except Exception as error:  # a module may raise anything
        raise InvalidSettings(
            [f"pyproject.toml: [tool.turno] commands={reference}: {type(error).__name__}: {error}"]
        ) from error


class LazyGroup(click.Group):
    """Loads the module of the called command only; the word before a space in a table is a group of commands."""

    def __init__(self, *arguments: Any, of: str = "", **options: Any) -> None:
        """`of` is the group and a space; by default this group has all commands."""
        super().__init__(*arguments, **options)
        self._of = of

    def _entries(self) -> dict[str, Command]:
        commands = all_commands().items()
        return {name.removeprefix(self._of): entry for name, entry in commands if name.startswith(self._of)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the tables' order."""
        del ctx
        return [*dict.fromkeys(name.partition(" ")[0] for name in self._entries())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command's module."""
        del ctx
        entries = self._entries()
        if cmd_name in entries:
            command: click.Command = load(entries[cmd_name].reference)
            return completed(command) if entries[cmd_name].reference.startswith("turno.") else command
        group = f"{self._of}{cmd_name} "
        if not any(name.startswith(f"{cmd_name} ") for name in entries):
            return None
        return LazyGroup(cmd_name, of=group, help=f"The commands `turno {group}…`.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lines of the tables, without loading a command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in self._entries().items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; its result is the exit status, 1 after an error that a person can act on."""
        if self._of:
            return super().invoke(ctx)
        return ctx.exit(run_plainly(lambda: super(LazyGroup, self).invoke(ctx)))


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
