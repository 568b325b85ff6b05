"""The handlers of the application, with batches in small parts."""

from handlers import build_registry
from handlers.batch_invoicing import BatchInvoicing
from turno.jobs.handler import Registry

PART = 60


class SmallParts(BatchInvoicing):
    """A batch of which each part has 60 orders."""

    part = PART


def small_parts() -> Registry:
    """Return the application's handlers with a replacement."""
    handlers = [handler for handler in build_registry().handlers if handler.type != SmallParts.type]
    return Registry.of([*handlers, SmallParts])
