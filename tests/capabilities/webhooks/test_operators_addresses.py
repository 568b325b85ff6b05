"""Addresses of operators receive every end of a tenant's, a type's or all jobs; refused deliveries are visible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from tests.capabilities.webhooks.sent_messages import counted, due_again, requested
from turno.capabilities.webhooks import stored
from turno.capabilities.webhooks.delivery import PAUSES, Webhooks
from turno.capabilities.webhooks.signature import address_secret, headers_of
from turno.commands.main import main
from turno.settings import Settings
from turno.wiring.logins import operator_session
from turno.wiring.shared import run_deliveries

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from tests.capabilities.webhooks.sent_messages import Receiver
    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant


def added(example: ExampleInstallation, url: str, *, tenant: str | None = None, job_type: str | None = None) -> int:
    with operator_session(example.settings) as operator:
        made = stored.add_address(operator, url, tenant=tenant, job_type=job_type, by="eva")
    assert made is not None
    return made


def ended(example: ExampleInstallation, *, tenant: Tenant | None = None) -> UUID:
    job_id: UUID = example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("SELECT job_cancel(%s, NULL, 'the test is over')", job_id, tenant=tenant)
    counted(example)
    return job_id


def allowed(example: ExampleInstallation) -> dict[str, str]:
    example.rows("DELETE FROM turno.leases WHERE name = 'webhooks'")
    return {"TURNO_WEBHOOK_HOSTS": "http://127.0.0.1"}


def test_address_receives_ends_of_its_tenant_and_type(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver
) -> None:
    before = ended(example)
    added(example, f"{receiver.url}&of=all")
    added(example, f"{receiver.url}&of=two", tenant="suc0002")
    added(example, f"{receiver.url}&of=other", job_type="data_import")
    added(example, f"{receiver.url}&of=type", job_type="batch_invoicing", tenant="suc0001")
    first, second = ended(example), ended(example, tenant=example.tenants["suc0002"])
    assert webhooks.run_round() == 4
    reply = {(path.rpartition("=")[2], headers["webhook-id"]) for path, headers, _ in receiver.got}
    assert reply == {("all", str(first)), ("type", str(first)), ("all", str(second)), ("two", str(second))}
    counted(example)
    assert (webhooks.run_round(), str(before) in {job for _, job in reply}) == (0, False)


def test_operator_webhook_has_own_secret_and_no_duplicate(example: ExampleInstallation, receiver: Receiver) -> None:
    number = added(example, receiver.url)
    job_id = ended(example)
    run_deliveries(Settings.read(example.environment | allowed(example)))
    [(_, headers, body)] = receiver.got
    secret = address_secret(example.settings, number)
    assert headers_of(secret, str(job_id), int(headers["webhook-timestamp"]), body).items() <= headers.items()
    own = requested(example, receiver.url)["job_id"]
    example.rows("SELECT job_cancel(%s, NULL, 'the test is over')", own)
    counted(example)
    assert len(example.rows("SELECT FROM turno.webhooks WHERE job_id = %s", own)) == 1


def test_failed_deliveries_are_listed_and_sent_again(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (example.environment | allowed(example)).items():
        monkeypatch.setenv(name, value)

    def turno(*words: str) -> str:
        return CliRunner().invoke(main, ["webhook", *words], catch_exceptions=False).output

    assert "address" in turno("add", receiver.url, "--tenant", "suc0001", "--type", "batch_invoicing", "--by", "eva")
    job_id = ended(example)
    receiver.status = 500
    example.rows("UPDATE turno.webhooks SET attempts = %s", len(PAUSES))
    assert webhooks.run_round() == 0
    shown = turno("list")
    assert ("told?by" in shown, "no more" in shown, "it answered 500" in shown) == (False, True, True)
    listed = json.loads(turno("list", "--json"))
    [failing], [address] = listed["failing"], listed["addresses"]
    assert (failing["job_id"], failing["address_id"], failing["attempts"]) == (
        str(job_id),
        address["id"],
        len(PAUSES) + 1,
    )
    receiver.status = 200
    assert turno("resend", "--tenant", "suc0002", "--by", "eva") == "deliveries sent again: 0\n"
    assert turno("resend", str(failing["id"]), "--by", "eva") == "deliveries sent again: 1\n"
    assert webhooks.run_round() == 1
    ended(example)
    assert "receives no more webhooks" in turno("remove", str(address["id"]), "--by", "eva")
    assert webhooks.run_round() == 0
    acts = example.rows("SELECT action, actor, detail::text FROM turno.operator_audit ORDER BY id")
    assert [(act["action"], act["actor"]) for act in acts] == [
        ("webhooks add", "eva"), ("webhooks resend", "eva"), ("webhooks remove", "eva")
    ]  # fmt: skip
    assert "told?by" not in str(acts)
    refused = CliRunner().invoke(main, ["webhook", "add", "https://elsewhere.example/"])
    assert (refused.exit_code, "TURNO_WEBHOOK_HOSTS" in refused.output) == (1, True)


def test_a_discarded_one_is_tried_no_more(example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver) -> None:
    added(example, receiver.url)
    receiver.status = 500
    ended(example)
    assert webhooks.run_round() == 0
    with operator_session(example.settings) as operator:
        assert stored.settle(operator, again=False, by="eva", companies=["nobody's"]) == 0
        assert stored.settle(operator, again=False, by="eva") == 1
    due_again(example)
    assert (webhooks.run_round(), len(receiver.got)) == (0, 1)


def test_given_up_delivery_is_purged_with_its_job(example: ExampleInstallation) -> None:
    job_id = ended(example)
    example.rows("INSERT INTO turno.webhooks (job_id, tenant_id, url) VALUES (%s, %s, 'x')", job_id, example.one.id)
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '40 days' WHERE id = %s", job_id)
    example.rows("SELECT job_purge('30 days', 100)")
    assert example.rows("SELECT FROM turno.webhooks") == []
