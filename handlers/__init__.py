"""The work: one file per job type over the services it wraps."""

from pathlib import Path

from handlers.batch_invoicing import BatchInvoicing
from imports.data_import import DataImport
from reports.consolidated_report import ConsolidatedReport
from tax_authority.authorising.settings import AuthoritySettings
from tax_authority.taxpayer_sync import TaxpayerSync
from turno import Registry

LOCALE = Path(__file__).parent.parent / "app" / "locale"


def build_registry() -> Registry:
    """Return every job type this installation knows, each with the services that its handler is given."""
    return Registry.of(
        [BatchInvoicing, ConsolidatedReport, DataImport, TaxpayerSync.using(AuthoritySettings.of_environment())],
        locale=LOCALE,
    )
