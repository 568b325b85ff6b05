"""Invoices before the tax authority: each is authorised once, in the order of their numbers, or a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from tax_authority import Ticket
from tax_authority.authorising.stored_tickets import StoredTickets
from tax_authority.stub.books import Taxpayer
from tax_authority.stub.certificates import make_certificate
from tax_authority.taxpayer_sync import TaxpayerSync, TaxpayerSyncPayload
from tests.fiscal_branch import FiscalBranch, cuit_of, fiscal_branch
from tests.installation import ExampleInstallation
from turno.commands.main import main
from turno.tenancy.identity.session import handler_session
from turno.testing.build import FOREVER


@pytest.fixture
def branch(example: ExampleInstallation) -> Iterator[FiscalBranch]:
    with fiscal_branch(example) as branch:
        yield branch


def refusals(branch: FiscalBranch, job: dict[str, Any]) -> list[tuple[str, str]]:
    """The job's failed items, as class and message."""
    return [(item["error"]["class"], item["error"]["message"]) for item in branch.items(job["id"]) if item["error"]]


def test_invoices_are_authorised_in_the_order_of_their_numbers(branch: FiscalBranch) -> None:
    ids = branch.invoices(3)
    job = branch.attempt(branch.enqueue(*reversed(ids)))
    assert (job["status"], job["result"]) == ("completed", {"done": 3, "failed": 0, "skipped": 0})
    granted = branch.granted()
    assert [voucher.number for voucher in granted] == [1, 2, 3]
    assert branch.codes() == {voucher.number: voucher.cae for voucher in granted}
    assert [item["ref"] for item in branch.items(job["id"])] == [
        f"B 00001-{voucher.number:08}: CAE {voucher.cae}" for voucher in granted
    ]
    (kept,) = branch.example.rows("SELECT cae_expires_on FROM invoices WHERE number = 1")
    assert kept["cae_expires_on"] == granted[0].expires_on
    again = branch.attempt(branch.enqueue(*ids))
    assert (again["result"]["done"], len(branch.granted())) == (3, 3)


def test_gap_is_reported_with_the_missing_number(branch: FiscalBranch) -> None:
    branch.invoices(1)
    (later,) = branch.invoices(1, first=2)
    job = branch.attempt(branch.enqueue(later))
    assert refusals(branch, job) == [
        (
            "EarlierMissing",
            "B 00001-00000002 waits for B 00001-00000001: the tax authority takes numbers in their order only",
        )
    ]
    assert branch.granted() == []


def test_refused_invoice_blocks_later_ones_until_corrected(branch: FiscalBranch) -> None:
    ids = branch.invoices(2)
    branch.set_condition("registered")
    job = branch.attempt(branch.enqueue(*ids))
    (first, why), (second, _) = refusals(branch, job)
    assert (first, second, "10243" in why) == ("NotAuthorised", "EarlierMissing", True)
    branch.set_condition("final_consumer")
    mended = branch.attempt(branch.example.retry(job["id"])["job_id"])
    assert (mended["result"]["done"], len(branch.granted())) == (2, 2)


def test_lost_answer_is_looked_up_and_not_sent_twice(branch: FiscalBranch) -> None:
    ids = branch.invoices(2)
    branch.stub.faults.set("FECAESolicitar", "drop")
    job = branch.attempt(branch.enqueue(*ids))
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "EffectInDoubt")
    branch.stub.faults.set("FECAESolicitar")
    job = branch.attempt(job["id"])
    assert (job["status"], job["result"]["done"]) == ("completed", 2)
    assert branch.codes() == {voucher.number: voucher.cae for voucher in branch.granted()}
    assert (
        branch.stub.faults.requested["FECAESolicitar", "drop"]
        + branch.stub.faults.requested["FECAESolicitar", "answer"]
        == 2
    )


def test_unanswered_request_is_sent_again_after_its_limit(branch: FiscalBranch) -> None:
    (invoice,) = branch.invoices(1)
    branch.stub.faults.set("FECAESolicitar", "never")
    job = branch.attempt(branch.enqueue(invoice), read_seconds=0.1)
    branch.stub.faults.set("FECAESolicitar")
    job = branch.attempt(job["id"], latest=3600.0)
    assert (job["status"], job["errors"], branch.granted()) == ("pending", 2, [])
    job = branch.attempt(job["id"], latest=0.0)
    assert (job["status"], len(branch.granted())) == ("completed", 1)


def test_other_voucher_under_our_number_waits_for_person(branch: FiscalBranch) -> None:
    ids = branch.invoices(2)
    branch.attempt(branch.enqueue(ids[0]))
    branch.example.rows(
        "UPDATE invoices SET cae = NULL, cae_expires_on = NULL, authorised_at = NULL,"
        " net_total = 200, iva_total = 42, total = 242 WHERE id = %s",
        ids[0],
    )
    branch.example.rows("DELETE FROM external_effects")
    job = branch.attempt(branch.enqueue(*ids))
    assert (job["status"], job["error"]["class"]) == ("pending", "EffectInDoubt")
    job = branch.attempt(job["id"])
    (granted,) = branch.granted()
    assert job["run_at"] == FOREVER
    assert job["error"]["message"] == (
        "B 00001-00000001; ERP: 20/11/2026, doc. 0, total 242.00;"
        f" AFIP: 20/11/2026, doc. 0, total 121.00, CAE {granted.cae}"
    )
    # Absent it cannot be, so the look-up is repeated; as it is ours after all, the authority's voucher is taken over.
    key = "authorisation of B 00001-00000001"
    assert branch.settle(job["id"], key, None) == "settled"
    branch.attempt(job["id"])
    assert branch.attempt(job["id"])["run_at"] == FOREVER
    assert branch.settle(job["id"], key, "{}") == "settled"
    job = branch.attempt(job["id"])
    assert (job["status"], branch.codes()[1], len(branch.granted())) == ("completed", granted.cae, 2)


def test_authority_outage_counts_no_attempt_and_no_call(branch: FiscalBranch) -> None:
    first, second = branch.invoices(2)
    branch.stub.faults.set("*", "unavailable")
    job = branch.enqueue(first)
    for times in (1, 2, 3):
        branch.example.rows("UPDATE tax_authority_outages SET ask_again_at = clock_timestamp()")
        waiting = branch.attempt(job)
        assert (waiting["status"], waiting["errors"], waiting["reason"]) == ("pending", 0, "rescheduled by its handler")
        (outage,) = branch.example.rows("SELECT service, failures FROM tax_authority_outages")
        assert (outage["service"], outage["failures"]) == ("wsfe", times)
        assert waiting["run_at"] > datetime.now(UTC) + timedelta(seconds=5)
    requested = branch.stub.faults.requested.total()
    branch.stub.faults.set("*")
    (until,) = branch.example.rows("SELECT ask_again_at FROM tax_authority_outages")
    other = branch.enqueue(second)
    assert branch.attempt(other)["run_at"] == until["ask_again_at"]
    assert branch.stub.faults.requested.total() == requested
    branch.example.rows("UPDATE tax_authority_outages SET ask_again_at = clock_timestamp()")
    assert [branch.attempt(job_id)["status"] for job_id in (job, other)] == ["completed"] * 2
    assert branch.example.rows("SELECT FROM tax_authority_outages") == []


def test_branch_without_valid_certificate_fails_at_once(branch: FiscalBranch) -> None:
    (invoice,) = branch.invoices(1)
    branch.example.rows("UPDATE private_tax_authority_access SET expires_at = now() - interval '1 day'")
    job = branch.attempt(branch.enqueue(invoice))
    assert (job["status"], job["error"]["class"]) == ("failed", "CertificateExpired")
    assert "turno tax-authority certificate --tenant suc0001" in job["error"]["message"]
    branch.example.rows("DELETE FROM private_tax_authority_access")
    job = branch.attempt(branch.enqueue(invoice))
    assert (job["status"], job["error"]["class"], branch.granted()) == ("failed", "NoCertificate", [])


def test_ticket_serves_all_jobs_of_branch_until_refused(branch: FiscalBranch) -> None:
    ids = branch.invoices(3)
    for invoice in ids[:2]:
        branch.attempt(branch.enqueue(invoice))
    logins = branch.stub.faults.requested
    assert logins["loginCms", "answer"] == 1
    branch.stub.login.expire()
    assert branch.attempt(branch.enqueue(ids[2]))["status"] == "completed"
    assert logins["loginCms", "answer"] == 2


def test_one_process_renews_a_ticket_for_all(branch: FiscalBranch) -> None:
    example = branch.example
    renewed = Ticket("token", "sign", datetime.now(UTC) + timedelta(hours=12))
    first, second = (
        handler_session(example.logins, example.handler_login(), application="test", kind=psycopg.Connection)
        for _ in range(2)
    )
    with first, second:
        second.execute("SET lock_timeout = '50ms'")

        def renew() -> Ticket:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                StoredTickets(lambda: second).ticket("wsfe", pytest.fail)
            second.rollback()
            return renewed

        with first.transaction():
            assert StoredTickets(lambda: first).ticket("wsfe", renew) == renewed
        assert StoredTickets(lambda: second).ticket("wsfe", pytest.fail) == renewed


def test_one_job_of_a_branch_runs_at_once(branch: FiscalBranch) -> None:
    limit = "UPDATE turno.handlers SET key_limit = %s WHERE type = 'taxpayer_sync' RETURNING type"
    assert branch.example.rows(limit, TaxpayerSync.key_limit) != []
    for invoice in branch.invoices(2):
        key = TaxpayerSync.concurrency_key(TaxpayerSyncPayload(invoice_ids=(invoice,)))
        branch.enqueue(invoice, concurrency_key=key)
    branch.example.engine.promote(1000)
    assert sorted(row["state"] for row in branch.example.rows("SELECT state FROM turno.tickets")) == [
        "ready",
        "waiting",
    ]


def test_the_registry_s_word_on_a_customer_is_taken_over(branch: FiscalBranch) -> None:
    example, cuit = branch.example, cuit_of(7)
    branch.stub.books.register(Taxpayer(cuit, "Ejemplo SA", (20,)))
    example.rows("UPDATE customers SET tax_id = %s WHERE id = 'ALFKI'", cuit)
    example.rows("UPDATE customers SET tax_id = %s WHERE id = 'ANATR'", cuit_of(8))
    requested = {"customer_ids": ["ALFKI", "ANATR", "ANTON"]}
    job = branch.attempt(example.enqueue(requested, handler=TaxpayerSync))
    assert [kind for kind, _ in refusals(branch, job)] == ["NotThere", "UnknownCustomer"]
    (customer,) = example.rows("SELECT tax_condition FROM customers WHERE id = 'ALFKI'")
    assert customer == {"tax_condition": "monotributo"}
    example.rows("UPDATE customers SET tax_id = NULL, tax_condition = 'registered' WHERE id IN ('ALFKI', 'ANTON')")


def test_an_a_needs_the_customers_cuit(branch: FiscalBranch) -> None:
    (invoice,) = branch.invoices(1, letter="A")
    job = branch.attempt(branch.enqueue(invoice))
    assert [kind for kind, _ in refusals(branch, job)] == ["NoTaxId"]


def test_a_credit_note_names_the_invoice_that_it_takes_back(branch: FiscalBranch) -> None:
    example = branch.example
    (invoice,) = branch.invoices(1)
    (note,) = example.rows(
        "INSERT INTO invoices (order_id, kind, point_of_sale, letter, number, customer_id, issued_on, net_total,"
        " iva_total, total, currency) SELECT order_id, 'credit_note', point_of_sale, letter, 1, customer_id, issued_on,"
        " net_total, iva_total, total, currency FROM invoices WHERE id = %s RETURNING id",
        invoice,
    )
    example.rows(
        "INSERT INTO invoice_lines SELECT %s, line_no, product_id, quantity, unit_price, discount, net, iva_rate, iva"
        " FROM invoice_lines WHERE invoice_id = %s",
        note["id"],
        invoice,
    )
    job = branch.attempt(branch.enqueue(note["id"], invoice))
    assert job["result"]["done"] == 2
    assert [(voucher.series.kind, voucher.number) for voucher in branch.granted()] == [(6, 1), (8, 1)]


def test_invoices_in_another_currency_are_not_sent(branch: FiscalBranch) -> None:
    (invoice,) = branch.invoices(1)
    branch.example.rows("UPDATE invoices SET currency = 'USD' WHERE id = %s", invoice)
    job = branch.attempt(branch.enqueue(invoice))
    assert refusals(branch, job) == [("CannotAuthorise", "B 00001-00000001 is in USD: only invoices in pesos are sent")]


def test_only_handlers_of_the_branch_read_its_key(branch: FiscalBranch) -> None:
    example, tenant = branch.example, branch.example.one
    roles = example.rows("SELECT rolname FROM pg_roles WHERE NOT rolsuper")
    readers = {
        row["rolname"]
        for row in roles
        for table in ("private_tax_authority_access", "private_tax_authority_tickets")
        if example.rows("SELECT has_table_privilege(%s, %s, 'SELECT') AS may", row["rolname"], table)[0]["may"]
    }
    assert readers - {"pg_read_all_data"} == {tenant.handler_role, tenant.owner_role}


def test_certificate_command_stores_or_refuses_access(branch: FiscalBranch, tmp_path: Path) -> None:
    made = make_certificate(branch.cuit)
    files = {"--certificate": tmp_path / "one.crt", "--key": tmp_path / "one.key"}
    files["--certificate"].write_bytes(made.certificate)
    files["--key"].write_bytes(made.key)
    given = ["--tenant", "suc0001", *(str(argument) for pair in files.items() for argument in pair)]

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["tax-authority", *arguments], env=branch.example.environment)

    branch.example.rows("DELETE FROM private_tax_authority_access")
    assert run("show", "--tenant", "suc0001").exit_code == 1
    refused = run("certificate", *given, "--cuit", cuit_of(2))
    assert (refused.exit_code, f"for CUIT {branch.cuit}, not for CUIT {cuit_of(2)}" in refused.output) == (1, True)
    assert branch.example.rows("SELECT FROM private_tax_authority_access") == []
    kept = run("certificate", *given, "--cuit", f"{branch.cuit[:2]}-{branch.cuit[2:10]}-{branch.cuit[10]}")
    assert f"suc0001 uses CUIT {branch.cuit} until 20" in kept.output
    assert run("show", "--tenant", "suc0001").output == kept.output
    (invoice,) = branch.invoices(1)
    assert branch.attempt(branch.enqueue(invoice))["status"] == "completed"
