"""A handler's logic alone: in one transaction, without a job, a worker or a ledger."""

from psycopg import sql

from tests.installation import ExampleInstallation
from tests.raise_prices import RaisePrices


def test_unknown_product_does_not_stop_the_job(example: ExampleInstallation) -> None:
    result = example.run(RaisePrices, {"product_ids": [1, 999, 2], "percent": "10"})
    assert result == {"raised": 2, "failed": 1}


def test_handler_default_does_not_end_a_request_session(example: ExampleInstallation) -> None:
    if example.admin.info.server_version < 170000:
        return  # there is no transaction_timeout
    role = sql.Identifier(example.one.handler_role)
    example.admin.execute(sql.SQL("ALTER ROLE {} SET transaction_timeout = '1ms'").format(role))
    try:
        result = example.run(RaisePrices, {"product_ids": [1], "percent": "10"})
    finally:
        example.admin.execute(sql.SQL("ALTER ROLE {} RESET transaction_timeout").format(role))
    assert result == {"raised": 1, "failed": 0}
