"""The settings page and `.env.example`, from the fields of Settings and Limits."""

from __future__ import annotations

from dataclasses import fields
from textwrap import fill
from typing import TYPE_CHECKING, Any

from turno.settings import PREFIX, Limits, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from dataclasses import Field

WIDTH = 100
REQUIRED = {
    "database_url": "postgresql://localhost:5432/turno",
    "master_key": "",
    "jwt_key": "",
    "handlers": "",
}
IN_PRODUCTION = "public_url"
# The first setting of each group, by the title of the group.
GROUPS = {
    "Required": "database_url",
    "Application": "web_app",
    "Database": "admin_database_url",
    "Backends": "queue_backend",
    "Workers": "max_children",
    "Web": "web_bind",
    "Tokens": "jwt_issuer",
    "Limits and files": "limits",
    "Notifications": "webhook_hosts",
    "Logs": "log_level",
}
HEAD = """\
# Every setting of Turno. Copy this file to .env and change the values: variables of the environment take precedence,
# and an empty value means the default. A commented line shows the default. Make a secret with `openssl rand -hex 32`.
"""
PAGE = """\
# Settings

`turno` reads its settings from the environment, then from `.env` or from the file of `turno --env-file FILE …`, then
from `[tool.turno]` in the `pyproject.toml` of the working directory. Each variable has the prefix `TURNO_`;
`DATABASE_URL`, `QUEUE_BACKEND` and `RABBITMQ_URL` are also read without it, with lower precedence. An application that
mounts Turno (`Turno(app)`) reads its environment and `[tool.turno]` only: `.env` belongs to the application. Turno adds
no setting to the environment.

A wrong value, and an unknown variable with the prefix, stop the start; the message has the nearest known name.
`.env.example` has the same settings as a file to copy. An application's handlers may have variables without the prefix,
which Turno passes on; the handlers of the example: [Tax authority](examples.md#settings).

{groups}

## Names in TURNO_LIMITS

`TURNO_LIMITS=jobs_per_day_per_user=500,streams=4000` changes two limits and keeps the rest. An answer with status 429
has the reached limit under the same name. `turno tenant set` and `turno type set` change the jobs per day
of a tenant or a type at run time.

{limits}

## The project's facts

`[tool.turno]` in `pyproject.toml` has the facts that are the same in each place of operation. The variables
`TURNO_HANDLERS` and `TURNO_WEB_APP` take precedence.

| key | value |
|---|---|
| `handlers` | the handlers, as package.module:name |
| `web_app` | the function that returns the Flask application, as package.module:name |
| `migrations` | the folder of NNNN_name.sql: the application's tables in each tenant's schema |
| `commands` | the application's commands of `turno`, as package.module:name |
"""


def env_example() -> str:
    """Return the text of `.env.example`: each setting after its description."""
    return "\n".join([HEAD, *map(_entry, fields(Settings))])


def settings_page() -> str:
    """Return docs/settings.md."""
    return PAGE.format(groups="\n".join(_groups()), limits="\n".join(_table(fields(Limits), prefix="")))


def _groups() -> Iterator[str]:
    group: list[Field[Any]] = []
    title = ""
    for setting in fields(Settings):
        if (begun := group_of(setting)) is not None:
            if group:
                yield from [f"## {title}", "", *_table(group), ""]
            title, group = begun, []
        group.append(setting)
    yield from [f"## {title}", "", *_table(group)]


def _table(settings: Iterable[Field[Any]], prefix: str = PREFIX) -> Iterator[str]:
    yield from ("| variable | default | value |" if prefix else "| limit | default | value |", "|---|---|---|")
    for setting in settings:
        name = prefix + setting.name.upper() if prefix else setting.name
        yield f"| `{name}` | {_shown(setting)} | {_about(setting)} |"


def _entry(setting: Field[Any]) -> str:
    group = group_of(setting)
    head = f"# --- {group} ---\n\n" if group else ""
    comment = fill(_about(setting), WIDTH, initial_indent="# ", subsequent_indent="# ")
    name = PREFIX + setting.name.upper()
    if setting.name in REQUIRED:
        return f"{head}{comment}\n{name}={REQUIRED[setting.name]}\n"
    return f"{head}{comment}\n#{name}={_written(setting.default)}\n"


def _about(setting: Field[Any]) -> str:
    about, within = setting.metadata["about"], setting.metadata["within"]
    return f"{about}; from {within[0]} to {within[1]}" if within else str(about)


def _shown(setting: Field[Any]) -> str:
    if setting.name in REQUIRED:
        return "required"
    if setting.name == IN_PRODUCTION:
        return "required in production"
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


def group_of(setting: Field[Any]) -> str | None:
    """Return the title of the group that starts at this setting, or None."""
    return next((title for title, first in GROUPS.items() if first == setting.name), None)
