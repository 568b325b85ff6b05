"""The outcome of a siege: how long the victim's requests and jobs took in calm and under attack, and every ending."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.report import Report
from benchmarks.sampling import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.siege.attack import Attack, Ending

GOAL = 1.5
LEAST_ATTACKS = 12
REQUESTS = ("POST", "GET", "list", "stream")
# In the report, before a fact's name, and the samples: a job's time is the database's, `followed` its user's.
MEASURED = (
    ("request", "", REQUESTS),
    ("job", "job_", ("job",)),
    ("followed job", "followed_", ("followed",)),
    ("bare web", "bare_", ("bare",)),
)
BARE = "bare_"  # no attack reaches it: its ratio is the machine's, so nothing is wanted of it


class Window(NamedTuple):
    """A stretch of Unix time."""

    began: float
    ended: float


class Sample(NamedTuple):
    """Something of the victim's: the kind of the sample, its due time (Unix) and its milliseconds."""

    what: str
    moment: float
    took: float


@dataclass(frozen=True, slots=True)
class Done:
    """An attack that was made: when, and how it ended."""

    attack: Attack
    window: Window
    ending: Ending


@dataclass(slots=True)
class SiegeReport(Report):
    """A report that also lists the attacks."""

    endings: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report for people, the attacks first."""
        reply = (
            f"{'ok ' if ending['decent'] else 'BAD'} {ending['of']:<3} {ending['attack']:<54}"
            f" p99 {', '.join(f'{name} {p99:.0f}' for name, p99 in ending['p99_ms'].items())}: {ending['how']}"
            for ending in self.endings
        )
        return [*reply, *Report.lines(self)]

    def measure(self, samples: Sequence[Sample], calm: Sequence[Window], siege: Window) -> None:
        """Take the victim's figures in: of the samples in MEASURED, under siege divided by the calmer calm phase."""
        for name, prefix, kinds in MEASURED:
            calms = [result for window in calm if (result := _within(samples, window, kinds))]
            harried = _within(samples, siege, kinds)
            if not calms or not harried:
                self.broken.append(f"the victim had no {name} in calm or none under siege")
                continue
            # The calmer, in case that an attack lingers in the second.
            quiet = min(calms, key=lambda took: quantile(took, 0.99))
            figures = {f"{name}, calm": quiet, f"{name}, siege": harried}
            self.add(figures)
            calmly, harriedly = (self.figures[key].p99 for key in figures)
            self.facts |= {
                f"{prefix}victim_p99_ms": harriedly,
                f"{prefix}calm_p99_ms": calmly,
                f"{prefix}ratio": harriedly / calmly,
            }
            self.facts[f"{prefix}calms_p99_ms"] = [quantile(took, 0.99) for took in calms]
            if prefix != BARE:
                self.wanted[f"{prefix}ratio"] = GOAL

    def tell(self, done: Iterable[Done], samples: Sequence[Sample]) -> None:
        """Take the attacks in; whichever did not end as a refusal or as the attacker's own failure is broken."""
        for item in done:
            met = {name: _within(samples, item.window, kinds) for name, _, kinds in MEASURED}
            self.endings.append(
                {
                    "attack": item.attack.name,
                    "of": item.attack.of,
                    "door": item.attack.door,
                    "decent": item.ending.decent,
                    "how": item.ending.how,
                    "samples": sum(map(len, met.values())),
                    "p99_ms": {name: quantile(took, 0.99) for name, took in met.items() if took},
                }
            )
            if not item.ending.decent:
                self.broken.append(f"{item.attack.name}: {item.ending.how}")
        self.facts["attacks"] = len(self.endings)
        self.wanted["attacks"] = LEAST_ATTACKS


def _within(samples: Iterable[Sample], window: Window, kinds: Sequence[str]) -> list[float]:
    return [sample.took for sample in samples if sample.what in kinds and window.began <= sample.moment < window.ended]
