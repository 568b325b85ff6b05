"""Results of commands: sentences and tables, or JSON with the option --json of every command."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from turno.commands.output.tables import print_table
from turno.jobs.moment import written

EXIT_STATUS = "Exit status: 0 if done; 1 if refused, failed, or if a problem is found; 2 for wrong usage."
_JSON = "turno.json"  # key of the context


def completed(command: click.Command) -> click.Command:
    """Add the option --json and the exit status to a command, or to each command of a group; return it."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            completed(one)
    elif EXIT_STATUS not in (command.epilog or ""):
        command.params.append(
            click.Option(["--json"], is_flag=True, expose_value=False, callback=_note, help="Print JSON, not text.")
        )
        command.epilog = "\n\n".join(filter(None, (command.epilog, EXIT_STATUS)))
    return command


def wants_json() -> bool:
    """Return whether the present command has the option --json."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_JSON))


def print_message(sentence: str, **fields: Any) -> None:
    """Print a sentence; with --json an object on one line, which has the sentence as `message` and the fields."""
    click.echo(json.dumps({"message": sentence} | fields, default=_plain) if wants_json() else sentence)


def show(rows: Any, headers: Sequence[str] = (), lines: Sequence[Sequence[Any]] = ()) -> None:
    """Print the lines as a table; with --json the rows."""
    if wants_json():
        click.echo(as_json(rows))
    else:
        print_table(headers, lines)


def as_json(rows: Any) -> str:
    """Return rows as JSON; times are ISO 8601 in UTC."""
    return json.dumps(rows, default=_plain, indent=2)


def _note(context: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - of click
    context.meta[_JSON] = value


def _plain(value: Any) -> str:
    return written(value, "auto") if isinstance(value, datetime) else str(value)
