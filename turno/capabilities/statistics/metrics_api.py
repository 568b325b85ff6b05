"""GET /metrics: the metrics for a monitoring system."""

from dataclasses import dataclass
from datetime import timedelta
from hmac import compare_digest
from typing import Annotated

from flask import Response, request

from turno.capabilities.statistics.families import exposition
from turno.capabilities.statistics.scrape import scrape
from turno.web.admission import require_operator
from turno.web.auth import principal_of
from turno.web.requests import described, read_query
from turno.web.responses import Kind, Problem
from turno.web.routes import Answer, Routes
from turno.web.services import as_operator, services

metrics = Routes("metrics", __name__, tag="health")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """Selection of metrics."""

    tenants: Annotated[bool, described("Add the metrics of each tenant.")] = False


@metrics.operation(
    "GET /metrics",
    everybody=True,
    query=MetricsQuery,
    answers={200: Answer(about="Every metric.", media_type="text/plain")},
    problems=(Kind.INVALID_REQUEST, Kind.NOT_AUTHENTICATED, Kind.OPERATORS_ONLY, Kind.UNAVAILABLE),
)
def scraped() -> Response:
    """Read numbers for a monitoring system.

    In the format of Prometheus, or of OpenMetrics if the request accepts it. The bearer token is TURNO_METRICS_TOKEN or
    the token of an operator of every company.
    """
    _admit()
    query = read_query(request.args, MetricsQuery)
    dead_after = timedelta(seconds=services().settings.dead_after_seconds)
    with as_operator() as operator:
        numbers = scrape(operator, dead_after=dead_after, streams=len(services().live), tenants=query.tenants)
    text, media_type = exposition(numbers, request.headers.get("Accept", ""))
    return Response(text, content_type=media_type)


def _admit() -> None:
    """Raise Problem 401 or 403 unless the caller is the monitoring system or an operator of every company."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = services().settings.metrics_token
    if token and scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.encode()):
        return
    principal = principal_of(request)
    require_operator(principal)
    if not principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share these numbers: it takes an operator of every company.")
