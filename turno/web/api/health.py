"""/healthz and /readyz: for the supervisor and the load balancer of this process."""

from dataclasses import dataclass
from typing import Literal

from turno.store.outage import answers
from turno.web.responses import Kind, Problem
from turno.web.routes import Routes
from turno.web.services import services

health = Routes("health", __name__, tag="health")

NOT_READY_SECONDS = "2"


@dataclass(frozen=True, slots=True)
class Health:
    """A process that serves requests; `degraded` means that alerts are raised, of the kinds in `alerts`."""

    status: Literal["healthy", "degraded"]
    alerts: list[str]


@health.operation("GET /healthz", everybody=True)
def healthz() -> Health:
    """Ask whether the process is up.

    Sends no query: a restart of this process would not repair the database.
    """
    return Health("healthy", [])


@health.operation("GET /readyz", everybody=True, problems=(Kind.UNAVAILABLE,))
def readyz() -> Health:
    """Ask whether requests can be served, and which alerts are raised.

    A raised alert, such as `lacks worker`, does not change the status 200: another web process would not serve better.
    """
    with services().connection() as connection:
        reachable = answers(connection)
    readiness = services().readiness
    waiting_for = readiness() if readiness else None
    if not reachable or waiting_for:
        raise Problem(
            Kind.UNAVAILABLE, waiting_for or "The database does not answer.", headers={"Retry-After": NOT_READY_SECONDS}
        )
    with services().connection() as connection:
        alerts = [kind for check in services().health_checks for (kind,) in connection.execute(check)]
    return Health("degraded" if alerts else "healthy", alerts)
