"""Keep the statistics of what ended, as the engine."""

from datetime import timedelta

from turno.store.engine.engine import Engine


def count(engine: Engine, limit: int, from_lowest: bool) -> int:  # noqa: FBT001 - a pass hands on what it was given
    """Add up to `limit` outcomes to the counts; returns how many.

    What a transaction committed hours after it had its ids is found only `from_lowest`, which may read much.
    """
    return int(engine.value("SELECT count_outcomes(%s, %s)", limit, from_lowest))


def fold_dead_letters(engine: Engine) -> int:
    """Make one row of each group of dead letters that was counted several times; returns how many rows there were."""
    return int(engine.value("SELECT fold_dead_letter_counts()"))


def prune(engine: Engine, minutes: timedelta, jobs: timedelta) -> int:
    """Remove older counts by minute, and which jobs were counted; returns how many counts."""
    return int(engine.value("SELECT prune_outcome_counts(%s, %s)", minutes, jobs))


def analyze(engine: Engine) -> int:
    """Analyze the control tables that grew to several times the size that the planner knows; returns how many."""
    return int(engine.value("SELECT analyze_grown()"))
