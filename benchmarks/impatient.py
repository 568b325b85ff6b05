"""The real batch_invoicing, run again at once after a crash, so that it can be killed thousands of times."""

from handlers.batch_invoicing import BatchInvoicing
from turno.jobs.handler import Registry
from turno.jobs.outcome import RetryPolicy


class Impatient(BatchInvoicing):
    """Waits for nothing between two attempts."""

    retry = RetryPolicy(first=0, longest=0)


REGISTRY = Registry({Impatient.type: "benchmarks.impatient:Impatient"})
