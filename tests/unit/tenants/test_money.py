from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.northwind.money import iva, line_net

# Whole numbers of ten-thousandths, the finest step the tables keep, up to the widest numeric(18, 4).
ten_thousandths = st.integers(0, 10**18 - 1)
quantities = st.integers(1, 2**31 - 1)
discounts = st.integers(0, 10_000)
lines = st.tuples(ten_thousandths, quantities, discounts)


def decimal(units: int, scale: int) -> Decimal:
    return Decimal(f"{units}e-{scale}")


def half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def net_of(line: tuple[int, int, int]) -> Decimal:
    price, quantity, discount = line
    return line_net(decimal(price, 4), quantity, decimal(discount, 4))


@given(lines)
def test_a_line_is_rounded_half_up_from_the_exact_product(line: tuple[int, int, int]) -> None:
    price, quantity, discount = line
    cents = half_up(price * quantity * (10_000 - discount) * 100, 10**8)
    assert net_of(line) == decimal(cents, 2)


@given(st.integers(0, 10**18 - 1), st.sampled_from([0, 1050, 2100, 2700]))
def test_iva_is_rounded_half_up_from_the_exact_product(net_cents: int, rate: int) -> None:
    cents = half_up(net_cents * rate, 10_000)
    assert iva(decimal(net_cents, 2), decimal(rate, 2)) == decimal(cents, 2)


@given(lines)
def test_amounts_have_exactly_two_decimals(line: tuple[int, int, int]) -> None:
    net = net_of(line)
    assert net.as_tuple().exponent == -2
    assert iva(net, Decimal("10.50")).as_tuple().exponent == -2


@given(st.lists(lines, max_size=20).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_a_total_does_not_depend_on_the_order_of_its_lines(orders: tuple[list[Any], list[Any]]) -> None:
    as_entered, shuffled = orders
    with localcontext(prec=60):
        assert sum(map(net_of, as_entered)) == sum(map(net_of, shuffled))


@pytest.mark.parametrize(
    ("price", "quantity", "discount", "net"),
    [
        ("0.005", 1, "0", "0.01"),  # half a cent goes up, to the even side or not
        ("0.015", 1, "0", "0.02"),
        ("0.025", 1, "0", "0.03"),
        ("0.0049", 1, "0", "0.00"),
        ("14.0000", 12, "0.15", "142.80"),
        ("9.99", 3, "1", "0.00"),
        # 28 digits, the default, would make half a cent of a little less first
        ("91980931122308.8157", 2034675330, "0.0009", "186982895186744468082355.00"),
    ],
)
def test_known_lines(price: str, quantity: int, discount: str, net: str) -> None:
    assert str(line_net(Decimal(price), quantity, Decimal(discount))) == net


@pytest.mark.parametrize("line", [(0.1, 1, Decimal(0)), (Decimal("0.1"), 1.5, Decimal(0)), (Decimal("0.1"), 1, 0.5)])
def test_floats_are_refused_in_a_line(line: tuple[Any, Any, Any]) -> None:
    with pytest.raises(TypeError):
        line_net(*line)


@pytest.mark.parametrize("amounts", [(0.1, Decimal(21)), (Decimal("0.1"), 21.0)])
def test_floats_are_refused_in_iva(amounts: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError):
        iva(*amounts)


def test_the_callers_decimal_context_changes_nothing() -> None:
    with localcontext(prec=3, rounding=ROUND_DOWN):
        assert line_net(Decimal("12345.675"), 1, Decimal(0)) == Decimal("12345.68")
