"""Draw values over time as SVG paths, on an axis with round steps."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

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
