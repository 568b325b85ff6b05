"""The language of a request; messages, numbers, dates, durations and reasons in a language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from flask import Request, Response

from turno.catalogue import DEFAULT, Catalogues
from turno.web.api.job_body import CRASH, error_body, for_users
from turno.web.services import at, over_https, services

_NAME = "turno-language"
_YEAR_SECONDS = 31_536_000


def language_of(request: Request) -> str:
    """Return the language of the response; English if there is no catalogue of a requested language."""
    known = services().catalogues
    preferred = request.accept_languages.best_match(known)
    requested = (request.args.get("lang"), request.cookies.get(_NAME), preferred)
    return next((language for language in requested if language and language in known), DEFAULT)


def remember_language(request: Request, response: Response) -> None:
    """Keep a language that was switched to."""
    if request.args.get("lang") in services().catalogues:
        response.set_cookie(
            _NAME,
            language_of(request),
            max_age=_YEAR_SECONDS,
            path=at("/"),
            httponly=True,
            samesite="Lax",
            secure=over_https(request),
        )


_STEPS = ((60, "second", 1), (3600, "minute", 60), (86_400, "hour", 3600))
_DAY = 86_400
_WEEK = 7 * _DAY
_JUST_NOW = 5


@dataclass(frozen=True, slots=True)
class Localizer:
    """Formats for one language; times are relative to `now`."""

    language: str
    now: datetime
    catalogues: Catalogues

    def say(self, phrase: str, n: int | None = None, **values: Any) -> str:
        """Return a message with its places filled; `n` chooses singular or plural and replaces `{n}`."""
        return self.raw(phrase, n).format(n="" if n is None else self.number(n), **values)

    def raw(self, phrase: str, n: int | None = None) -> str:
        """Return a message with its places still open, for a script to fill."""
        catalogue = self.catalogues[self.language]
        text = phrase if n is None else catalogue.ngettext(phrase, phrase, n)
        # Some messages without a plural have a number: the state of a job, with the number of failed items.
        return catalogue.gettext(phrase) if text == phrase else text

    def known(self, phrase: str) -> bool:
        """Return whether there is a message of this name, of two words or more."""
        return self.raw(phrase) != phrase

    def of(self, job_type: str, phrase: str) -> str:
        """Return the name of the job type's own message if there is one, else `phrase`."""
        own = f"{phrase} {job_type}"
        return own if self.known(own) else phrase

    def title(self, job_type: str) -> str:
        """Return a job type's title; the prefix keeps a type that is named like a message from being taken for it."""
        phrase = f"type {job_type}"
        return self.say(phrase) if self.known(phrase) else job_type.replace("_", " ").capitalize()

    def number(self, value: int | Decimal) -> str:
        """Return a number with its thousands apart; a Decimal keeps its places."""
        return f"{value:,}".translate(str.maketrans(",.", self.raw("separators")))

    @property
    def other_languages(self) -> list[tuple[str, str]]:
        """The further languages, each with its own name."""
        return [
            (language, text.gettext("language"))
            for language, text in self.catalogues.items()
            if language != self.language
        ]

    @property
    def months(self) -> list[str]:
        """The months, January first, as dates name them."""
        return self.raw("months").split()

    def date(self, value: Any) -> str:
        """Return a day, such as 4 Jul 1996."""
        return self.say("date", day=value.day, month=self.months[value.month - 1], year=value.year)

    def exact(self, moment: datetime) -> str:
        """Return a moment to the second in UTC; a script puts the reader's own zone in its place."""
        moment = moment.astimezone(UTC)
        return f"{self.date(moment)} {moment:%H:%M:%S} UTC"

    def ago(self, moment: datetime) -> str:
        """Return how long ago a moment was, or how far ahead it is; a date when it is farther than a week."""
        seconds = (self.now - moment).total_seconds()
        distance = abs(seconds)
        if distance < _JUST_NOW:
            return self.say("just now")
        if distance >= _WEEK:
            return self.date(moment)
        unit, size = next(((name, size) for limit, name, size in _STEPS if distance < limit), ("day", _DAY))
        return self.say(f"{unit}s {'ago' if seconds > 0 else 'ahead'}", n=int(distance // size))

    def lasting(self, seconds: float) -> str:
        """Return a duration in its two largest units."""
        whole = int(seconds)
        if whole < 1:
            return self.say("under a second")
        hours, minutes = whole // 3600, whole // 60 % 60
        if hours:
            return f"{self.number(hours)} h {minutes} min"
        return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


# Reasons of Turno are codes, some with a number: "time limit of 30 s".
_CODE = re.compile(r"(?P<code>[^\d;]+?)(?: (?P<number>\d[\d.]*)\b.*|;.*)?", re.DOTALL)


def of_error(error: Mapping[str, Any] | None, localizer: Localizer, *, operator: bool, key: str = "") -> str:
    """Return why a job or the item `key` failed; an error's code is its class, a crash's is its cause.

    A user gets the reference of an error that was not written for users.
    """
    body = error_body(dict(error) if error else None, operator=operator)
    if error is None or body is None:
        return ""
    if not for_users(error):
        if operator:
            named = f" ({body.reference})" if body.reference else ""
            return f"{body.class_}: {body.message}{named}"
        return (
            localizer.say("unexpected", reference=body.reference)
            if body.reference
            else localizer.say("unexpected unnamed")
        )
    if body.class_ == CRASH:
        return of_job(body.message, localizer)
    phrase = f"error {body.class_}"
    return localizer.say(phrase, message=body.message, key=key) if localizer.known(phrase) else body.message


def of_job(reason: str | None, localizer: Localizer) -> str:
    """Return why a job ended or was put off."""
    return of_event(reason, localizer) or reason or ""


def of_event(reason: str | None, localizer: Localizer) -> str:
    """Return the reason of a change if it is a code of Turno; any other text may be for operators only."""
    match = _CODE.fullmatch(reason or "")
    phrase = f"reason {match['code']}" if match else ""
    return localizer.say(phrase, number=match["number"]) if match and localizer.known(phrase) else ""
