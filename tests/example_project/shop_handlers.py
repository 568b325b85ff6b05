"""Two handlers of a shop's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turno import InvalidPayload, JobContext, JobHandler, Registry, Reschedule


@dataclass(frozen=True, slots=True)
class CustomersPayload:
    """The names of new customers."""

    names: tuple[str, ...]


class ImportCustomers(JobHandler[CustomersPayload]):
    """Enter each customer once; a name that cannot be entered does not stop the import."""

    type = "import_customers"

    @classmethod
    def validate(cls, payload: CustomersPayload) -> None:
        if not payload.names:
            raise InvalidPayload([{"field": "names", "problem": "name at least one customer"}])

    def handle(self, job: JobContext, payload: CustomersPayload) -> dict[str, Any]:
        batch = job.each(payload.names, chunk=2)
        for step in batch:
            with step as item:
                job.connection.execute(
                    "INSERT INTO customers (id, company_name, tax_condition, address, country)"
                    " VALUES (%s, %s, 'exempt', %s, 'AR')",
                    (item.value, item.value, str(job.job_id)),
                )
        return {"entered": batch.counts.done, "failed": batch.counts.failed}


@dataclass(frozen=True, slots=True)
class ReminderPayload:
    """Whom to remind."""

    customer: str


class Remind(JobHandler[ReminderPayload]):
    """Fails at first, then comes back an hour later, then is done."""

    type = "remind"

    def handle(self, job: JobContext, payload: ReminderPayload) -> dict[str, Any] | Reschedule:
        if job.attempt == 1:
            raise ConnectionError("the mail server is away")
        if job.attempt == 2:
            return Reschedule(after=3600)
        return {"reminded": payload.customer}


def build_registry() -> Registry:
    return Registry({"import_customers": "shop_handlers:ImportCustomers", "remind": "shop_handlers:Remind"})
