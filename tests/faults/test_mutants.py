"""Without its guard, in the code or in the database, each promise's test fails; see tests/mutants."""

import pytest

from tests.mutants.catalogue import MUTANTS, named_tests
from tests.mutants.hunt import Fate, hunt, what_fails_with_every_guard
from tests.mutants.mutant import Mutant
from tests.mutants.prepared_checkout import PreparedCheckout

TESTS = named_tests(MUTANTS)


@pytest.mark.parametrize("file", TESTS)
def test_with_every_guard_the_tests_pass(file: str, prepared_checkout: PreparedCheckout) -> None:
    assert what_fails_with_every_guard(TESTS[file], prepared_checkout) == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_without_its_guard_the_test_fails(mutant: Mutant, prepared_checkout: PreparedCheckout) -> None:
    verdict = hunt(mutant, prepared_checkout)
    assert verdict.fate is Fate.KILLED, f"{verdict.line}\nit guards {mutant.guards}\n{verdict.output}"
