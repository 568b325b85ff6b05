"""turno-client.js in an application's page: one stream for all tabs, from this origin and from another."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

LOCKED_ORDER = 10_310

# A page that uses the library, and gathers the states in `received`.
USE = """
async ([base, schema, token]) => {
  const { Turno } = await import(`${base}/static/turno-client.js`);
  globalThis.received = [];
  globalThis.turno = new Turno({ base, schema, session: 'ana', token: token ? () => token : undefined });
  globalThis.connection = turno.connection;
  turno.addEventListener('connection', (event) => (globalThis.connection = event.detail));
  globalThis.note = (job) => received.push([job.revision, job.progress.done, job.status]);
}
"""
SUBMIT = "async ([ids, key]) => (await turno.submit('batch_invoicing', { order_ids: ids }, { key })).job_id"
FOLLOW = "(id) => { turno.follow(id, note); }"
ENDED = "() => received.some(([, , status]) => status === 'completed')"


def use(page: Page, site: Site, token: str = "") -> None:
    page.evaluate(USE, [site.url, "suc0001", token])


def assert_in_order(received: list[list[Any]]) -> None:
    revisions = [revision for revision, *_ in received]
    done = [count for _, count, _ in received]
    assert revisions == sorted(revisions)
    assert done == sorted(done)
    assert received[-1][1:] == [500, "completed"]


def streams_opened(page: Page) -> list[str]:
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if "/api/stream?" in request.url else None)
    return opened


def blank(page: Page, site: Site) -> Page:
    """Go to a page of this origin that does not load the library."""
    page.goto(f"{site.url}/docs")
    return page


@pytest.fixture
def orders(site: Site) -> list[int]:
    return site.example.order_ids()


def test_two_tabs_share_one_stream_and_hear_everything_in_order(site: Site, orders: list[int]) -> None:
    with site.visitor("ana", "suc0001", bypass_csp=True) as first:
        second = blank(first.context.new_page(), site)
        blank(first, site)
        opened = [streams_opened(first), streams_opened(second)]
        use(first, site)
        with site.holding(LOCKED_ORDER):
            job = first.evaluate(SUBMIT, [orders, "k1"])
            assert first.evaluate(SUBMIT, [orders, "k1"]) == job
            first.evaluate(FOLLOW, job)
            first.wait_for_function("() => connection === 'live'")
            use(second, site)
            second.evaluate(FOLLOW, job)
            second.wait_for_function("() => received.length > 0")
        for page in (first, second):
            page.wait_for_function(ENDED)
            assert_in_order(page.evaluate("received"))
        assert opened[0]
        assert not opened[1]

        # The tab that read the stream is closed: the second tab takes over.
        first.close()
        second.wait_for_function("() => turno._source.streaming")
        assert opened[1]


def test_refusal_is_a_problem_with_a_reason(site: Site) -> None:
    with site.visitor("ana", "suc0001", bypass_csp=True) as page:
        blank(page, site)
        use(page, site)
        say = "({ name, status, problem }) => [name, status, problem.type]"
        problem = page.evaluate(f"() => turno.submit('batch_invoicing', {{}}).catch({say})")
        assert problem == ["TurnoProblem", 400, "/docs#invalid-request"]


def test_polling_sends_etags_and_returns_to_the_stream(site: Site, orders: list[int]) -> None:
    with site.visitor("ana", "suc0001", bypass_csp=True) as page:
        blank(page, site)
        page.route("**/api/stream?**", lambda route: route.abort())
        requested: list[str | None] = []
        page.on(
            "request",
            lambda request: requested.append(request.headers.get("if-none-match")) if request.method == "GET" else None,
        )
        use(page, site)
        with site.holding(LOCKED_ORDER):
            job = page.evaluate(SUBMIT, [orders, "k2"])
            page.evaluate(FOLLOW, job)
            page.wait_for_function("() => turno.connection === 'polling'")
            with page.expect_response(lambda response: response.url.endswith(job) and response.status == 304):
                pass
            page.unroute("**/api/stream?**")
            page.wait_for_function("() => turno.connection === 'live'")
        page.wait_for_function(ENDED)
        assert_in_order(page.evaluate("received"))
        assert any(requested)


def test_lost_stream_resumes_with_missed_events(site: Site, orders: list[int]) -> None:
    with site.visitor("ana", "suc0001", bypass_csp=True) as page:
        blank(page, site)
        use(page, site)
        with site.holding(LOCKED_ORDER):
            job = page.evaluate(SUBMIT, [orders, "k3"])
            page.evaluate(FOLLOW, job)
            page.wait_for_function("() => received.some(([, done]) => done === 50)")
            page.context.set_offline(True)
            page.wait_for_function("() => turno.connection === 'offline'")
        (row,) = site.example.rows("SELECT count(*) AS n FROM background_jobs")
        assert row["n"] == 1
        page.context.set_offline(False)
        page.wait_for_function(ENDED)
        page.wait_for_function("() => turno.connection === 'live'")
        assert_in_order(page.evaluate("received"))


def test_expired_session_is_reported(site: Site) -> None:
    with site.visitor("ana", "suc0001", bypass_csp=True) as page:
        blank(page, site)
        use(page, site)
        page.context.clear_cookies()
        page.evaluate("turno.start()")
        page.wait_for_function("() => turno.connection === 'signed-out'")


class Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>An ERP</title>")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def another_origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def erp(site: Site, tmp_path: Path) -> Iterator[tuple[str, Site]]:
    """A page of another origin that a second web of the same installation allows."""
    with another_origin() as origin:
        port = free_port()
        environment = site.example.environment | {
            "TURNO_WEB_BIND": f"127.0.0.1:{port}",
            "TURNO_ALLOWED_ORIGINS": origin,
        }
        web = DemoWeb(port=port, environment=environment, log=tmp_path / "web.log")
        web.start()
        yield origin, Site(site.example, web, site.browser)
        web.stop()


def test_a_page_of_another_origin_uses_tickets(erp: tuple[str, Site], orders: list[int]) -> None:
    origin, site = erp
    with site.browser.new_context() as context:
        page = site.opened(context)
        page.goto(origin)
        opened = streams_opened(page)
        use(page, site, site.token("ana", "suc0001"))
        job = page.evaluate(SUBMIT, [orders, "k4"])
        page.evaluate(FOLLOW, job)
        page.wait_for_function(ENDED)
        assert_in_order(page.evaluate("received"))
        page.wait_for_function("() => turno.connection === 'live'")
        assert all("ticket=" in url and "ey" not in url.split("ticket=")[0] for url in opened)
        assert site.token("ana", "suc0001")[:20] not in "".join(opened)


def test_page_of_a_refused_origin_receives_nothing(site: Site) -> None:
    with another_origin() as origin, site.browser.new_context() as context:
        page = site.opened(context)
        page.goto(origin)
        use(page, site, site.token("ana", "suc0001"))
        refused = page.evaluate("() => turno.ask('GET', '/api/jobs').then(() => 'answered', (error) => error.name)")
        assert refused == "TypeError"
        expect(page).to_have_title("An ERP")
