"""The tables of model/README.md name steps of the model, and functions and conditions of the product."""

import pytest

from tests.model.names import GUARDS, STEPS, function_texts, table


def test_each_guard_of_the_model_is_in_the_table() -> None:
    assert {guard for guard, *_ in table("Guards")} == GUARDS


@pytest.mark.parametrize("row", table("Guards"), ids=lambda row: row[0])
def test_product_has_the_condition_of_a_guard(row: list[str]) -> None:
    _, function, condition, _ = row
    assert condition in function_texts()[function]


@pytest.mark.parametrize("row", table("Steps"), ids=lambda row: row[0])
def test_product_has_the_function_of_a_step(row: list[str]) -> None:
    step, function = row
    assert step in STEPS
    assert function in function_texts()
