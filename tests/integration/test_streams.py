"""Live streams over the real server: what a user sees, when, and nothing of anybody else's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.jobs.changes import Changes
from app.store import changes
from cli.demo_web import DemoWeb
from cli.development_token import development_token
from cli.embedded_postgres import free_port
from tests.stream_client import StreamClient
from tests.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tenants.tenant import Tenant


@contextmanager
def web_of(world: World, **extra: str) -> Iterator[DemoWeb]:
    port = free_port()
    environment = world.environment | {"WEB_BIND": f"127.0.0.1:{port}", "WEB_STREAMS": "60"} | extra
    web = DemoWeb(port=port, environment=environment, log=world.folder / f"web-{port}.log")
    web.start()
    try:
        yield web
    finally:
        web.stop()


@pytest.fixture(scope="module")
def web(module_world: World) -> Iterator[DemoWeb]:
    with web_of(module_world) as running:
        yield running


def headers_of(world: World, user: str = "ana", tenant: str = "suc0001", **options: Any) -> dict[str, str]:
    token = development_token(world.settings, user=user, tenants=[tenant], **options)
    return {"Authorization": f"Bearer {token}", "X-Schema": tenant}


def hint(world: World, job_id: UUID, tenant: Tenant | None = None) -> None:
    gathered = Changes()
    gathered.add((tenant or world.one).id, job_id)
    changes.announce(world.web, gathered.take())


def move(world: World, job_id: UUID, done: int, tenant: Tenant | None = None, message: str = "") -> None:
    """Let a job show progress, and hint at it as its supervisor would."""
    world.rows(
        "INSERT INTO background_job_progress AS p (job_id, done, total, message) VALUES (%s, %s, 100, %s)"
        " ON CONFLICT (job_id) DO UPDATE SET done = excluded.done, message = excluded.message,"
        " revision = p.revision + 1",
        job_id, done, message, tenant=tenant,
    )  # fmt: skip
    hint(world, job_id, tenant)


def end(world: World, job_id: UUID, tenant: Tenant | None = None) -> None:
    """Let a job end as its worker would have it."""
    world.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id,
               tenant=tenant)  # fmt: skip
    world.rows("SELECT job_end(%s, 'completed', NULL, '{}', NULL)", job_id, tenant=tenant)
    hint(world, job_id, tenant)


def test_a_job_is_followed_from_its_first_state_to_its_end(world: World, web: DemoWeb) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(world)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "server" not in stream.headers
        [(kind, first)] = stream.first_state()
        assert (kind, first["job_id"], first["status"]) == ("job", str(job_id), "pending")
        assert stream.retry == 2000
        move(world, job_id, 40)
        moved = stream.until("job")
        assert (moved["progress"]["done"], moved["revision"]) == (40, first["revision"] + 1)
        end(world, job_id)
        last = stream.until("job", lambda job: job["status"] == "completed")
        assert last["revision"] > moved["revision"]
        assert stream.rest() == [("bye", {"reason": "job-ended"})]
