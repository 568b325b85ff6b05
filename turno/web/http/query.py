"""Read query strings into the dataclasses that document them."""

import re
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import pydantic
from pydantic import AfterValidator, BeforeValidator, StringConstraints, ValidationError
from werkzeug.datastructures import MultiDict

from turno.web.http.payloads import model_adapter, shape_problems
from turno.web.http.problems import FieldProblem, invalid

LONGEST_TEXT = 255
LARGEST_PAGE = 200
LARGEST_ID = 2**63 - 1
FIRST_YEAR, LAST_YEAR = 2000, 9998
# The default of a parameter that may be left out; of a type that no parameter's text is converted to.
NOT_GIVEN: Any = None


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character U+0000")
    return text


def searchable(text: str) -> str:
    """Return what a field of a filter says, as the database can look for it; a form sends empty ones, too."""
    return text.strip().replace("\0", "")[:LONGEST_TEXT]


def _digits(text: str) -> str:
    """Accept digits only: pydantic alone also takes `+1`, `1_0` and `1.0` for whole numbers."""
    if not re.fullmatch("[0-9]{1,19}", text):
        raise ValueError("must be a whole number")
    return text


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def moment_of(text: str) -> datetime:
    """Return a moment with its offset from UTC, or raise ValueError: pydantic alone also takes numbers for one."""
    moment = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
    if moment is None or moment.tzinfo is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError("must be a time with its offset, such as 2026-11-22T20:00:00Z")
    return moment


def described(about: str, **constraints: Any) -> Any:
    """Return what a parameter's annotation says of it, for the reader and for pydantic."""
    return pydantic.Field(description=about, **constraints)


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_storable)]
Moment = Annotated[datetime, BeforeValidator(moment_of)]
Digits = BeforeValidator(_digits)
Flag = Annotated[bool, BeforeValidator(_flag)]

AFTER = "The `next_cursor` of the page before."
PageSize = Annotated[int, described("How many entries a page has.", ge=1, le=LARGEST_PAGE), Digits]
JobCursor = Annotated[UUID, described(AFTER)]
KeyCursor = Annotated[Text, described(AFTER)]
NumberCursor = Annotated[int, described(AFTER, ge=0, le=LARGEST_ID), Digits]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuery:
    """An address that takes no parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPageQuery:
    """A page of entries whose ids are UUIDs, after the last one of the page before."""

    cursor: JobCursor = NOT_GIVEN
    limit: PageSize = 50


def read_query(given: MultiDict[str, str], kind: type[Any], *, others_ignored: bool = False) -> Any:
    """Return the query string as an instance of `kind`; raises Problem 400 listing all that is wrong.

    A parameter that is none of its fields is wrong, unless others are ignored: what brings people to a page adds its
    own. A field whose default is a tuple may be given several times.
    """
    known = {field.name: field for field in fields(kind)}
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {}
    for name, texts in given.lists():
        if name not in known:
            if not others_ignored:
                problems.append(FieldProblem(name[:LONGEST_TEXT], "is not a parameter of this address"))
        elif isinstance(known[name].default, tuple):
            values[name] = texts
        elif len(texts) > 1:
            problems.append(FieldProblem(name, "may be given once"))
        else:
            values[name] = texts[0]
    try:
        query = model_adapter(kind).validate_python(values)
    except ValidationError as error:
        found = shape_problems(error)
        problems += [FieldProblem(one.field.partition(".")[0], one.problem) for one in found]
    if problems:
        raise invalid(problems)
    return query
