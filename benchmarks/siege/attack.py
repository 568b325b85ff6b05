"""An attack and its judgement: by a named refusal, or by the attacker's own failure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import psycopg

    from benchmarks.http_client import Answer
    from benchmarks.siege.target import Target

UNAVAILABLE, CLIENT_ERRORS = 503, range(400, 500)
# Not refused but misspelt: the benchmark has fallen behind the schema, and nothing was attacked.
OUTDATED = {
    "UndefinedColumn", "UndefinedFunction", "UndefinedTable", "UndefinedObject", "SyntaxError", "AmbiguousFunction",
}  # fmt: skip
SHOWN = 160  # characters of a message


class Ending(NamedTuple):
    """How an attack ended: whether the result is correct, and its description."""

    decent: bool
    how: str


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to harm others.

    `begin` attacks for a number of seconds, and returns a function that describes the end.
    the point of the list of faults that it repeats, `door` is where it comes in.
    """

    name: str
    of: str
    door: str
    begin: Callable[[Target, float], Callable[[], Ending]]


def both(*endings: Ending) -> Ending:
    """Return one ending of an attack in several steps."""
    return Ending(all(ending.decent for ending in endings), "; ".join(ending.how for ending in endings))


def first_line(message: object) -> str:
    """Return the message of an error without its details."""
    return (str(message).strip().splitlines() or [""])[0][:SHOWN]


def refused(error: psycopg.Error) -> Ending:
    """Return the ending by an error of the database's, which names itself."""
    name = type(error).__name__
    return Ending(name not in OUTDATED, f"refused: {error.sqlstate} {name}: {first_line(error)}")


def of_job(row: dict[str, Any] | None, *, may_complete: bool = False) -> Ending:
    """Return the ending of an attack that was a job: the job must have failed, unless it `may_complete`."""
    if row is None:
        return Ending(decent=False, how="its job is gone")
    error = row["error"] or {}
    name, message = error.get("class", ""), first_line(error.get("message", ""))
    how = f"job {row['status']}" + (f": {name}: {message}" if name else "")
    counted = f" ({row['attempt']} attempts, {row['errors']} errors, {row['crashes']} crashes)"
    if row["status"] == "completed":
        return Ending(may_complete, how)
    return Ending(row["status"] in {"failed", "cancelled"} and name not in OUTDATED, how + counted)


def of_answers(answers: Iterable[Answer], *, fine: Iterable[int] = (), within: float) -> Ending:
    """Return the ending of requests: each answered in time, granted if `fine`, otherwise refused by name."""
    answers = list(answers)
    reply = Counter(_reply(answer) for answer in answers)
    slowest = max((answer.took for answer in answers), default=0) / 1000
    named = all(answer.status in fine or _is_named_refusal(answer) for answer in answers)
    counts = ", ".join(f"{times} x {words}" for words, times in reply.most_common(6))
    return Ending(bool(answers) and named and slowest <= within, f"{counts or 'no answer'}; slowest {slowest:.2f} s")


def _is_named_refusal(answer: Answer) -> bool:
    if answer.status == UNAVAILABLE:
        return "retry-after:" in answer.head.lower()
    return answer.status in CLIENT_ERRORS and bool(_slug(answer))


def _reply(answer: Answer) -> str:
    return f"{answer.status} {_slug(answer)}".strip() if answer.status else f"none: {answer.body.decode()[:60]}"


def _slug(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["type"]).partition("#")[2]
    except (ValueError, KeyError, TypeError):
        # The pages' refusals are pages.
        return "a page" if answer.status in CLIENT_ERRORS and b"<html" in answer.body[:200].lower() else ""
