"""The client and the real server: also when the server dies between the commit and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capabilities.streams.test_streams import end, headers_of, move, web_of
from tests.partner import invoice
from turno.client import Client, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(module_example) as running:
        yield running


@pytest.fixture
def client(example: ExampleInstallation, web: DemoWeb) -> Client:
    return example.client(web)


def jobs(example: ExampleInstallation) -> list[UUID]:
    return [row["id"] for row in example.rows("SELECT id FROM background_jobs")]


def test_program_of_a_partner_learns_the_end_of_its_batch(example: ExampleInstallation, web: DemoWeb) -> None:
    token = headers_of(example)["Authorization"].removeprefix("Bearer ")
    requested = (web.url, lambda: token, "june", example.order_ids()[:2])
    result = invoice(*requested)
    assert result is not None
    assert (result["status"], result["result"]["invoiced"], result["error"]) == ("completed", 2, None)
    assert invoice(*requested) == result
    assert len(jobs(example)) == 1
    with pytest.raises(SystemExit, match="order_ids"):
        invoice(web.url, lambda: token, "july", [])


def test_a_job_is_followed_to_its_end(example: ExampleInstallation, client: Client) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    seen = []
    for job in client.follow(str(job_id)):
        seen.append((job.status, job.progress["done"]))
        if len(seen) == 1:
            move(example, job_id, 40)
        elif not job.ended:
            end(example, job_id)
    assert (seen[0], seen[1], seen[-1][0]) == (("pending", 0), ("pending", 40), "completed")


def test_cancelled_job_ends_and_foreign_job_is_unknown(example: ExampleInstallation, client: Client) -> None:
    job_id = str(example.enqueue({"order_ids": [1]}))
    client.cancel(job_id)
    assert client.wait(job_id, timeout=60).status == "cancelled"
    with pytest.raises(Refused) as refused:
        client.get(str(example.enqueue({"order_ids": [1]}, tenant=example.tenants["suc0002"])))
    assert (refused.value.status, refused.value.kind) == (404, "not-found")


def test_server_killed_after_commit_is_retried_with_one_job(example: ExampleInstallation) -> None:
    with web_of(example, TURNO_CRASH_AT="accepted") as web:
        token = headers_of(example)["Authorization"].removeprefix("Bearer ")
        client = Client(web.url, tenant="suc0001", token=token)
        job = client.submit("batch_invoicing", {"order_ids": example.order_ids()[:1]})
        assert [str(result) for result in jobs(example)] == [job.id]


def test_cancelled_jobs_are_listed_and_retried(example: ExampleInstallation, client: Client) -> None:
    first, second = (client.submit("batch_invoicing", {"order_ids": [1]}) for _ in range(2))
    client.cancel(first)
    assert [job.id for job in client.jobs(limit=1)] == [second.id, first.id]
    assert [job.id for job in client.jobs(status="cancelled")] == [first.id]
    again = client.retry(first)
    assert client.retry(first).id == again.id
    with pytest.raises(Refused) as refused:
        client.retry(second)
    assert refused.value.status == 409
    assert len(jobs(example)) == 3


def test_an_uploaded_file_has_its_bytes(example: ExampleInstallation, client: Client) -> None:
    content = bytes(range(256)) * 5000  # more than a piece
    file_id = client.upload("orders.csv", content)
    shown = client.request("GET", f"/api/files/{file_id}")
    assert (shown["name"], shown["size"], shown["complete"]) == ("orders.csv", len(content), True)
    pieces = example.rows("SELECT data FROM job_file_pieces ORDER BY n")
    assert b"".join(row["data"] for row in pieces) == content


def test_schedules_are_saved_listed_and_removed(client: Client) -> None:
    saved = client.save_schedule("nightly", type="batch_invoicing", payload={"order_ids": [1]}, every=3600)
    assert saved["payload"]["order_ids"] == [1]
    assert [row["name"] for row in client.schedules()] == ["nightly"]
    client.remove_schedule("nightly")
    assert list(client.schedules()) == []
    with pytest.raises(Refused) as refused:
        client.remove_schedule("nightly")
    assert refused.value.status == 404
