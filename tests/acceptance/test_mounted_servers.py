"""An application with Turno mounted in it, under servers of WSGI and ASGI and by `turno serve`: login, pages, API,
streams."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from cli.servers.free_port import free_port
from tests.acceptance.turno_process import bare_environment
from tests.greetings import valid_body
from tests.mounting_host import MOUNTED
from tests.stream_client import StreamClient
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

AT = MOUNTED["url_prefix"]
THREADS = 4
GUNICORN = ["gunicorn", "--worker-class=gthread", f"--threads={THREADS}", "--graceful-timeout=1", "--no-control-socket"]
ASGI_HOST = "tests.mounting_asgi_host:app"
SERVERS = {
    "gunicorn": [*GUNICORN, "--bind=127.0.0.1:{port}", "tests.mounting_host:create_app()"],
    "serve": ["turno.commands.main", "serve"],
    "uvicorn": ["uvicorn", "--port={port}", ASGI_HOST],
    "django": ["uvicorn", "--port={port}", "tests.mounting_django_host:asgi"],
    "django by gunicorn": [*GUNICORN, "--bind=127.0.0.1:{port}", "tests.mounting_django_host:wsgi"],
    "hypercorn": ["hypercorn", "--bind=127.0.0.1:{port}", ASGI_HOST],
}


class Visitor:
    """A user with a browser's cookie, over a real connection."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process
        self.headers = {"Sec-Fetch-Site": "same-origin", "X-Schema": "suc0001"}

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, self.headers | ({"Content-Type": kind} if body else {}))
            answer = connection.getresponse()
            if cookie := answer.headers["Set-Cookie"]:
                self.headers["Cookie"] = cookie.partition(";")[0]
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def sign_in(self, user: str) -> None:
        form = urlencode({"user": user, "branch": "suc0001"})
        assert self.ask("POST", "/login", form, "application/x-www-form-urlencoded") == (200, "welcome")

    def submit(self) -> str:
        status, text = self.ask("POST", f"{AT}/api/jobs/greetings", json.dumps(valid_body()))
        assert status == 202, text
        return str(json.loads(text)["job_id"])

    def stream(self) -> StreamClient:
        return StreamClient(self.port, f"{AT}/api/stream?schema=suc0001", self.headers)


@contextmanager
def served_by(server: str, example: ExampleInstallation) -> Iterator[Visitor]:
    port = free_port()
    log = example.folder / f"{server}-{port}.log"
    environment = bare_environment() | example.environment | {
        "TURNO_HANDLERS": "tests.greetings:build_registry", "QUEUE_BACKEND": "pool", "TURNO_JWT_KEY": "",
        "TURNO_DOTENV": "read", "TURNO_WEB_APP": "tests.mounting_host:create_app",
        "TURNO_WEB_THREADS": str(THREADS), "TURNO_WEB_BIND": f"127.0.0.1:{port}",
    }  # fmt: skip
    with log.open("ab") as reply:
        command = [sys.executable, "-m", *(word.format(port=port) for word in SERVERS[server])]
        process = subprocess.Popen(command, env=environment, stdout=reply, stderr=reply, start_new_session=True)
    visitor = Visitor(port, process)

    def ready() -> bool:
        try:
            return process.poll() is not None or visitor.ask("GET", f"{AT}/readyz")[0] == 200
        except OSError:
            return False

    try:
        assert wait_until(ready, within=30), log.read_text()
        assert process.poll() is None, log.read_text()
        yield visitor
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("server", [*list(SERVERS)[:-1], pytest.param("hypercorn", marks=pytest.mark.deep)])
def test_the_host_s_users_submit_look_and_follow(module_example: ExampleInstallation, server: str) -> None:
    with served_by(server, module_example) as visitor:
        assert visitor.ask("POST", f"{AT}/api/jobs/greetings", json.dumps(valid_body()))[0] == 401
        visitor.sign_in(f"ana by {server}")
        job = visitor.submit()
        assert job in visitor.ask("GET", f"{AT}/")[1]
        with visitor.stream() as stream:
            reply = stream.until("job", lambda state: state["job_id"] == job)
            assert (reply["label"], reply["links"]["self"]) == ("waiting", f"{AT}/api/jobs/{job}")
            stream.until("ready")
            assert visitor.ask("POST", f"{AT}/api/jobs/{job}/cancel")[0] == 200
            assert stream.until("job", lambda state: state["status"] == "cancelled")["job_id"] == job
        assert visitor.ask("GET", "/nowhere") == (404, "the ERP knows no such page")


@pytest.mark.parametrize("server", ["uvicorn", "django"])
def test_a_stopped_asgi_server_ends_its_streams(module_example: ExampleInstallation, server: str) -> None:
    with served_by(server, module_example) as visitor:
        visitor.sign_in("cleo")
        assert visitor.ask("POST", f"{AT}/api/jobs/greetings", b" " * 1_100_000)[0] == 413
        assert visitor.ask("GET", f"{AT}/api/jobs/{visitor.submit()}?wait=1")[0] == 200
        with visitor.stream() as stream:
            stream.until("ready")
            visitor.process.terminate()
            assert stream.until("bye", within=6) == {"reason": "shutting-down"}
        visitor.process.wait(60)


def test_gunicorn_streams_leave_half_of_the_threads(module_example: ExampleInstallation) -> None:
    with served_by("gunicorn", module_example) as visitor, ExitStack() as open_streams:
        visitor.sign_in("bob")
        for _ in range(THREADS // 2):
            stream = open_streams.enter_context(visitor.stream())
            stream.until("ready")
        with visitor.stream() as refused:
            assert refused.status == 503
            assert refused.headers["retry-after"].isdecimal()
        assert visitor.ask("GET", "/invoices")[0] == 200
        visitor.submit()
        assert stream.until("job")["type"] == "greetings"
