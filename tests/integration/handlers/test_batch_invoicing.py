"""The batch handler over the invoicing service."""

from tests.attempt_here import attempt
from tests.installation import ExampleInstallation


def test_orders_are_invoiced_in_ascending_order_as_given_or_not(world: ExampleInstallation) -> None:
    orders = world.order_ids()[:5]
    job = attempt(world, world.enqueue({"order_ids": [*orders[2:], *orders[:2]]}))
    assert job["result"]["invoiced"] == 5
    assert [row["order_id"] for row in world.rows("SELECT order_id FROM invoices ORDER BY id")] == orders
