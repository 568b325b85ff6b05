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


def test_no_retry_is_offered_for_orders_with_an_invoice(example: ExampleInstallation) -> None:
    invoiced, other = example.order_ids()[:2]
    attempt(example, example.enqueue({"order_ids": [invoiced]}))
    again = example.enqueue({"order_ids": [invoiced]})
    assert attempt(example, again)["status"] == "completed"
    (item,) = example.rows("SELECT state, error FROM background_job_items WHERE job_id = %s", again)
    assert (item["state"], item["error"]["class"], item["error"]["lasting"]) == ("failed", "AlreadyInvoiced", True)
    assert example.retry(again)["verdict"] == "not_retryable"
    example.rows("CREATE TABLE kept AS SELECT * FROM order_lines WHERE order_id = %s", other)
    example.rows("DELETE FROM order_lines WHERE order_id = %s", other)  # EmptyOrder: a retry can succeed
    mixed = example.enqueue({"order_ids": [invoiced, other]})
    assert attempt(example, mixed)["result"]["failed"] == 2
    example.rows("INSERT INTO order_lines SELECT * FROM kept; DROP TABLE kept")
    result = attempt(example, example.retry(mixed)["job_id"])["result"]
    assert (result["invoiced"], result["failed"], result["skipped"]) == (1, 0, 1)


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
