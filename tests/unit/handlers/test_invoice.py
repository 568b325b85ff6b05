import pickle
from decimal import Decimal

import pytest

from handlers.invoicing import (
    AlreadyInvoiced,
    EmptyOrder,
    Invoice,
    InvoicingError,
    UnknownOrder,
    UnknownPointOfSale,
)

INVOICE = Invoice(
    kind="invoice",
    id=7,
    order_id=10248,
    letter="B",
    point_of_sale=1,
    number=42,
    net_total=Decimal("100.00"),
    iva_total=Decimal("21.00"),
    total=Decimal("121.00"),
    lines=3,
)


def test_the_label_is_the_printed_number() -> None:
    assert INVOICE.label == "B 00001-00000042"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            UnknownPointOfSale(9),
            "There is no point of sale 9: choose one of this branch's, or register it first.",
        ),
        (
            UnknownOrder(404),
            "There is no order 404 in this branch: check its number, or load the order first.",
        ),
        (
            EmptyOrder(404),
            "Order 404 has no lines to invoice: add the sold products, then invoice it again.",
        ),
        (
            AlreadyInvoiced(10248, INVOICE),
            "Order 10248 already has invoice B 00001-00000042, total 121.00: nothing was issued.",
        ),
    ],
)
def test_error_has_remedy_and_survives_a_process_border(error: InvoicingError, message: str) -> None:
    assert str(error) == message
    assert str(pickle.loads(pickle.dumps(error))) == message  # noqa: S301  # our own bytes
