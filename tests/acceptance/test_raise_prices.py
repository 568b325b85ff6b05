"""The handler that the README shows, run by real workers against a real database."""

from decimal import Decimal

import pytest

from tests.installation import ExampleInstallation
from tests.raise_prices import RaisePrices, RaisePricesPayload
from turno.errors import InvalidPayload


def prices(example: ExampleInstallation) -> dict[int, Decimal]:
    return {row["id"]: row["unit_price"] for row in example.rows("SELECT id, unit_price FROM products")}


def test_prices_are_raised_once_despite_a_killed_worker(example: ExampleInstallation) -> None:
    example.faulty = True  # its worker also knows the handlers of the tests
    before = prices(example)
    job_id = example.enqueue({"product_ids": [*before, 999], "percent": "10"}, handler=RaisePrices)

    example.work(job_id, crash_at="chunk_committed")  # SIGKILL once the first fifty are committed
    assert len(example.rows("SELECT 1 FROM background_job_items")) == 50
    example.time_passes()
    log = example.work(job_id)

    job = example.job(job_id)
    assert (job["status"], job["attempt"], job["crashes"]) == ("completed", 2, 1), log
    assert job["result"] == {"raised": len(before), "failed": 1}
    assert prices(example) == {product: round(price * Decimal("1.1"), 4) for product, price in before.items()}
    (failed,) = example.rows("SELECT key, error FROM background_job_items WHERE state = 'failed'")
    assert (failed["key"], failed["error"]["message"]) == ("999", "There is no product 999: check its number.")


@pytest.mark.parametrize("percent", ["0", "-5", "51"])
def test_invalid_raise_is_refused_before_a_job_exists(percent: str) -> None:
    with pytest.raises(InvalidPayload, match="percent"):
        RaisePrices.validate(RaisePricesPayload(product_ids=(1,), percent=Decimal(percent)))
