"""Look at the settings and at what they name, without a database."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING

from turno.capability import backends
from turno.commands.diagnosis.advice import Advice
from turno.errors import InvalidSettings
from turno.jobs.named_handlers import named_handlers
from turno.settings import PREFIX, Settings
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAMES = frozenset(setting.name.upper() for setting in fields(Settings))
# At 0.85, QUEUE_BACKENDS is taken for QUEUE_BACKEND, and HOME, PWD and PORT are taken for nothing.
ALIKE = 0.85
CORRECT = "correct it in .env or in the environment"


def of_settings(variables: Mapping[str, str]) -> Iterator[Advice]:
    """Yield what is misspelled, wrong, missing or names what cannot be loaded: all of it at once."""
    for name in sorted(variables.keys() - NAMES):
        meant = get_close_matches(name.upper().removeprefix(PREFIX), NAMES, n=1, cutoff=ALIKE)
        # Next to the setting itself, the name is a variable of somebody else's: DATABASE_USER beside DATABASE_URL.
        if meant and not Settings.value(variables, meant[0]):
            yield Advice(f"{name} is no setting, {meant[0]} is", "rename it in .env or in the environment")
    try:
        settings = Settings.read(variables).require("database_url", "master_key", "jwt_key", "handlers")
    except InvalidSettings as wrong:
        yield from (Advice(problem, CORRECT, fatal=True) for problem in wrong.problems)
        return
    yield from _loaded(lambda: logins_of(settings))
    yield from _loaded(lambda: migrations(settings))
    yield from _loaded(lambda: named_handlers(settings.handlers))
    for name in backends()[settings.queue_backend].needs:
        if not getattr(settings, name):
            yield Advice(f"QUEUE_BACKEND={settings.queue_backend} needs {name.upper()}", CORRECT)


def _loaded(load: Callable[[], object]) -> Iterator[Advice]:
    try:
        load()
    except InvalidSettings as wrong:
        yield from (Advice(problem, CORRECT, fatal=True) for problem in wrong.problems)
