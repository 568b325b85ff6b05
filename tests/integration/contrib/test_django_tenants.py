"""django-tenants in a handler: the schema is the job's, under the login of its tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, connection, connections, transaction
from django_tenants.postgresql_backend.base import FakeTenant
from django_tenants.utils import schema_context, tenant_context

from tests.integration.contrib.customers import Customer
from turno import JobContext, JobHandler
from turno.contrib.django.database import job_database

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Switch:
    """The schema that the handler switches to."""

    schema: str
    by: str = "schema"


class AddCustomer(JobHandler[Switch]):
    """Add a customer within a context of django-tenants, and return the state of the session."""

    type = "add_customer"
    middleware = (job_database,)

    def handle(self, job: JobContext, payload: Switch) -> dict[str, Any]:  # noqa: ARG002 - the middleware has it
        before = connection.schema_name
        with switch(payload):
            try:
                with transaction.atomic():
                    Customer.objects.bulk_create([Customer(id="Ana", company_name="Ana")] * 2)
            except IntegrityError:
                Customer.objects.create(id="Bea", company_name="Bea")
            inside = connection.schema_name
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('search_path'), current_user")
            path, login = cursor.fetchone()
        return {"schemas": [before, inside, connection.schema_name], "path": path, "login": login}


HANDLERS = [AddCustomer]


def switch(payload: Switch) -> AbstractContextManager[Any]:
    if payload.by == "schema":
        return schema_context(payload.schema)  # type: ignore[no-any-return]
    return tenant_context(FakeTenant(payload.schema))  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def of_django_tenants(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    own = connections.settings["default"] | {"ENGINE": "django_tenants.postgresql_backend"}
    monkeypatch.setitem(connections.settings, "default", own)
    for tenant in (example.one, example.other):
        example.rows("DELETE FROM customers WHERE country = 'django'", tenant=tenant)
    example.registry = f"{__name__}:HANDLERS"


def done(example: ExampleInstallation, tenant: Tenant, schema: str, by: str = "schema") -> dict[str, Any]:
    payload = {"schema": schema, "by": by}
    return example.attempt(example.enqueue(payload, handler=AddCustomer, tenant=tenant, max_attempts=1))


def kept(example: ExampleInstallation, tenant: Tenant) -> list[str]:
    return [row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'django'", tenant=tenant)]


@pytest.mark.parametrize("by", ["schema", "tenant"])
def test_schema_of_the_job_is_that_of_django_tenants(example: ExampleInstallation, by: str) -> None:
    for tenant in (example.other, example.one):
        result = done(example, tenant, tenant.schema, by)["result"]
        assert result == {
            "schemas": [tenant.schema] * 3,
            "path": example.handler_login(tenant).search_path,
            "login": example.handler_login(tenant).role,
        }
        assert kept(example, tenant) == ["Bea"]


@pytest.mark.parametrize("by", ["schema", "tenant"])
@pytest.mark.parametrize("name", ["other", "public"])
def test_switch_to_another_schema_is_refused(example: ExampleInstallation, name: str, by: str) -> None:
    schema = example.other.schema if name == "other" else name
    job = done(example, example.one, schema, by)
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert f"in the schema {example.one.schema} alone, and not in {schema}" in job["error"]["message"]
    assert kept(example, example.one) == kept(example, example.other) == []
