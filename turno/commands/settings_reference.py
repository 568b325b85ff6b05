"""Write down every setting from its definition: `python -m turno.commands.settings_reference > .env.example`."""

from __future__ import annotations

from dataclasses import fields
from textwrap import fill
from typing import TYPE_CHECKING, Any

from turno.settings import Settings

if TYPE_CHECKING:
    from dataclasses import Field

WIDTH = 100
REQUIRED = {"database_url": "postgresql://localhost:5432/turno", "master_key": "", "jwt_key": ""}
HEAD = """\
# Every setting of Turno. Copy this file to .env and change what you need: variables that are set already win, and an
# empty one means its default. What is commented out shows the default. Make a secret with `openssl rand -hex 32`.
"""


def env_example() -> str:
    """Return the text of `.env.example`: each setting after its explanation."""
    return "\n".join([HEAD, *map(_entry, fields(Settings))])


def markdown_table() -> str:
    """Return the README's table of settings, without a line end after it."""
    rows = [f"| `{setting.name.upper()}` | {_shown(setting)} | {_about(setting)} |" for setting in fields(Settings)]
    return "\n".join(["| variable | default | what it is |", "|---|---|---|", *rows])


def _entry(setting: Field[Any]) -> str:
    comment = fill(_about(setting), WIDTH, initial_indent="# ", subsequent_indent="# ")
    name = setting.name.upper()
    if setting.name in REQUIRED:
        return f"{comment}\n{name}={REQUIRED[setting.name]}\n"
    return f"{comment}\n#{name}={_written(setting.default)}\n"


def _about(setting: Field[Any]) -> str:
    about, within = setting.metadata["about"], setting.metadata["within"]
    return f"{about}; from {within[0]} to {within[1]}" if within else str(about)


def _shown(setting: Field[Any]) -> str:
    if setting.name in REQUIRED:
        return "required"
    written = _written(setting.default)
    return f"`{written}`" if written else ""


def _written(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)


if __name__ == "__main__":
    print(env_example(), end="")
