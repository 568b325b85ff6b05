"""What only one process of the installation does at a time, as the engine."""

from datetime import timedelta
from typing import Any

import psycopg

from turno.store.one_row import value_of

Engine = psycopg.Connection[Any]


def take(engine: Engine, name: str, holder: str, period: timedelta, after: timedelta = timedelta(0)) -> bool:
    """Take a lease for a period; False if another process has it, or had it until less than `after` ago."""
    return bool(value_of(engine, "SELECT lease_take(%s, %s, %s, %s)", name, holder, period, after))


def age(engine: Engine, name: str) -> timedelta:
    """Return for how long holders have followed one another without a gap; nothing if nobody ever had it."""
    unbroken: timedelta | None = value_of(engine, "SELECT lease_age(%s)", name)
    return unbroken or timedelta(0)


def keep(engine: Engine, name: str, holder: str, period: timedelta) -> bool:
    """Ask to go on, or begin, being the one that does something; False if another is."""
    return bool(value_of(engine, "SELECT lease_keep(%s, %s, %s)", name, holder, period))


def drop(engine: Engine, name: str, holder: str) -> None:
    """Let another begin at once."""
    engine.execute("SELECT lease_drop(%s, %s)", (name, holder))
