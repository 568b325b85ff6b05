"""The operator's pages: for operators alone, of the tenants of their companies alone, in their language."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.installation import TABLES
from tests.mounting_host import MOUNTED, host, signed_in
from tests.visitor import Visitor
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.files import packaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service

SCREENS = ("/admin", "/admin/workers")
TICKET = """
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT gen_random_uuid(), id, %s, %s, 1, 1, now() - interval '10 minutes', 'ready', 'pool'
FROM turno.tenants WHERE slug = %s
"""
OUTCOME = """
INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
SELECT id, %s, 'failed', 1, 1 FROM turno.tenants WHERE slug = %s
"""


@pytest.fixture(scope="module", name="_east")
def east(service: Service) -> None:
    """A tenant of another company, with work that waits, work that runs and a failure."""
    logins = Logins(server=service.url, master_key=b"a master key of 32 bytes or more")
    with psycopg.connect(service.url, autocommit=True) as admin:
        add_company(admin, logins, "globex", "Globex")
        service.tenants["east"] = add_tenant(admin, logins, "east", "globex", migrations=packaged(TABLES))
    service.rows(
        "INSERT INTO turno.workers (backend, host, pid, types, versions, alive_at)"
        " VALUES ('pool', 'app-1', 7, '{greetings}', '{1}', now() + interval '1 hour')"
    )
    service.rows("INSERT INTO turno.leases VALUES ('steady sweeps', 'x', now() + interval '1 hour')")


@pytest.fixture(autouse=True)
def work(service: Service, _east: None) -> Iterator[None]:
    for slug, queue in (("north", "cold"), ("east", "globex-queue")):
        service.rows(TICKET, queue, "greetings", slug)
        service.rows(OUTCOME, f"import_of_{slug}", slug)
    service.rows(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend,"
        " worker_id, token, attempt) SELECT gen_random_uuid(), n.id, 'cold', 'sums_of_' || n.slug, 1, 1, now(),"
        " 'running', 'pool', w.id, gen_random_uuid(), 1 FROM turno.tenants n, turno.workers w WHERE n.slug <> 'south'"
    )
    yield
    service.rows("DELETE FROM turno.tickets")
    service.rows("DELETE FROM turno.outcomes")


def operator(service: Service, *companies: str, role: str = "operator", language: str = "en") -> Visitor:
    visitor = Visitor(service.app)
    named = {"companies": list(companies)} if companies else {}
    visitor.sign_in(f"eva-{uuid.uuid4().hex[:8]}", roles=[role], **named)
    visitor.get(f"/admin?lang={language}")
    return visitor


@pytest.mark.parametrize("screen", SCREENS)
def test_a_tenant_s_user_sees_none_of_it(service: Service, screen: str) -> None:
    ana = Visitor(service.app)
    assert ana.get(screen).status_code == 401
    ana.sign_in("ana", "north")
    refused = ana.get(screen)
    assert refused.status_code == 403
    assert "This page is for operators" in refused.text
    assert 'href="/admin"' not in ana.get("/?branch=north").text


@pytest.mark.parametrize("role", ["reader", "operator", "admin"])
@pytest.mark.parametrize("screen", SCREENS)
def test_whoever_has_an_operator_s_role_sees_every_company(service: Service, screen: str, role: str) -> None:
    page = operator(service, role=role).get(screen)
    assert page.status_code == 200
    assert {"east", "north"} <= set(re.findall(r"\b(?:east|north)\b", page.text))
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert not re.findall(r"<script>|<style|\sstyle=|\son\w+=", page.text)


@pytest.mark.parametrize("screen", SCREENS)
def test_an_operator_of_one_company_sees_nothing_of_another(service: Service, screen: str) -> None:
    page = operator(service, "acme").get(screen).text
    assert "north" in page
    assert not re.findall(r"\beast\b|globex|import_of_east|sums_of_east", page)
    assert "app-1" in page, "workers are everybody's"


def test_an_operator_of_no_company_sees_no_tenant(service: Service) -> None:
    visitor = Visitor(service.app)
    visitor.sign_in("eva", roles=["operator"], companies=[])
    page = visitor.get("/admin")
    assert page.status_code == 200
    assert not re.findall(r"\beast\b|\bnorth\b|import_of_|sums_of_", page.text)


def test_what_is_wrong_comes_first_with_since_when_and_what_to_type(service: Service) -> None:
    service.rows("DELETE FROM turno.tickets WHERE state = 'ready'")
    service.rows(TICKET, "cold", "unheard_of", "north")
    page = operator(service).get("/admin").text
    assert "No living worker knows unheard_of: 1 job of 1 tenant waits for pool." in page
    assert "<code>turno pool</code>" in page
    assert re.search(r"Since <time [^>]*>10 minutes ago", page)
    assert "<title>(" in page
    spanish = operator(service, language="es").get("/admin").text
    assert "Ningún proceso vivo conoce unheard_of: 1 trabajo de 1 sucursal espera a pool." in spanish
    limited = operator(service, "globex").get("/admin").text
    assert "unheard_of" not in limited


def test_what_works_is_said_to_work(service: Service) -> None:
    service.rows("DELETE FROM turno.tickets")
    service.rows("DELETE FROM turno.outcomes")
    page = operator(service).get("/admin").text
    assert "Nothing is wrong." in page
    assert "Nothing waits and nothing runs." in page
    assert "<title>Operations" in page


def test_mounted_below_a_prefix_every_address_is_below_it(service: Service) -> None:
    app = service.build(host=host(), **{"principal": signed_in, "pages": ()} | MOUNTED)
    client = app.test_client()
    client.post("/login", data={"user": "eva", "branch": ["north"], "admin": "yes"})
    page = client.get("/work/jobs/admin")
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page.text)
    assert all(one.startswith(("/work/jobs", "/host.css")) for one in addresses), addresses
    client.post("/login", data={"user": "ana", "branch": ["north"]})
    client = app.test_client()
    client.post("/login", data={"user": "ana", "branch": ["north"]})
    assert client.get("/work/jobs/admin").status_code == 403


def test_who_operates_is_led_there_from_the_tenant_s_page(service: Service) -> None:
    assert 'href="/admin"' in operator(service).get("/?branch=north").text
