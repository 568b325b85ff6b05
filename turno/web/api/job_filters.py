"""The parameter `filter` of lists of jobs and of commands about jobs: conditions that capabilities declare."""

from collections.abc import Iterable
from typing import Annotated

from turno.capability import job_filters
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.query import Text, described
from turno.web.services import services

Filters = Annotated[
    tuple[Text, ...],
    described("Only jobs with this value of a capability's filter, as NAME:VALUE such as tag:march; may be repeated."),
]


def filter_names() -> list[str]:
    """Return the names of the filters of the enabled capabilities."""
    return list(job_filters(services().settings.capabilities))


def filters_of(given: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of each filter; raises Problem 400 for a filter of no enabled capability."""
    known, found = filter_names(), dict[str, list[str]]()
    for text in given:
        name, _, value = text.partition(":")
        if name not in known or not value:
            names = ", ".join(known) or "none"
            raise invalid([FieldProblem("filter", f"must be NAME:VALUE with a name of: {names}; not {text[:60]!r}")])
        found.setdefault(name, []).append(value)
    return found
