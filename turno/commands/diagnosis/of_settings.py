"""Look at the settings and at what they name, without a database."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from turno.capability import backends
from turno.commands.diagnosis.advice import Advice
from turno.errors import InvalidSettings
from turno.jobs.named_handlers import named_handlers
from turno.settings import PREFIX, Settings, variable_of
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CORRECT = "correct it in .env or in the environment"


def of_settings(variables: Mapping[str, str]) -> Iterator[Advice]:
    """Yield every setting that lacks its prefix, is wrong or missing, or names a module that cannot be loaded."""
    for setting in fields(Settings):
        name = setting.name.upper()
        if name in variables and not Settings.value(variables, setting.name):
            yield Advice(f"{name} is not a setting, {PREFIX}{name} is", "rename it in .env or in the environment")
    try:
        settings = Settings.read(variables).require("database_url", "master_key", "jwt_key", "handlers")
    except InvalidSettings as wrong:
        yield from (Advice(problem, CORRECT, fatal=True) for problem in wrong.problems)
        return
    yield from _loaded(lambda: logins_of(settings))
    yield from _loaded(migrations)
    yield from _loaded(lambda: named_handlers(settings.handlers))
    for name in backends()[settings.queue_backend].needs:
        if not getattr(settings, name):
            yield Advice(f"QUEUE_BACKEND={settings.queue_backend} needs {variable_of(name)}", CORRECT)


def _loaded(load: Callable[[], object]) -> Iterator[Advice]:
    try:
        load()
    except InvalidSettings as wrong:
        yield from (Advice(problem, CORRECT, fatal=True) for problem in wrong.problems)
