"""Tickets for streams: used once, for seconds, by one user for one object, and written nowhere."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.api import Caller
from tests.capabilities.streams.test_streams import ask, headers_of, web_of
from tests.problems import problem_of
from tests.stream_client import StreamClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.demo.web import DemoWeb
    from tests.api import Service
    from tests.installation import ExampleInstallation


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(module_example) as running:
        yield running


def ticket(example: ExampleInstallation, web: DemoWeb, body: str | None = None, **options: Any) -> str:
    status, answer = ask(web, "POST", "/api/stream-tickets", headers_of(example, **options), body)
    assert (status, answer["expires_in"]) == (200, 30), answer
    return str(answer["ticket"])


def refused(web: DemoWeb, path: str) -> bool:
    with StreamClient(web.port, path, {"Connection": "close"}) as answer:
        return answer.status == 401 and json.loads(answer.body())["type"] == "/docs#not-authenticated"


def test_a_ticket_opens_its_stream_once(example: ExampleInstallation, web: DemoWeb) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    for body, path in ((None, "/api/stream"), (f'{{"job_id": "{job_id}"}}', f"/api/jobs/{job_id}/stream")):
        secret = ticket(example, web, body)
        with StreamClient(web.port, f"{path}?ticket={secret}") as stream:
            assert [event["job_id"] for _, event in stream.first_state()] == [str(job_id)]
            assert refused(web, f"{path}?ticket={secret}")
        assert refused(web, f"{path}?ticket={secret}")


def test_a_ticket_is_good_for_half_a_minute_at_most(example: ExampleInstallation, web: DemoWeb) -> None:
    ticket(example, web)
    [left] = example.rows("DELETE FROM turno.stream_tickets RETURNING expires_at - clock_timestamp() AS time")
    assert left["time"] <= timedelta(seconds=30)


def test_ticket_is_bound_to_job_and_ends_with_wrong_use(example: ExampleInstallation, web: DemoWeb) -> None:
    job_id, other = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [2]})
    of_job = f'{{"job_id": "{job_id}"}}'
    for body, wrong, right in (
        (of_job, f"/api/jobs/{other}/stream", f"/api/jobs/{job_id}/stream"),
        (of_job, "/api/stream", f"/api/jobs/{job_id}/stream"),
        (None, f"/api/jobs/{job_id}/stream", "/api/stream"),
        (None, "/api/stream?schema=suc0002", "/api/stream"),
    ):
        secret = ticket(example, web, body)
        assert refused(web, f"{wrong}{'&' if '?' in wrong else '?'}ticket={secret}")
        assert refused(web, f"{right}?ticket={secret}")


def test_ticket_for_a_foreign_job_is_not_issued(example: ExampleInstallation, web: DemoWeb) -> None:
    bens = example.enqueue({"order_ids": [1]}, user_id="ben")
    for requested in (f'"{bens}"', '"x"'):
        assert ask(web, "POST", "/api/stream-tickets", headers_of(example), f'{{"job_id": {requested}}}')[0] == 404
    for body in ('{"job_id": 7}', '{"tenant": "suc0002"}', "[]", "{"):
        assert ask(web, "POST", "/api/stream-tickets", headers_of(example), body)[0] == 400


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE turno.stream_tickets SET expires_at = clock_timestamp()",
        "UPDATE turno.stream_tickets SET until = 1",
        "UPDATE turno.stream_tickets SET issued_at = -1, tenant = 'suc0002'",
        "DELETE FROM turno.stream_tickets",
    ],
    ids=["expired", "session over", "revoked", "gone"],
)
def test_a_ticket_that_does_not_count_any_more_opens_nothing(
    example: ExampleInstallation, web: DemoWeb, spoil: str
) -> None:
    example.rows("UPDATE turno.tenants SET tokens_valid_from = to_timestamp(0) WHERE slug = 'suc0002'")
    secret = ticket(example, web)
    example.rows(spoil)
    assert refused(web, f"/api/stream?ticket={secret}")
    assert example.rows("SELECT 1 FROM turno.stream_tickets") == []


@pytest.mark.parametrize("secret", ["", "x", "%00", "a" * 300, "%27%20OR%201=1"])
def test_an_invented_ticket_opens_nothing(web: DemoWeb, secret: str) -> None:
    status, problem = ask(web, "GET", f"/api/stream?ticket={secret}", {})
    assert status == problem["status"]
    assert status in {400, 401}


def test_tickets_are_hashed_removed_and_never_logged(example: ExampleInstallation) -> None:
    with web_of(example, TURNO_LOG_LEVEL="DEBUG") as web:
        secrets = [ticket(example, web) for _ in range(3)]
        stored = str(example.rows("SELECT * FROM turno.stream_tickets"))
        example.rows("UPDATE turno.stream_tickets SET expires_at = clock_timestamp()")
        secrets.append(ticket(example, web))
        assert len(example.rows("SELECT 1 FROM turno.stream_tickets")) == 1
        with StreamClient(web.port, f"/api/stream?ticket={secrets[-1]}") as stream:
            stream.first_state()
        assert refused(web, f"/api/stream?ticket={secrets[-1]}")
        # The server logs a request that it refuses itself.
        with StreamClient(web.port, f"/api/stream?ticket={secrets[0]}", {"Transfer-Encoding": "faulty"}) as answer:
            assert answer.status >= 400
        log = web._log
    assert not [secret for secret in secrets if secret in stored or secret in log.read_text()]


def test_with_a_ticket_no_cookie_counts_and_no_site_is_foreign(example: ExampleInstallation, web: DemoWeb) -> None:
    elsewhere = {"Origin": "https://erp.example", "Sec-Fetch-Site": "cross-site"}
    with StreamClient(web.port, f"/api/stream?ticket={ticket(example, web)}", elsewhere) as stream:
        assert (stream.status, stream.first_state()) == (200, [])


def test_stream_without_event_loop_takes_a_thread(service: Service) -> None:
    """flask-sse's way: the blueprint's `messages()`, here over Flask's own test client."""
    ana = service.caller()
    job_id = ana.job()
    answer = ana.app.test_client().get(f"/api/jobs/{job_id}/stream", headers=ana.headers, multithread=True)
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    events: Iterator[Any] = iter(answer.response)
    assert next(events) == b"retry: 2000\n\n"
    first = next(events)
    assert first.startswith(b'event:job\ndata:{"job_id": "' + job_id.encode())
    assert first.endswith(b"event:ready\ndata:{}\n\n")
    service.end(job_id, "completed")
    reply = b"".join(events)
    assert b'"status": "completed"' in reply
    assert reply.endswith(b'event:bye\ndata:{"reason": "job-ended"}\n\n')
    answer.close()


def test_flask_sse_s_own_view_and_its_redis_are_out_of_reach(service: Service) -> None:
    from flask_sse import ServerSentEventsBlueprint  # noqa: PLC0415 - half a second that only this test should pay

    from turno.capabilities.streams.api import Streams, streams  # noqa: PLC0415

    assert isinstance(streams, ServerSentEventsBlueprint)
    views = [getattr(view, "__func__", view) for view in service.app.view_functions.values()]
    assert not [view for view in views if view in (ServerSentEventsBlueprint.stream, Streams.stream)]
    for call in (streams.stream, streams.publish):
        with pytest.raises(NotImplementedError):
            call()
    problem_of(Caller(service.app, "north").get("/api/stream?channel=sse"), 400)
