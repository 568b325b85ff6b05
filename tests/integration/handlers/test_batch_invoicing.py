"""The batch handler over the invoicing service."""

from decimal import Decimal

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.attempt_in_process import attempt
from tests.installation import ExampleInstallation

SUMS = "SELECT currency, sum(net_total)::text AS net, sum(total)::text AS total FROM invoices GROUP BY currency"


def test_orders_are_invoiced_in_ascending_order_as_given_or_not(example: ExampleInstallation) -> None:
    orders = example.order_ids()[:5]
    job = attempt(example, example.enqueue({"order_ids": [*orders[2:], *orders[:2]]}))
    assert job["result"]["invoiced"] == 5
    assert [row["order_id"] for row in example.rows("SELECT order_id FROM invoices ORDER BY id")] == orders


@settings(
    max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(currencies=st.lists(st.sampled_from(["ARS", "USD", "EUR"]), min_size=1, max_size=8))
def test_result_has_a_total_of_each_currency(example: ExampleInstallation, currencies: list[str]) -> None:
    orders = example.order_ids()[: len(currencies)]
    for order, currency in zip(orders, currencies, strict=True):
        example.rows("UPDATE orders SET currency = %s WHERE id = %s", currency, order)
    result = attempt(example, example.enqueue({"order_ids": orders}))["result"]
    sums = example.rows(SUMS)
    assert {name: Decimal(text) for name, text in result["net_totals"].items()} == {
        row["currency"]: Decimal(row["net"]) for row in sums
    }
    assert {name: Decimal(text) for name, text in result["totals"].items()} == {
        row["currency"]: Decimal(row["total"]) for row in sums
    }
    assert set(result["totals"]) == set(currencies)
    example.rows("TRUNCATE invoices, invoice_lines, invoice_counters, background_jobs CASCADE")
