"""Every guard that is taken away in turn."""

from __future__ import annotations

from tests.capabilities.admin import mutants as admin
from tests.capabilities.adoption import mutants as adoption
from tests.capabilities.alerts import mutants as alerts
from tests.capabilities.audit import mutants as audit
from tests.capabilities.effects import mutants as effects
from tests.capabilities.events import mutants as events
from tests.capabilities.files import mutants as files
from tests.capabilities.pages import mutants as tenant_pages
from tests.capabilities.parts import mutants as parts
from tests.capabilities.rabbitmq import mutants as rabbitmq
from tests.capabilities.schedules import mutants as schedules
from tests.capabilities.statistics import mutants as statistics
from tests.capabilities.streams import mutants as streams
from tests.capabilities.tags import mutants as tags
from tests.capabilities.tracing import mutants as tracing
from tests.capabilities.webhooks import mutants as webhooks
from tests.mutants import (
    authorising,
    batches,
    counting,
    deploying,
    each_tenant,
    enqueueing,
    failed_items,
    fencing,
    imports_and_reports,
    invoices,
    isolation,
    keys,
    launched_workers,
    limits,
    pages,
    parents,
    records,
    recovery,
    reserve,
    running,
    serving,
    shared_resources,
    short_jobs,
    steering,
    supervising,
    tax_authority,
    tickets,
    upgrades,
    values,
    web_requests,
)

MUTANTS = (
    *admin.MUTANTS,
    *adoption.MUTANTS,
    *fencing.MUTANTS,
    *files.MUTANTS,
    *imports_and_reports.MUTANTS,
    *tickets.MUTANTS,
    *tracing.MUTANTS,
    *recovery.MUTANTS,
    *running.MUTANTS,
    *supervising.MUTANTS,
    *batches.MUTANTS,
    *effects.MUTANTS,
    *isolation.MUTANTS,
    *web_requests.MUTANTS,
    *enqueueing.MUTANTS,
    *events.MUTANTS,
    *keys.MUTANTS,
    *limits.MUTANTS,
    *shared_resources.MUTANTS,
    *pages.MUTANTS,
    *tenant_pages.MUTANTS,
    *parents.MUTANTS,
    *parts.MUTANTS,
    *invoices.MUTANTS,
    *streams.MUTANTS,
    *rabbitmq.MUTANTS,
    *counting.MUTANTS,
    *failed_items.MUTANTS,
    *authorising.MUTANTS,
    *serving.MUTANTS,
    *launched_workers.MUTANTS,
    *steering.MUTANTS,
    *short_jobs.MUTANTS,
    *reserve.MUTANTS,
    *upgrades.MUTANTS,
    *values.MUTANTS,
    *records.MUTANTS,
    *deploying.MUTANTS,
    *each_tenant.MUTANTS,
    *alerts.MUTANTS,
    *schedules.MUTANTS,
    *webhooks.MUTANTS,
    *audit.MUTANTS,
    *statistics.MUTANTS,
    *tags.MUTANTS,
    *tax_authority.MUTANTS,
)
