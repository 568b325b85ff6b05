"""Axes with round steps, and lines with gaps."""

from __future__ import annotations

import pytest

from turno.capabilities.statistics.charts import Axis, axis_of_rates, axis_of_waits, path

MINUTE = 60_000


@pytest.mark.parametrize(
    ("highest", "labels", "unit"),
    [(0, [2, 1, 0], "ms"), (950, [1000, 500, 0], "ms"), (1001, [2, 1, 0], "s"), (99_000, [100, 50, 0], "s"),
     (1.8 * MINUTE, [2, 1, 0], "min"), (9 * MINUTE, [10, 5, 0], "min"), (11 * MINUTE, [20, 10, 0], "min"),
     (110 * MINUTE, [2, 1, 0], "h")],
)  # fmt: skip
def test_axis_of_waits_has_steps_of_1_2_or_5(highest: float, labels: list[float], unit: str) -> None:
    axis = axis_of_waits(highest)
    assert (axis.labels, axis.unit) == (labels, unit)
    assert axis.top >= highest


@pytest.mark.parametrize(("highest", "labels"), [(0, [0.2, 0.1, 0]), (0.3, [0.4, 0.2, 0]), (99, [100, 50, 0])])
def test_axis_of_rates_has_steps_of_1_2_or_5(highest: float, labels: list[float]) -> None:
    assert axis_of_rates(highest).labels == labels


def test_path_leaves_out_what_has_no_value() -> None:
    axis = Axis(50)
    assert path([None, 0, 100, None, 50], axis) == "M150.0 100.0h0L150.0 100.0 L300.0 0.0M600.0 50.0h0L600.0 50.0"
    assert path([], axis) == path([None], axis) == ""
