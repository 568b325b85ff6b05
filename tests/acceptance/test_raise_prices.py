"""The handler that the README shows, run by real workers against a real database."""

from decimal import Decimal

import pytest

from tests.installation import ExampleInstallation
from tests.raise_prices import RaisePrices, RaisePricesPayload
from turno.errors import InvalidPayload


def prices(world: ExampleInstallation) -> dict[int, Decimal]:
    return {row["id"]: row["unit_price"] for row in world.rows("SELECT id, unit_price FROM products")}


def test_prices_are_raised_once_despite_a_killed_worker(world: ExampleInstallation) -> None:
    world.odd = True  # its worker also knows the handlers of the tests
    before = prices(world)
    job_id = world.enqueue({"product_ids": [*before, 999], "percent": "10"}, handler=RaisePrices)

    world.work(job_id, crash_at="chunk_committed")  # SIGKILL once the first fifty are committed
    assert len(world.rows("SELECT 1 FROM background_job_items")) == 50
    world.time_passes()
    log = world.work(job_id)

    job = world.job(job_id)
    assert (job["status"], job["attempt"], job["crashes"]) == ("completed", 2, 1), log
    assert job["result"] == {"raised": len(before), "failed": 1}
    assert prices(world) == {product: round(price * Decimal("1.1"), 4) for product, price in before.items()}
    (failed,) = world.rows("SELECT key, error FROM background_job_items WHERE state = 'failed'")
    assert (failed["key"], failed["error"]["message"]) == ("999", "There is no product 999: check its number.")


@pytest.mark.parametrize("percent", ["0", "-5", "51"])
def test_invalid_raise_is_refused_before_a_job_exists(percent: str) -> None:
    with pytest.raises(InvalidPayload, match="percent"):
        RaisePrices.validate(RaisePricesPayload(product_ids=(1,), percent=Decimal(percent)))
