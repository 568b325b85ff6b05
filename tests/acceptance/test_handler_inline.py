"""A handler's logic alone: in one transaction, without a job, a worker or a ledger."""

from app.work.inline import InlineRunner
from cli.wiring import sessions
from tests.raise_prices import RaisePrices
from tests.world import World


def test_an_unknown_product_does_not_stop_the_others(world: World) -> None:
    runner = InlineRunner(sessions(world.settings))
    result = runner.run(world.one, RaisePrices, {"product_ids": [1, 999, 2], "percent": "10"}, "ana")
    assert result == {"raised": 2, "failed": 1}
