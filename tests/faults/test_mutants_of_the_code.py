"""Without its guard in the code, each promise's test fails; see tests/mutants."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Fate, hunt
from tests.mutants.mutant import Mutant

CHOSEN = [mutant for mutant in MUTANTS if not mutant.file.endswith(".sql")]


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_without_its_guard_the_test_fails(mutant: Mutant) -> None:
    verdict = hunt(mutant)
    assert verdict.fate is Fate.KILLED, f"{verdict.line}\nit guards {mutant.guards}\n{verdict.output}"
