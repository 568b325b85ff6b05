"""/healthz and /readyz: for the one who starts, stops and routes to this process."""

from dataclasses import dataclass
from typing import Literal

from flask import Response

from turno.store.health import answers
from turno.web.http.json_answers import answer
from turno.web.http.problems import Kind, Problem
from turno.web.routes import Answer, Operation, Routes
from turno.web.services import services

health = Routes("health", __name__, tag="health")

NOT_READY_SECONDS = "2"


@dataclass(frozen=True, slots=True)
class Health:
    """All is well."""

    status: Literal["ok"]


ALIVE = Operation(
    method="GET",
    rule="/healthz",
    summary="Is the process up?",
    about="Asks nothing of the database: a restart of this process would not mend that.",
    access=None,
    answers={200: Answer(about="It is.", body=Health)},
)

READY = Operation(
    method="GET",
    rule="/readyz",
    summary="Can requests be served?",
    access=None,
    answers={200: Answer(about="They can.", body=Health)},
    problems=(Kind.UNAVAILABLE,),
)


@health.open(ALIVE)
def healthz() -> Response:
    """Say that the process is up."""
    return answer(Health("ok"))


@health.open(READY)
def readyz() -> Response:
    """Say whether requests can be served."""
    with services().connection() as connection:
        reachable = answers(connection)
    readiness = services().readiness
    waiting_for = readiness() if readiness else None
    if not reachable or waiting_for:
        raise Problem(
            Kind.UNAVAILABLE, waiting_for or "The database does not answer.", headers={"Retry-After": NOT_READY_SECONDS}
        )
    return answer(Health("ok"))
