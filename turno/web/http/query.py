"""Read query strings into the dataclasses that document them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any, get_type_hints
from uuid import UUID

from msgspec import Meta
from werkzeug.datastructures import MultiDict

from turno.errors import InvalidPayload
from turno.jobs.converter import alternatives, converter
from turno.jobs.moment import moment_of
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.request_body import field_problems

LONGEST_TEXT = 255
LARGEST_PAGE = 200
LARGEST_ID = 2**63 - 1
# The default of a parameter that may be left out; of a type that no parameter's text is converted to.
NOT_GIVEN: Any = None


def searchable(text: str) -> str:
    """Return the text of a filter's field as the database can search it; a form sends empty fields, too."""
    return text.strip().replace("\0", "")[:LONGEST_TEXT]


def described(about: str, **constraints: Any) -> Meta:
    """Return the description and the constraints of a parameter, for `Annotated`."""
    return Meta(description=about, **constraints)


Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\u0000]*$")]
Moment = Annotated[datetime, Meta(tz=True)]

AFTER = "The `next_cursor` of the page before."
PageSize = Annotated[int, described("How many entries a page has.", ge=1, le=LARGEST_PAGE)]
JobCursor = Annotated[UUID, described(AFTER)]
KeyCursor = Annotated[Text, described(AFTER)]
NumberCursor = Annotated[int, described(AFTER, ge=0, le=LARGEST_ID)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuery:
    """An address that takes no parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPageQuery:
    """A page of entries whose ids are UUIDs, after the last one of the page before."""

    cursor: JobCursor = NOT_GIVEN
    limit: PageSize = 50


# The annotation of each field, evaluated once.
_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))


def read_query(given: MultiDict[str, str], kind: type[Any], *, others_ignored: bool = False) -> Any:
    """Return the query string as an instance of `kind`; raises Problem 400 listing all that is wrong.

    Unknown parameters are problems unless `others_ignored`: links to a page may carry parameters of other programs. A
    field with a tuple as its default may be given several times.
    """
    known, hints = {field.name: field for field in fields(kind)}, _hints(kind)
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
            try:
                values[name] = _parsed(hints[name], texts[0])
            except ValueError as error:
                problems.append(FieldProblem(name, str(error)))
    try:
        query = converter(kind).convert(values)
    except InvalidPayload as error:
        problems += [FieldProblem(one.field.partition(".")[0], one.problem) for one in field_problems(error)]
    if problems:
        raise invalid(problems)
    return query


def _parsed(annotation: Any, text: str) -> Any:
    """Return a parameter's text as a number, a truth value or a moment if its annotation has one.

    Text that is no number or truth value stays text, which the converter refuses. Raises ValueError for a wrong moment.
    """
    kinds = alternatives(annotation)
    if int in kinds and re.fullmatch("[0-9]{1,19}", text):
        return int(text)
    if bool in kinds and text in {"true", "false"}:
        return text == "true"
    return moment_of(text, datetime.now(UTC)).isoformat() if datetime in kinds else text
