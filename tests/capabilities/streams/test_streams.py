"""Live streams over the real server: a user sees their own changes in time, and no other user's."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack, contextmanager
from time import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import jwt
import pytest

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.api import in_an_hour
from tests.installation import ExampleInstallation
from tests.stream_client import StreamClient
from turno.commands.token import development_token
from turno.store.changes import Changes
from turno.store.engine.engine import Engine
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.tenancy.identity.tenant import Tenant


@contextmanager
def web_of(example: ExampleInstallation, **extra: str) -> Iterator[DemoWeb]:
    port = free_port()
    environment = example.environment | {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_LIMITS": "streams=120"} | extra
    web = DemoWeb(port=port, environment=environment, log=example.folder / f"web-{port}.log")
    web.start()
    try:
        yield web
    finally:
        web.stop()


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation) -> Iterator[DemoWeb]:
    with web_of(module_example) as running:
        yield running


def headers_of(
    example: ExampleInstallation, user: str = "ana", tenant: str = "suc0001", **options: Any
) -> dict[str, str]:
    token = development_token(example.settings, user=user, tenants=[tenant], **options)
    return {"Authorization": f"Bearer {token}", "X-Schema": tenant}


def ask(web: DemoWeb, method: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, Any]:
    """One request; its status and its JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    try:
        connection.request(method, path, body, headers | ({"Content-Type": "application/json"} if body else {}))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def opens(web: DemoWeb, path: str, headers: dict[str, str]) -> bool:
    with StreamClient(web.port, path, headers) as stream:
        return stream.status == 200


def hint(example: ExampleInstallation, job_id: UUID, tenant: Tenant | None = None) -> None:
    gathered = Changes()
    gathered.add((tenant or example.one).id, job_id)
    Engine.on(example.web).announce_changes(gathered.take())


def move(
    example: ExampleInstallation, job_id: UUID, done: int, tenant: Tenant | None = None, message: str = ""
) -> None:
    """Let a job show progress, and hint at it as its supervisor would."""
    example.rows(
        "INSERT INTO background_job_progress_rows AS p (job_id, done, total, message) VALUES (%s, %s, 100, %s)"
        " ON CONFLICT (job_id) DO UPDATE SET done = excluded.done, message = excluded.message,"
        " revision = p.revision + 1",
        job_id, done, message, tenant=tenant,
    )  # fmt: skip
    hint(example, job_id, tenant)


def end(example: ExampleInstallation, job_id: UUID, tenant: Tenant | None = None) -> None:
    """Let a job end as its worker would have it."""
    example.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id,
                 tenant=tenant)  # fmt: skip
    example.rows("SELECT job_end(%s, 'completed', NULL, '{}', NULL)", job_id, tenant=tenant)
    hint(example, job_id, tenant)


def test_a_job_is_followed_from_its_first_state_to_its_end(example: ExampleInstallation, web: DemoWeb) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "server" not in stream.headers
        [(kind, first)] = stream.first_state()
        assert (kind, first["job_id"], first["status"]) == ("job", str(job_id), "pending")
        assert stream.retry == 2000
        move(example, job_id, 40)
        moved = stream.until("job")
        assert (moved["progress"]["done"], moved["revision"]) == (40, first["revision"] + 1)
        end(example, job_id)
        last = stream.until("job", lambda job: job["status"] == "completed")
        assert last["revision"] > moved["revision"]
        assert stream.remaining_events() == [("bye", {"reason": "job-ended"})]


def test_everything_of_a_user_is_on_one_stream(example: ExampleInstallation, web: DemoWeb) -> None:
    waiting, ended, later = (example.enqueue({"order_ids": [number]}) for number in (1, 2, 3))
    end(example, ended)
    example.enqueue({"order_ids": [4]}, user_id="ben")
    with StreamClient(web.port, "/api/stream", headers_of(example)) as stream:
        first = stream.first_state()
        jobs = {body["job_id"]: body["status"] for kind, body in first if kind == "job"}
        assert jobs == {str(waiting): "pending", str(ended): "completed", str(later): "pending"}
        [reply] = [body for kind, body in first if kind == "notification"]
        assert (reply["job_id"], reply["read_at"]) == (str(ended), None)
        end(example, waiting)
        assert stream.until("job", lambda job: job["job_id"] == str(waiting) and job["status"] == "completed")
        assert stream.until("notification")["job_id"] == str(waiting)
        born = example.enqueue({"order_ids": [5]})
        hint(example, born)
        assert stream.until("job", lambda job: job["job_id"] == str(born))


def test_only_an_operator_streams_jobs_of_all_users(example: ExampleInstallation, web: DemoWeb) -> None:
    job_id = example.enqueue({"order_ids": [1]}, user_id="ben")
    for path in ("/api/stream?user=*", "/api/stream?user=*&schema=suc0001"):
        with StreamClient(web.port, path, headers_of(example)) as stream:
            assert stream.status == 403
    with StreamClient(web.port, "/api/stream?user=ben", headers_of(example, role="operator")) as stream:
        assert stream.status == 400
    with StreamClient(web.port, "/api/stream?user=*", headers_of(example, role="operator")) as stream:
        first = stream.until("job")
        assert (first["job_id"], first["user"]) == (str(job_id), "ben")
        assert stream.until("ready") == {"unread": 0}
        end(example, job_id)
        assert stream.until("job")["status"] == "completed"


def test_notification_read_in_one_tab_reaches_all_tabs(example: ExampleInstallation, web: DemoWeb) -> None:
    ended = example.enqueue({"order_ids": [1]})
    end(example, ended)
    with StreamClient(web.port, "/api/stream", headers_of(example)) as stream:
        [reply] = [body for kind, body in stream.first_state() if kind == "notification"]
        # Found by a look, which has then also seen the ended job: from here on only a hint can announce it.
        unhinted = example.enqueue({"order_ids": [2]})
        stream.until("job", lambda job: job["job_id"] == str(unhinted))
        status, _ = ask(web, "PATCH", reply["links"]["read"], headers_of(example))
        assert status == 200
        again = stream.until("notification")
        assert again["read_at"] is not None
        assert again | {"read_at": None} == reply


def test_an_event_is_the_very_json_of_the_job(example: ExampleInstallation, web: DemoWeb) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as stream:
        [(_, streamed)] = stream.first_state()
    with StreamClient(web.port, f"/api/jobs/{job_id}", headers_of(example) | {"Connection": "close"}) as requested:
        assert json.loads(requested.body()) == streamed


def test_change_by_command_is_shown_without_a_look(example: ExampleInstallation, web: DemoWeb) -> None:
    """Submitted and cancelled over HTTP: the web itself hints at it."""
    with StreamClient(web.port, "/api/stream", headers_of(example)) as stream:
        stream.first_state()
        body = json.dumps({"payload": {"order_ids": example.order_ids()[:1]}, "run_at": in_an_hour()})
        status, accepted = ask(web, "POST", "/api/jobs/batch_invoicing", headers_of(example), body)
        assert status == 202
        shown = stream.until("job", lambda job: job["job_id"] == accepted["job_id"])
        assert shown["label"] == "scheduled"
        assert ask(web, "POST", f"/api/jobs/{accepted['job_id']}/cancel", headers_of(example))[0] == 200
        assert stream.until("job", lambda job: job["status"] == "cancelled")["job_id"] == accepted["job_id"]


def test_line_ends_in_a_message_stay_inside_its_data(example: ExampleInstallation, web: DemoWeb) -> None:
    forged = "1\r\n\r\nevent: bye\ndata: {}\n\n\u2028\u0085\x0b"
    job_id = example.enqueue({"order_ids": [1]})
    with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as stream:
        stream.first_state()
        move(example, job_id, 1, message=forged)
        assert stream.until("job", lambda job: job["progress"]["done"] == 1)["progress"]["message"] == forged


@pytest.mark.parametrize("path", ["/api/stream", "/api/jobs/{}/stream"])
def test_a_head_request_opens_no_stream(example: ExampleInstallation, web: DemoWeb, path: str) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    headers = headers_of(example) | {"Connection": "close"}
    with StreamClient(web.port, path.format(job_id), headers, method="HEAD") as answer:
        assert (answer.status, answer.body()) == (200, b"")


def test_foreign_id_is_unknown_to_streams(example: ExampleInstallation, web: DemoWeb) -> None:
    theirs = example.enqueue({"order_ids": [1]}, tenant=example.other)
    bens = example.enqueue({"order_ids": [1]}, user_id="ben")
    for job_id in (theirs, bens, UUID(int=7), "x"):
        status, problem = ask(web, "GET", f"/api/jobs/{job_id}/stream", headers_of(example))
        assert (status, problem["type"]) == (404, "/docs#not-found")


def test_tenant_in_query_must_be_in_the_token(example: ExampleInstallation, web: DemoWeb) -> None:
    token = {"Authorization": headers_of(example)["Authorization"]}
    with StreamClient(web.port, "/api/stream?schema=suc0001", token) as stream:
        assert (stream.status, stream.first_state()) == (200, [])
    assert ask(web, "GET", "/api/stream", token)[0] == 400
    for slug in ("suc0002", "nobody", "x%27"):
        assert ask(web, "GET", f"/api/stream?schema={slug}", token)[0] == 404
    assert ask(web, "GET", "/api/stream?schema=suc0001&channel=sse", token)[0] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 401),
        ({}, 401),
    ],
)
def test_foreign_site_opens_no_stream_with_any_cookie(web: DemoWeb, headers: dict[str, str], status: int) -> None:
    result, problem = ask(web, "GET", "/api/stream?schema=suc0001", headers | {"Cookie": "turno=x.y.z"})
    assert (result, problem["status"]) == (status, status)


def test_a_stream_ends_with_its_session(example: ExampleInstallation, web: DemoWeb) -> None:
    now = int(time())
    claims = {"iss": "turno", "aud": "turno", "sub": "ana", "tenants": ["suc0001"], "iat": now, "exp": now + 3}
    token = jwt.encode(claims, example.settings.jwt_key)
    with StreamClient(web.port, "/api/stream?schema=suc0001", {"Authorization": f"Bearer {token}"}) as stream:
        assert stream.first_state() == []
        assert stream.remaining_events() == [("bye", {"reason": "session-over"})]


def test_fifty_tabs_are_served_and_the_next_must_wait(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    with (
        web_of(example, TURNO_LIMITS="streams=52,streams_per_tenant=52,streams_per_user=50") as web,
        ExitStack() as stack,
    ):
        tabs = [stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example))) for _ in range(50)]
        with StreamClient(web.port, "/api/stream", headers_of(example)) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        for user in ("ben", "eva"):
            other = stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example, user)))
            assert other.first_state() == []
        with StreamClient(web.port, "/api/stream", headers_of(example, "zoe")) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        move(example, job_id, 30)
        for tab in tabs:
            assert tab.until("job", lambda job: job["progress"]["done"] == 30)
        assert ask(web, "GET", "/healthz", {})[0] == 200
        tabs[0].socket.close()
        assert wait_until(lambda: opens(web, "/api/stream", headers_of(example, "zoe")), within=10)


def test_one_tenant_leaves_half_of_the_streams(example: ExampleInstallation) -> None:
    with web_of(example, TURNO_LIMITS="streams=4") as web, ExitStack() as stack:
        for user in ("ana", "ben"):
            assert stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example, user))).status == 200
        with StreamClient(web.port, "/api/stream", headers_of(example, "eva") | {"Connection": "close"}) as refused:
            assert refused.status == 429
            assert json.loads(refused.body())["detail"].startswith("This tenant has 2 streams open here")
        for user in ("ana", "eva"):
            other = headers_of(example, user, "suc0002")
            assert stack.enter_context(StreamClient(web.port, "/api/stream", other)).status == 200
