"""Results of commands: sentences and tables, or JSON with the option --json of every command."""

import json
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

import click

from turno.commands.failures import printable
from turno.jobs.moment import written

EXIT_STATUS = "Exit status: 0 if done; 1 if refused, failed, or if a problem is found; 2 for wrong usage."
_JSON = "turno.json"  # key of the context


def completed(command: click.Command) -> click.Command:
    """Add the option --json and the exit status to a command, or to each command of a group; return it."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            completed(subcommand)
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


GAP = "  "


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None = None) -> str:
    """Return aligned columns, numbers to the right; lines longer than `width` end in an ellipsis."""
    texts = [[text(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [headers, *texts]) for column in range(len(headers))]
    right = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        columns = zip(cells, widths, right, strict=True)
        joined = GAP.join(
            cell.rjust(size) if to_the_right else cell.ljust(size) for cell, size, to_the_right in columns
        )
        return shortened(joined.rstrip(), width)

    return "\n".join(map(line, [[header.upper() for header in headers], *texts]))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]], out: TextIO | None = None) -> None:
    """Print a table, cut to the terminal's width; piped, nothing is cut."""
    out = out or sys.stdout
    width = shutil.get_terminal_size().columns if out.isatty() else None
    print(table(headers, rows, width=width), file=out)


def shortened(line: str, width: int | None) -> str:
    """Return the line, cut to `width` characters with an ellipsis at the cut."""
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def text(cell: Any) -> str:
    """Return a value as a table's cell, on one line; None is empty and times are UTC to the second."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return written(cell)
    return printable(" ".join(str(cell).split()))


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) or cell is None
