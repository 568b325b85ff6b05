"""The web stops, dies, or loses its database under open streams; readers come back and have missed nothing."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.capabilities.streams.test_streams import ask, end, headers_of, move, web_of
from tests.stream_client import StreamClient
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation

STREAMS = 30


def at_least(done: int) -> Callable[[Any], bool]:
    return lambda job: bool(job["progress"]["done"] >= done)


def worker_of(web: DemoWeb) -> int:
    assert web._process is not None
    pid = web._process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_sigterm_ends_streams_and_next_process_resumes(
    example: ExampleInstallation,
) -> None:
    job_id = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    with ExitStack() as stack:
        # Streams that nothing ends would be cut off after the grace period.
        with web_of(example, TURNO_SHUTDOWN_GRACE_SECONDS="60") as web:
            opened = [
                stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example))) for _ in range(STREAMS)
            ]
            seen = [stream.first_state() for stream in opened]
            deaf = stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example)))
            assert web._process is not None
            web._process.terminate()
            for stream in opened:
                assert stream.event(within=20) == ("bye", {"reason": "shutting-down"})
                assert stream.remaining_events() == []
                assert stream.retry == 2000
            assert web._process.wait(20) == 0
            del deaf
        # Between two processes nothing listens: returning clients receive the changes of this moment.
        end(example, job_id)
        with web_of(example) as web, StreamClient(web.port, "/api/stream", headers_of(example)) as again:
            reply = again.first_state()
    assert {kind for kind, _ in seen[0]} == {"job"}
    assert [body["status"] for kind, body in reply if kind == "job"] == ["completed"]
    assert [body["job_id"] for kind, body in reply if kind == "notification"] == [str(job_id)]


def test_killed_web_process_loses_no_state_on_reconnect(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    with web_of(example) as web:
        with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as stream:
            [(_, first)] = stream.first_state()
            os.kill(worker_of(web), signal.SIGKILL)
            assert stream.remaining_events() == []
        move(example, job_id, 60)
        with StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as again:
            [(_, now)] = again.first_state()
            assert now["progress"]["done"] == 60
            assert now["revision"] > first["revision"]
            end(example, job_id)
            assert again.until("job", lambda job: job["status"] == "completed")


def test_streams_survive_database_outage_and_catch_up(
    example: ExampleInstallation,
) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    sessions = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'turno-watch'"
    with web_of(example) as web, StreamClient(web.port, f"/api/jobs/{job_id}/stream", headers_of(example)) as stream:
        stream.first_state()
        for number in (1, 2, 3):
            example.rows(sessions)
            move(example, job_id, number)
            assert stream.until("job", at_least(number))
        assert wait_until(lambda: sessions_of_hub(example) == 2, within=20)


def test_clients_that_never_read_are_dropped(example: ExampleInstallation) -> None:
    """Each is owed megabytes: states of jobs with long results. Memory stays, others hear at once."""
    with web_of(example) as web, ExitStack() as stack:
        # Not due: the web's maintenance would have the watched job run.
        later: dict[str, Any] = {"run_at": datetime.now(UTC) + timedelta(hours=1)}
        jobs = [example.enqueue({"order_ids": [number]}, user_id="deaf", **later) for number in range(20)]
        watched = example.enqueue({"order_ids": [1]}, **later)
        for _ in range(20):
            client = stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example, "deaf")))
            assert client.status == 200
        reader = stack.enter_context(StreamClient(web.port, f"/api/jobs/{watched}/stream", headers_of(example)))
        reader.first_state()
        before = resident_kb(web)
        for job_id in jobs:
            example.rows(
                "UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id
            )
            example.rows(
                "SELECT job_end(%s, 'completed', NULL, jsonb_build_object('a', repeat('x', 4000)), NULL)", job_id
            )
        for number in range(1, 30):
            for job_id in jobs:
                move(example, job_id, number)
            move(example, watched, number)
            assert reader.until("job", at_least(number), within=10)
            assert ask(web, "GET", "/healthz", {})[0] == 200
        assert resident_kb(web) - before < 60_000, "of many owed frames, each job is kept once"
        assert wait_until(lambda: open_sockets(web) < 20, within=90, every=0.2)
        move(example, watched, 50)
        assert reader.until("job", lambda job: job["progress"]["done"] == 50)
        assert wait_until(lambda: sessions_of_hub(example) == 2, within=20)


def sessions_of_hub(example: ExampleInstallation) -> int:
    """Count the hub's sessions: a listener and a reader."""
    return len(example.rows("SELECT 1 FROM pg_stat_activity WHERE application_name = 'turno-watch'"))


def resident_kb(web: DemoWeb) -> int:
    lines = Path(f"/proc/{worker_of(web)}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def open_sockets(web: DemoWeb) -> int:
    folder = Path(f"/proc/{worker_of(web)}/fd")
    return sum(str(entry.readlink()).startswith("socket:") for entry in folder.iterdir() if entry.is_symlink())


def test_a_crowd_that_comes_and_goes_leaves_nothing_behind(example: ExampleInstallation) -> None:
    """Readers that hang up at any moment, also before their first byte: streams, descriptors and sessions go."""
    job_id = example.enqueue({"order_ids": [1]})
    with web_of(example) as web:
        with StreamClient(web.port, "/api/stream", headers_of(example)) as stream:
            stream.first_state()
        settled = open_sockets(web)
        errors: list[Any] = []

        def come_and_go() -> None:
            try:
                for _ in range(15):
                    with StreamClient(web.port, "/api/stream", headers_of(example)):
                        pass
            except Exception as error:  # noqa: BLE001 - reported below
                errors.append(error)

        threads = [threading.Thread(target=come_and_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(20):
            move(example, job_id, number)
        for thread in threads:
            thread.join()
        assert errors == []
        # The pool of the requests may have grown to its 16 sessions.
        assert wait_until(lambda: open_sockets(web) <= settled + 16, within=20)
        with ExitStack() as stack:
            for _ in range(60):
                assert stack.enter_context(StreamClient(web.port, "/api/stream", headers_of(example))).status == 200


@pytest.fixture(autouse=True)
def allow_many_streams(example: ExampleInstallation) -> None:
    example.extra["TURNO_LIMITS"] = "streams_per_user=60"
