"""Without its guard, in the code or in the database, each promise's test fails; see tests/mutants."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Fate, hunt
from tests.mutants.mutant import Mutant
from tests.mutants.prepared_checkout import PreparedCheckout


@pytest.mark.timeout(600)  # a hunt that ends in the middle would shift the answers of all that follow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_without_its_guard_the_test_fails(mutant: Mutant, prepared_checkout: PreparedCheckout) -> None:
    verdict = hunt(mutant, prepared_checkout)
    assert verdict.fate is Fate.KILLED, f"{verdict.line}\nit guards {mutant.guards}\n{verdict.output}"
