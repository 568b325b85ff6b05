"""Read outcomes into the statistics, and prune both, as the engine."""

from datetime import timedelta

from turno.store.engine.engine import Engine


def count(engine: Engine, limit: int) -> int:
    """Add the outcomes of up to `limit` batches to the statistics; returns the number of outcomes."""
    return int(engine.value("SELECT count_outcomes(%s)", limit))


def fold_dead_letters(engine: Engine) -> int:
    """Merge rows that count the same group of dead letters; returns the number of rows before."""
    return int(engine.value("SELECT fold_dead_letter_counts()"))


def prune(engine: Engine, minutes: timedelta, outcomes: timedelta) -> int:
    """Delete statistics of older minutes, and older outcomes; returns the number of rows of statistics."""
    return int(engine.value("SELECT prune_statistics(%s, %s)", minutes, outcomes))


def analyze(engine: Engine) -> int:
    """Analyze the control tables that are several times as large as the planner assumes; returns their number."""
    return int(engine.value("SELECT analyze_grown()"))
