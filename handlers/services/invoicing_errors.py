"""Why an order could not be invoiced; each docstring is the message a clerk reads."""

from handlers.services.invoice import Invoice


class InvoicingError(Exception):
    """The order could not be invoiced."""

    def __str__(self) -> str:
        template = self.__doc__ or type(self).__name__  # python -OO strips docstrings
        return template.format_map(vars(self))


class UnknownPointOfSale(InvoicingError):
    """There is no point of sale {point_of_sale}: choose one of this branch's, or register it first."""

    def __init__(self, point_of_sale: int) -> None:
        super().__init__(point_of_sale)
        self.point_of_sale = point_of_sale


class UnknownOrder(InvoicingError):
    """There is no order {order_id} in this branch: check its number, or load the order first."""

    def __init__(self, order_id: int) -> None:
        super().__init__(order_id)
        self.order_id = order_id


class EmptyOrder(InvoicingError):
    """Order {order_id} has no lines to invoice: add what was sold, then invoice it again."""

    def __init__(self, order_id: int) -> None:
        super().__init__(order_id)
        self.order_id = order_id


class AlreadyInvoiced(InvoicingError):
    """Order {order_id} already has invoice {invoice.label}, total {invoice.total}: nothing was issued."""

    def __init__(self, order_id: int, invoice: Invoice) -> None:
        super().__init__(order_id, invoice)
        self.order_id = order_id
        self.invoice = invoice


class InvoicedMeanwhile(Exception):
    """Another point of sale has invoiced an order of several: undo these, and take them one by one."""
