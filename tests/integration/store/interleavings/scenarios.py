"""Scenarios of two or three sessions, played in every order of their steps.

Each ends as if the sessions had run in sequence. The outcomes must equal the list, so that no list allows more than
happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.integration.store.interleavings.shared_job import SharedJob
from tests.integration.store.interleavings.steps import Steps
from tests.permutations import Stage, interleavings

Scenario = Callable[[SharedJob], Mapping[str, Steps]]


class Scenarios:
    """The scenarios of a test file, by their names, with the ends that each may have: all of them and no other."""

    def __init__(self) -> None:
        self._scenarios: dict[str, tuple[Scenario, set[str]]] = {}

    @property
    def names(self) -> list[str]:
        return list(self._scenarios)

    def may_end(self, *ends: str) -> Callable[[Scenario], Scenario]:
        """Register a scenario under its function's name."""

        def register(scenario: Scenario) -> Scenario:
            self._scenarios[scenario.__name__.replace("_", " ")] = (scenario, set(ends))
            return scenario

        return register

    def check(self, name: str, job: SharedJob) -> None:
        """Play the scenario in every order of its steps."""
        scenario, allowed = self._scenarios[name]
        stage = Stage(job.example.admin)
        job.clear()
        lengths = {session: len(steps) for session, steps in scenario(job).items()}
        reached: dict[str, tuple[str, ...]] = {}
        for order in interleavings(lengths):
            job.clear()
            steps = scenario(job)
            answers = stage.play(order, {session: job.session(session) for session in steps}, steps)
            words = "; ".join(
                f"{session} {', '.join(filter(None, mine))}" for session, mine in answers.items() if any(mine)
            )
            reached.setdefault(f"{words}: {job.end()}", order)
            assert job.judge.broken(lost=job.lost) == [], (order, words)
        assert set(reached) == allowed, reached
