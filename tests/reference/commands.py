"""The commands page, from the commands of the product with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turno.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """\
# Commands

Exit status: 0 after success, 1 after an error or a finding that the message describes, 2 for a wrong option. Each
command has `--json`: it prints rows as a JSON array, and each message as an object on one line. Shell completion:
`eval "$(_TURNO_COMPLETE=bash_source turno)"`, likewise for `zsh` and `fish`.
"""
OF_THE_CHECKOUT = {"demo", "docs", "nemesis", "tax-authority", "tax-authority-stub", "test"}


def commands_page() -> str:
    """Return docs/commands.md."""
    return HEAD + "".join(_commands(main, click.Context(main, info_name="turno"), ()))


def _commands(group: click.Group, context: click.Context, words: tuple[str, ...]) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or (not words and name in OF_THE_CHECKOUT):
            continue
        if isinstance(command, click.Group):
            yield from _commands(command, context, (*words, name))
            continue
        yield f"\n## turno {' '.join((*words, name))}\n\n{command.get_short_help_str(400)}\n\n"
        lines = []
        for parameter in command.params:
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record and "--json" not in parameter.opts:
                lines.append(f"- `{record[0]}`: {record[1]}\n")
        example, _, _ = (command.epilog or "").partition("\n")
        yield "".join([*lines, "\n"]) if lines else ""
        yield f"{example.replace('Example: ', 'Example: `')}`\n"
