"""The report of a benchmark: one JSON line, the same shape for all."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.sampling import Figure, Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIGITS = 4


@dataclass(slots=True)
class Report:
    """Figures in one unit, ratios, goals, and other facts.

    `broken` names defects that no slow machine excuses: with it the benchmark has failed.
    """

    benchmark: str
    unit: str
    figures: dict[str, Figure] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    wanted: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def add(self, samples: Mapping[str, Sequence[float]]) -> None:
        """Take the samples' figures in."""
        self.figures |= {name: Figure.of(values) for name, values in samples.items()}

    def compare(
        self, samples: Mapping[str, Sequence[float]], name: str, floor: str, *, at_most: float | None = None
    ) -> None:
        """Add the ratio of two contestants and its goal."""
        key = f"{name} / {floor}"
        self.ratios[key] = Ratio.of(samples[name], samples[floor])
        if at_most is not None:
            self.wanted[key] = at_most

    def goals(self) -> list[tuple[str, float, float]]:
        """Return each goal: its name, the measured value, and the most that it may be."""
        return [(name, self._value(name), at_most) for name, at_most in self.wanted.items()]

    def _value(self, name: str) -> float:
        if name in self.ratios:
            return self.ratios[name].median
        if name in self.figures:
            return self.figures[name].median
        slow = self.figures.get(name.removesuffix(" p99"))
        return slow.p99 if slow and name.endswith(" p99") else float(self.facts[name])

    def lines(self) -> list[str]:
        """Return the report for people."""
        figures = (
            f"{name:<34} median {figure.median:9.3f} {self.unit}  p99 {figure.p99:9.3f}"
            f"  p10 {figure.p10:.3f}, {figure.low:.3f} to {figure.high:.3f}  n={figure.n}"
            for name, figure in self.figures.items()
        )
        ratios = (
            f"{name:<34} {ratio.median:.2f} x  ({ratio.low:.2f} to {ratio.high:.2f}, quiet {ratio.quiet:.2f})"
            f"{self._wish(name)}"
            for name, ratio in self.ratios.items()
        )
        facts = (f"{name:<34} {fact}" for name, fact in self.facts.items())
        return [*figures, *ratios, *facts, *(f"BROKEN: {problem}" for problem in self.broken)]

    def _wish(self, name: str) -> str:
        return f"  wanted: at most {self.wanted[name]:g}" if name in self.wanted else ""

    def json(self, *, quick: bool) -> str:
        """Return the report for programs, on one line; each fact under its own name."""
        machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()}
        result = asdict(self)
        return json.dumps(_rounded({**result.pop("facts"), **result, "quick": quick, "machine": machine}))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return value
