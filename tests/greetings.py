"""A handler for tests: a batch of greetings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from handlers import LOCALE
from turno.errors import InvalidPayload
from turno.jobs.handler import JobHandler, Registry

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class Greeting:
    """The person to greet, and the greeting."""

    to: int
    words: str = "hello"
    worth: Decimal = Decimal("0.10")


@dataclass(frozen=True, slots=True)
class GreetingsPayload:
    """Greetings of one day."""

    greetings: tuple[Greeting, ...]
    day: date
    tone: Literal["warm", "formal"] = "warm"
    note: str | None = None


class Greetings(JobHandler[GreetingsPayload]):
    type = "greetings"

    @classmethod
    def validate(cls, payload: GreetingsPayload) -> None:
        problems = []
        if not payload.greetings:
            problems.append({"field": "greetings", "problem": "must have at least one entry"})
        if len({greeting.to for greeting in payload.greetings}) < len(payload.greetings):
            problems.append({"field": "greetings", "problem": "has the same person twice"})
        if problems:
            raise InvalidPayload(problems)

    def handle(self, job: JobContext, payload: GreetingsPayload) -> dict[str, Any]:
        raise NotImplementedError


def build_registry() -> Registry:
    return Registry({"greetings": "tests.greetings:Greetings"}, locale=LOCALE)


def valid_body(**more: Any) -> dict[str, Any]:
    return {"payload": {"greetings": [{"to": 1}, {"to": 2}], "day": "2030-01-31"}} | more
