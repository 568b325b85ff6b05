"""GET /admin/charts and the charts of GET /admin: throughput, waits and failures of the last hours."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Literal, NamedTuple

from flask import Response, render_template
from markupsafe import Markup

from turno.capabilities.statistics.counts import By, Point, over_time
from turno.capability import installed, load
from turno.store.operator.counts import Operator, counted_until
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import searchable
from turno.web.services import as_operator, at, services

WIDTH, HEIGHT = 600, 100
_BELOW_60 = (1, 2, 5, 10, 20, 50)
_BELOW_1000 = (*_BELOW_60, 100, 200, 500)
_UNITS_OF_TIME = (
    (1, "ms", _BELOW_1000),
    (1000, "s", _BELOW_60),
    (60_000, "min", _BELOW_60),
    (3_600_000, "h", _BELOW_1000),
)


class Axis(NamedTuple):
    """Two steps from zero; the labels are numbers of a unit, which has `size` and an empty name for jobs."""

    step: float
    size: float = 1
    unit: str = ""

    @property
    def top(self) -> float:
        """The value at the upper edge."""
        return 2 * self.step

    @property
    def labels(self) -> list[float]:
        """The numbers beside the chart, the highest first."""
        return [round(value / self.size, 1) for value in (self.top, self.step, 0)]


def axis_of_waits(highest: float) -> Axis:
    """Return the axis of milliseconds up to `highest`, in steps of 1, 2 or 5 of a unit of time."""
    axes = [Axis(size * step, size, unit) for size, unit, steps in _UNITS_OF_TIME for step in steps]
    return next((axis for axis in axes if axis.top >= highest), axes[-1])


def axis_of_rates(highest: float) -> Axis:
    """Return the axis of numbers up to `highest`, in steps of 1, 2 or 5."""
    steps = (10**power * step for power in range(-1, 9) for step in (1, 2, 5))
    return Axis(next(step for step in steps if 2 * step >= highest))


def path(values: Sequence[float | None], axis: Axis) -> str:
    """Return the line through the values, the first at the left edge and the last at the right; None is a gap."""
    width = WIDTH / max(1, len(values) - 1)
    points = [None if v is None else f"{i * width:.1f} {HEIGHT * (1 - v / axis.top):.1f}" for i, v in enumerate(values)]
    runs = ([p for p in run if p] for drawn, run in groupby(points, key=bool) if drawn)
    return "".join(f"M{run[0]}h0L{' L'.join(run)}" for run in runs)


LINES = 6
MARKS = 10
MARKED = ("setting", "tenant set", "type set", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of charts. Rows have the same moments; without ended jobs a value is 0, without a wait None."""

    name: str
    points: Sequence[dict[str, Any]]

    @property
    def now(self) -> dict[str, Any]:
        """The last step that is over: the present one is not whole yet."""
        return self.points[-2]

    def path(self, key: str, axis: Axis) -> str:
        """Return the line of a value."""
        return path([point[key] for point in self.points], axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """Lines, the line with the most ended jobs first, and the axis of each kind, which all lines share.

    `marks` are the changes by operators, and `marked` their places on the axis of time.
    """

    lines: Sequence[Line]
    axes: dict[str, Axis]
    marks: Sequence[dict[str, Any]]
    marked: Sequence[float]
    minutes: int
    counted_at: datetime | None


def read_charts(
    operator: Operator,
    window: timedelta,
    step: timedelta,
    *,
    companies: Sequence[str] | None,
    by: By = "",
    tenant: str | None = None,
    job_type: str | None = None,
    marks: int = MARKS,
) -> Charts:
    """Return the charts of a window that ends now, by type or tenant or of all jobs of these companies."""
    points = over_time(
        operator,
        window=window - step,
        step=step,
        by=by,
        tenant=tenant,
        job_type=job_type,
        companies=companies,
        lines=LINES,
    )
    moments = _moments(window, step)
    lines = _lines(points, moments, step)
    changes = [
        mark
        for capability in installed()
        for reference in capability.chart_marks
        for mark in load(reference)(operator, companies=companies, since=moments[0], limit=marks)
        if mark["action"] in MARKED
    ]
    return Charts(
        lines=lines,
        axes={
            "done": axis_of_rates(_highest(lines, "done")),
            "wait": axis_of_waits(_highest(lines, "p50", "p95")),
            "failed": axis_of_rates(_highest(lines, "failed")),
        },
        marks=changes,
        marked=[
            round(min(1, (change["at"] - moments[0]) / (moments[-1] - moments[0])) * WIDTH, 1) for change in changes
        ],
        minutes=int(step.total_seconds() // 60),
        counted_at=counted_until(operator),
    )


def _lines(points: Sequence[Point], moments: Sequence[datetime], step: timedelta) -> list[Line]:
    ended: dict[str, int] = {}
    known = {(point.line, point.at): point for point in points}
    for point in points:
        ended[point.line] = ended.get(point.line, 0) + point.ended
    names = sorted(ended, key=lambda name: (-ended[name], name)) or [""]
    return [Line(name=name, points=[_drawn(at, known.get((name, at)), step) for at in moments]) for name in names]


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


def _highest(lines: Sequence[Line], *keys: str) -> float:
    return max((point[key] or 0 for line in lines for point in line.points for key in keys), default=0)


charts = OperatorPages("operator_charts", __name__, template_folder="templates")

Window = Literal["1h", "6h", "24h"]
# The length of a window, and the step of its points.
WINDOWS: dict[Window, tuple[timedelta, timedelta]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "6h": (timedelta(hours=6), timedelta(minutes=5)),
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsQuery:
    """Window and selection of jobs, and the meaning of a row of charts; a form also sends empty values."""

    window: Window = "1h"
    by: By = ""
    type: str = ""
    tenant: str = ""


@charts.page("/admin/charts")
def index(visit: OperatorVisit, query: ChartsQuery) -> Response:
    """Draw the last hours."""
    with as_operator() as operator:
        data = read_charts(
            operator,
            *WINDOWS[query.window],
            companies=visit.companies,
            by=query.by,
            job_type=searchable(query.type) or None,
            tenant=searchable(query.tenant) or None,
        )
    section = _section(visit, data, by=query.by)
    return draw("turno/admin/charts.html", visit=visit, query=query, values=visit.filter_values(), section=section)


def overview_section(operator: Operator, visit: OperatorVisit) -> Markup:
    """Draw the last hour of all jobs."""
    return _section(visit, read_charts(operator, *WINDOWS["1h"], companies=visit.companies, marks=3))


def _section(visit: OperatorVisit, charts: Charts, *, by: By = "") -> Markup:
    spoken = visit.localizer
    page = "turno/admin/charts_section.html"
    return Markup(render_template(page, charts=charts, by=by, localizer=spoken, say=spoken.say, at=at))  # noqa: S704
