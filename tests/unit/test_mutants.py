"""Every mutant finds its guard, and names existing tests; every required proof has a mutant."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.copied_tree import ROOT
from tests.mutants.nemesis import CUTS
from tests.mutants.short_waits import shortened


def test_every_mutant_has_a_unique_name_and_finds_its_guard() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.without_guard((ROOT / mutant.file).read_text())


@pytest.mark.parametrize("guard", CUTS)
def test_every_cut_of_the_nemesis_finds_its_guard(guard: str) -> None:
    for cut in CUTS[guard]:
        assert any(cut.old in path.read_text() for path in ROOT.glob(cut.files)), cut.old


def test_every_mutant_names_tests_that_there_are() -> None:
    named = {test.partition("[")[0].partition("::")[::2] for mutant in MUTANTS for test in mutant.tests}
    texts = {file: (ROOT / file).read_text() for file, _ in named}
    assert [(file, name) for file, name in named if f"def {name}(" not in texts[file]] == []


@pytest.mark.parametrize(
    ("within", "crowded", "waited"), [(0.05, 1, 0.05), (10, 1, 6), (20, 1, 6), (30, 1, 7.5), (20, 3, 18), (30, 9, 30)]
)
def test_mutant_test_waits_less_on_an_idle_machine(within: float, crowded: float, waited: float) -> None:
    assert shortened(within, crowded=crowded) == waited


# The proofs that issue and design require, each with its mutants.
REQUESTED = {
    "token check": {
        "claim_hold does not compare the token",
        "start does not ask for the claim",
        "progress does not compare the token",
        "items do not ask for the claim",
        "a checkpoint does not ask for the claim",
        "completion does not ask for the claim",
        "an end without success does not ask for the claim",
        "a rescue does not compare the token",
    },
    "low-water mark": {
        "the skipped tickets of a claim within a tenant are not remembered",
        "the skipped tickets of a claim between tenants are not remembered",
        "that nothing waits between two tenants is believed for ever",
        "a mark is believed for ever",
        "a mark is forgotten between two visits of its tenant",
    },
    "cap lock": {"two claims at once see the same room under a cap"},
    "sweep": {"nobody is offered again"},
    "repair": {"a lost ticket is not made again", "a running job that lost its ticket stays so"},
    "unique keys": {
        "an item may be entered twice",
        "a key may name two bodies",
    },
    "savepoint": {"a failed item keeps its writes"},
    "transaction start": {
        "the start of the transaction is not compared",
        "a checkpoint is written outside its transaction",
        "a batch is completed outside its transaction",
    },
    "connection refusal": {"a handler may commit", "a handler may roll back", "a handler may close its session"},
    "catalog grants": {"a handler may call an inner function", "a handler may write jobs", "the engine may read jobs"},
    "404 sameness": {"a malformed id is distinguishable from an unknown one", "users see each other's jobs"},
}


@pytest.mark.parametrize("guard", REQUESTED)
def test_each_required_guard_has_its_mutants(guard: str) -> None:
    assert REQUESTED[guard] - {mutant.name for mutant in MUTANTS} == set()
