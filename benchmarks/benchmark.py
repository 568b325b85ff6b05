"""The parts that all benchmarks have: options, a subject, a function that measures it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from benchmarks.sampling import interleaved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.report import Report
    from benchmarks.sampling import Contestant

T = TypeVar("T")
NAMES = (
    "adopt",
    "dispatch",
    "enqueue",
    "http",
    "spawn",
    "invoicing",
    "resume",
    "provision",
    "claim",
    "keys",
    "fairness",
    "throughput",
    "growth",
    "pickup",
    "recovery",
    "memory",
    "tenants",
    "concurrent",
    "killed",
    "stream",
    "broker",
    "flip",
    "siege",
    "admin",
    "observed",
    "schedules",
    "import",
    "parts",
    "scaling",
    "rows",
    "size",
    "report",
    "events",
    "all",
)
# A scene with the name of another scene or of no module.
MODULES = {"import": "import_rows", "report": "report_rows", "all": "all_rows"}


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run, and whether it measures peers too; `smoke` only proves that the benchmark runs."""

    quick: bool = False
    smoke: bool = False
    peers: bool = False

    @property
    def seconds(self) -> float:
        """The time limit of sampling, in seconds, which also ends it on a busy machine."""
        return self.of(120.0, quick=20.0, smoke=0.0)

    def of(self, full: T, *, quick: T, smoke: T) -> T:
        """Return the size of this run."""
        return smoke if self.smoke else quick if self.quick else full

    def sample(
        self, contestants: Mapping[str, Contestant], *, rounds: int, quick: int, warm_up: int = 1
    ) -> dict[str, list[float]]:
        """Sample the contestants for so many rounds, or `quick` of them; in a smoke run one round without a warm-up."""
        return interleaved(
            contestants,
            rounds=self.of(rounds, quick=quick, smoke=1),
            warm_up=self.of(warm_up, quick=warm_up, smoke=0),
            seconds=self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The measured subject in one sentence, and the function that measures it."""

    about: str
    run: Callable[[Options], Report]


def benchmark_named(name: str) -> Benchmark:
    """Return the benchmark of this name."""
    module = import_module(f"benchmarks.{MODULES.get(name, name)}")
    about = (module.__doc__ or "").splitlines()[0]
    return Benchmark(about, module.run)
