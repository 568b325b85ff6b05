"""Read the charts of a window: lines with the same moments, axes, and the changes by operators meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from turno.capabilities.statistics.over_time import By, Point, over_time
from turno.capabilities.statistics.plot import WIDTH, Axis, axis_of_rates, axis_of_waits, path
from turno.capability import installed
from turno.named import load
from turno.store.operator.outcome_counts import Operator, counted_until
from turno.web.services import services

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
        for one in installed()
        for place in one.chart_marks
        for mark in load(place)(operator, companies=companies, since=moments[0], limit=marks)
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
        marked=[round(min(1, (one["at"] - moments[0]) / (moments[-1] - moments[0])) * WIDTH, 1) for one in changes],
        minutes=int(step.total_seconds() // 60),
        counted_at=counted_until(operator),
    )


def _lines(points: Sequence[Point], moments: Sequence[datetime], step: timedelta) -> list[Line]:
    ended: dict[str, int] = {}
    found = {(point.line, point.at): point for point in points}
    for point in points:
        ended[point.line] = ended.get(point.line, 0) + point.ended
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


def _highest(lines: Sequence[Line], *keys: str) -> float:
    return max((point[key] or 0 for line in lines for point in line.points for key in keys), default=0)
