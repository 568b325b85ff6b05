"""Handlers of installations that are put back or moved: one of them receives events from before its registration."""

from __future__ import annotations

from handlers.batch_invoicing import BatchInvoicing
from tests.event_handlers import Ledger
from tests.misbehaving_handlers import Faulty
from turno.jobs.handler import Registry

REGISTRY = Registry.of([BatchInvoicing, Ledger, Faulty])
