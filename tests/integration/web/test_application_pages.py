"""The application's pages of imports and reports, and a job's page with its files, without a browser."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from handlers import build_registry
from tests.api import SETTINGS
from tests.problems import problem_of
from tests.visitor import OURS, Visitor

if TYPE_CHECKING:
    from flask import Flask

    from tests.api import Service

CSV = b"id;company_name;tax_condition\nA;B;exento\n"


@pytest.fixture(scope="module")
def app(service: Service) -> Flask:
    return service.build(registry=build_registry())


@pytest.fixture
def ana(app: Flask) -> Visitor:
    visitor = Visitor(app)
    visitor.sign_in()
    return visitor


def fields(ana: Visitor, path: str, **more: Any) -> dict[str, Any]:
    return {name: ana.hidden(path, name) for name in ("form", "branch", "key")} | more


def jobs(service: Service, ana: Visitor, kind: str) -> list[tuple[Any, ...]]:
    return service.rows(
        "SELECT id::text, payload FROM background_jobs WHERE type = %s AND user_id = %s", kind, ana.user
    )


def send(ana: Visitor, sent: dict[str, Any], data: bytes, name: str = "clientes.csv") -> Any:
    return ana.post("/import", sent | {"file": (io.BytesIO(data), name)}, headers=OURS)


def test_a_form_s_file_is_kept_and_imported_once(service: Service, ana: Visitor) -> None:
    sent = fields(ana, "/import", table="customers", dry_run="on")
    first, again = (send(ana, sent, CSV) for _ in range(2))
    assert (first.status_code, again.status_code) == (303, 303)
    assert "notice=replayed" in again.location
    [(job_id, payload)] = jobs(service, ana, "data_import")
    assert job_id in first.location
    assert (payload["table"], payload["dry_run"], payload["language"]) == ("customers", True, "en")
    [(name, size, complete)] = service.rows(
        "SELECT name, size, complete_at IS NOT NULL FROM job_files WHERE id = %s", payload["file_id"]
    )
    assert (name, size, complete) == ("clientes.csv", len(CSV), True)
    assert "Import" in ana.get(first.location).text


def test_a_file_that_a_script_uploaded_is_named_by_its_id(service: Service, ana: Visitor) -> None:
    api = service.caller("north", user=ana.user)
    file_id = api.post("/api/files", json={"name": "a.csv", "size": len(CSV)}).get_json()["file_id"]
    assert ana.post("/import", fields(ana, "/import", table="customers", file_id=file_id)).status_code == 303
    assert jobs(service, ana, "data_import")[0][1]["file_id"] == file_id
    stranger = service.caller().post("/api/files", json={"name": "a.csv", "size": 9}).get_json()["file_id"]
    answer = ana.post("/import", fields(ana, "/import", table="customers", file_id=stranger))
    assert answer.status_code == 404


def test_oversized_or_invalid_form_is_refused(service: Service, ana: Visitor) -> None:
    sent = fields(ana, "/import", table="customers")
    answer = send(ana, sent, bytes(100_000))
    assert answer.status_code == 413
    assert "That is larger than this page takes at once." in answer.text
    for wrong in (sent | {"table": "secrets"}, sent | {"encoding": "rot13"}):
        assert send(ana, wrong, CSV).status_code == 400
    assert send(ana, sent, CSV, "../../etc/passwd").status_code == 400
    assert send(ana, sent, b"").status_code == 400
    assert ana.post("/import", sent).status_code == 400
    assert jobs(service, ana, "data_import") == []


def test_import_page_names_columns_and_has_examples(ana: Visitor) -> None:
    assert "razón social, condición IVA, [dirección]" in ana.get("/import?lang=es").text
    answer = ana.get("/import/example?table=orders&branch=north")
    assert answer.headers["Content-Disposition"] == "attachment; filename=Pedidos.csv"
    assert answer.text.startswith("\ufeffpedido;cliente;fecha")
    assert ana.get("/import/example?table=secrets&branch=north").status_code == 400


def test_report_is_requested_and_wrong_period_is_reported(service: Service, ana: Visitor) -> None:
    sent = fields(ana, "/reports", since="2026-01-01", until="2026-12-31", format="csv")
    answer = ana.post("/reports", sent)
    [(job_id, payload)] = jobs(service, ana, "consolidated_report")
    assert job_id in answer.location
    assert payload["since"] == "2026-01-01"
    wrong = fields(ana, "/reports", since="2026-12-31", until="2026-01-01", format="csv")
    reply = ana.get(ana.post("/reports", wrong).location).text
    assert "The period must not end before it begins" in reply


def test_bell_is_on_each_page_and_reports_are_listed(service: Service, ana: Visitor) -> None:
    ana.post("/reports", fields(ana, "/reports", since="2026-01-01", until="2026-12-31", format="csv"))
    [(job_id, _)] = jobs(service, ana, "consolidated_report")
    service.end(job_id)
    pages = ("", "import", "reports", "authorisations", "schedules", "templates", f"jobs/{job_id}", "jobs/x")
    for page in pages:
        assert 'data-unread="1"' in ana.get(f"/{page}?branch=north").text, page
    assert f'id="earlier-{job_id}"' in ana.get("/reports?branch=north").text
    assert f'id="earlier-{job_id}"' not in ana.get(f"/reports?branch=north&job={job_id}").text
    assert f'id="earlier-{job_id}"' not in ana.get("/import?branch=north").text


def test_checkbox_mails_visitor_with_address_in_token(service: Service) -> None:
    able = service.build(registry=build_registry(), settings=replace(SETTINGS, smtp_from="turno@shop.example"))
    ana, bea = Visitor(able), Visitor(able)
    ana.sign_in(email="ana@shop.example")
    bea.sign_in()
    period = {"since": "2026-01-01", "until": "2026-12-31", "format": "csv", "mail_me": "on"}
    for visitor in (ana, bea):
        assert ("mail_me" in visitor.get("/reports").text) is (visitor is ana)
        visitor.post("/reports", fields(visitor, "/reports", **period))
    [(job_id, _)] = jobs(service, ana, "consolidated_report")
    reply = "SELECT job_id::text, url, language FROM turno.webhooks WHERE url LIKE 'mailto:%'"
    assert service.rows(reply.replace("%", "%%")) == [(job_id, "mailto:ana@shop.example", "en")]


def test_a_job_s_file_is_downloaded_from_its_page_by_its_user(service: Service, ana: Visitor) -> None:
    ana.post("/reports", fields(ana, "/reports", since="2026-01-01", until="2026-12-31", format="csv"))
    [(job_id, _)] = jobs(service, ana, "consolidated_report")
    service.rows(
        "INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, job_id, complete_at)"
        " VALUES ('sales.csv', 'text/csv', 3, 1024, %s, false, %s, %s)",
        ana.user,
        job_id,
        datetime.now(UTC),
    )
    [(file_id,)] = service.rows("SELECT id::text FROM job_files WHERE job_id = %s", job_id)
    service.rows("INSERT INTO job_file_pieces VALUES (%s, 0, 'abc')", file_id)
    for page in (f"/jobs/{job_id}", f"/reports?job={job_id}"):
        assert f'href="/files/{file_id}?branch=north"' in ana.get(page).text
    answer = ana.get(f"/files/{file_id}?branch=north")
    assert answer.status_code == 303
    assert ana.get(answer.location).data == b"abc"
    other = Visitor(ana.client.application)
    other.sign_in()
    assert other.get(f"/files/{file_id}?branch=north").status_code == 404
    api = service.caller("north", user=ana.user)
    assert [file["name"] for file in api.get(f"/api/jobs/{job_id}/files").get_json()["files"]] == ["sales.csv"]
    problem_of(service.caller().get(f"/api/jobs/{job_id}/files"), 404)


INVOICES = (
    "INSERT INTO customers (id, company_name, tax_condition, country) VALUES ('T', 'Tía <Ñ>', 'exempt', 'AR')",
    "INSERT INTO points_of_sale VALUES (1, 'registered')",
    "INSERT INTO orders (id, customer_id, ordered_on) SELECT n, 'T', '2026-01-31' FROM generate_series(1, 3) n",
    (
        "INSERT INTO invoices (order_id, point_of_sale, letter, number, customer_id, net_total, iva_total, total,"
        " currency) SELECT n, 1, 'B', n, 'T', 10, 2.1, 12.1, CASE n WHEN 3 THEN 'USD' ELSE 'ARS' END"
        " FROM generate_series(1, 3) n"
    ),
    "UPDATE invoices SET cae = '76000000000001', cae_expires_on = '2026-12-01', authorised_at = now() WHERE number = 1",
)


def test_peso_invoices_are_authorised_once_with_their_codes(service: Service, ana: Visitor) -> None:
    for statement in INVOICES:
        service.rows(statement)
    [(waiting,)] = service.rows("SELECT id FROM invoices WHERE number = 2")
    page = ana.get("/authorisations?branch=north").text
    assert "Have 1 invoice authorised" in page
    assert "B 00001-00000001" in page
    assert "76000000000001" in page
    assert "Tía &lt;Ñ&gt;" in page
    sent = fields(ana, "/authorisations")
    first, again = (ana.post("/authorisations", sent) for _ in range(2))
    [(job_id, payload)] = jobs(service, ana, "taxpayer_sync")
    assert payload["invoice_ids"] == [waiting]
    assert job_id in first.location
    assert "notice=replayed" in again.location
