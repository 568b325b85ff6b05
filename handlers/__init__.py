"""The work: one file per job type over the services it wraps."""

from turno import Registry


def build_registry() -> Registry:
    """Return every job type this installation knows; one line per handler."""
    return Registry(
        {
            "batch_invoicing": "handlers.batch_invoicing:BatchInvoicing",
            "taxpayer_sync": "handlers.taxpayer_sync:TaxpayerSync",
        }
    )
