"""Without its guard, each promise's test fails; see tests/mutants."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Fate, hunt
from tests.mutants.mutant import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_without_its_guard_the_test_fails(mutant: Mutant) -> None:
    verdict = hunt(mutant)
    assert verdict.fate is Fate.KILLED, f"{verdict.line}\nit guards {mutant.guards}\n{verdict.output}"


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
