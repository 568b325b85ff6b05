"""GET /admin/charts: throughput, waits and failures over the last hours, by type or tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from flask import Response

from turno.capabilities.statistics import over_time
from turno.capabilities.statistics.over_time import Point
from turno.capability import installed
from turno.named import load
from turno.store.operator.outcome_counts import counted_until
from turno.web.http.requests import LONGEST_TEXT
from turno.web.pages.drawing import draw
from turno.web.pages.operator_pages import OperatorPages, OperatorVisit
from turno.web.services import as_operator, services

charts = OperatorPages("operator_charts", __name__, template_folder="templates")

Window = Literal["1h", "6h", "24h"]
WINDOWS: dict[Window, timedelta] = {
    "1h": timedelta(hours=1), "6h": timedelta(hours=6), "24h": timedelta(hours=24)
}  # fmt: skip
# The step of the points of each.
STEPS: dict[Window, timedelta] = {
    "1h": timedelta(minutes=1), "6h": timedelta(minutes=5), "24h": timedelta(minutes=15)
}  # fmt: skip
LINES = 6
MARKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsQuery:
    """Window and selection of jobs, and the meaning of a row of charts; a form also sends empty values."""

    window: Window = "1h"
    by: over_time.By = ""
    type: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of charts. Rows have the same moments; without ended jobs a value is 0, without a wait None."""

    name: str
    points: Sequence[dict[str, Any]]

    @property
    def now(self) -> dict[str, Any]:
        """The last step that is over: the present one is not whole yet."""
        return self.points[-2]


@charts.page("/admin/charts")
def index(visit: OperatorVisit, asked: ChartsQuery) -> Response:
    """Draw the last hours."""
    job_type, tenant = (text.strip().replace("\0", "")[:LONGEST_TEXT] or None for text in (asked.type, asked.tenant))
    window, step = WINDOWS[asked.window], STEPS[asked.window]
    with as_operator() as operator:
        counted_at = counted_until(operator)
        points = over_time.over_time(
            operator,
            window=window - step,
            step=step,
            by=asked.by,
            tenant=tenant,
            job_type=job_type,
            companies=visit.companies,
            lines=LINES,
        )
        since = services().clock() - window
        changes = [
            mark
            for one in installed()
            for place in one.chart_marks
            for mark in load(place)(operator, companies=visit.companies, since=since, limit=MARKS)
        ]
    return draw(
        "turno/admin/charts.html",
        visit=visit,
        asked=asked,
        lines=_lines(points, window, step),
        counted_at=counted_at,
        minutes=int(step.total_seconds() // 60),
        marks=[one for one in changes if one["action"] in ("setting", "tenant set", "type set", "worker")],
    )


def _lines(points: Sequence[Point], window: timedelta, step: timedelta) -> list[Line]:
    """Return the points of each line, the line with the most ended jobs first."""
    ended: dict[str, int] = {}
    found = {(point.line, point.at): point for point in points}
    for point in points:
        ended[point.line] = ended.get(point.line, 0) + point.ended
    moments = _moments(window, step)
    names = sorted(ended, key=lambda name: (-ended[name], name)) or [""]
    return [Line(name=name, points=[_drawn(at, found.get((name, at)), step) for at in moments]) for name in names]


def _moments(window: timedelta, step: timedelta) -> list[datetime]:
    now = services().clock().astimezone(UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    last = epoch + (now - epoch) // step * step
    return [last - step * back for back in range(window // step - 1, -1, -1)]


def _drawn(at: datetime, point: Point | None, step: timedelta) -> dict[str, Any]:
    minutes = step.total_seconds() / 60
    return {
        "at": at,
        "done": round((point.completed if point else 0) / minutes, 1),
        "failed": round((point.failures if point else 0) / minutes, 1),
        "p50": point.wait_p50_ms if point else None,
        "p95": point.wait_p95_ms if point else None,
    }
