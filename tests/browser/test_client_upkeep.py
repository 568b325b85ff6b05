"""Memory and requests of turno-client.js: it may be closed and started, and requests only followed jobs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.site import Site

# `counts` counts the requests by path.
USE = """
async (base) => {
  const { Turno } = await import(`${base}/static/turno-client.js`);
  globalThis.counts = {};
  class Counting extends Turno {
    ask(method, path, more) {
      counts[path] = (counts[path] ?? 0) + 1;
      return super.ask(method, path, more);
    }
  }
  globalThis.turno = new Counting({ schema: 'suc0001', session: 'ana' });
  globalThis.received = [];
  globalThis.follow = (id) => turno.follow(id, (job) => received.push([job.job_id, job.status]));
}
"""
IDLE = "/api/notifications?limit=1"  # the request while no job is followed


@pytest.fixture
def jobs(site: Site) -> list[str]:
    return [str(site.example.enqueue({"order_ids": [order]})) for order in (10248, 10249)]


def blank(page: Page, site: Site) -> None:
    """Go to a page of this origin that does not load the library, and start the library in it."""
    page.goto(f"{site.url}/docs")
    page.evaluate(USE, site.url)


@contextmanager
def page_of(site: Site) -> Iterator[Page]:
    with site.visitor("ana", "suc0001", bypass_csp=True) as page:
        blank(page, site)
        yield page


def requested(page: Page, job: str) -> int:
    return int(page.evaluate("(id) => counts[`/api/jobs/${id}`] ?? 0", job))


def wait_for(page: Page, expression: str, argument: Any = None) -> None:
    page.wait_for_function(f"([one]) => {expression}", arg=[argument])


def test_closed_client_restarts_and_follows_the_same_jobs(site: Site, jobs: list[str]) -> None:
    with page_of(site) as page:
        page.evaluate("follow", jobs[0])
        wait_for(page, "turno.connection === 'live'")
        page.evaluate("() => { turno.close(); turno.close(); }")
        assert page.evaluate("turno.connection") == "connecting"
        assert page.evaluate("[turno._source.opened, turno._source.streaming]") == [False, False]
        page.evaluate("() => { turno.start(); turno.start(); }")
        wait_for(page, "turno.connection === 'live'")
        site.example.start_worker(site.example.find_job(jobs[0])["id"]).wait(60)  # type: ignore[arg-type]
        wait_for(page, "received.some(([id, status]) => id === one && status === 'completed')", jobs[0])


def test_a_closed_tab_gives_the_stream_to_another(site: Site) -> None:
    with page_of(site) as first:
        second = first.context.new_page()
        blank(second, site)
        first.evaluate("turno.start()")
        wait_for(first, "turno.connection === 'live'")
        second.evaluate("turno.start()")
        wait_for(second, "turno.connection === 'live'")
        assert second.evaluate("turno._source.opened") is False
        first.evaluate("turno.close()")
        wait_for(second, "turno._source.streaming")
        first.evaluate("turno.start()")
        wait_for(first, "turno.connection === 'live'")
        assert first.evaluate("turno._source.opened") is False


def test_unfollowed_jobs_are_not_polled(site: Site, jobs: list[str]) -> None:
    with page_of(site) as page:
        page.context.route("**/api/stream?**", lambda route: route.abort())
        page.evaluate("(id) => { globalThis.stops = [follow(id), follow(id)]; }", jobs[0])
        wait_for(page, "counts[`/api/jobs/${one}`] > 1", jobs[0])
        page.evaluate("() => { stops[0](); stops[0](); }")
        before = requested(page, jobs[0])
        wait_for(page, f"counts[`/api/jobs/${{one}}`] > {before}", jobs[0])  # the second follower remains
        page.evaluate("stops[1]()")
        page.evaluate("() => { turno._source.pollEvery = 50; turno._source._pollIn(50); }")
        wait_for(page, f"counts['{IDLE}'] > 0")
        before = requested(page, jobs[0])
        wait_for(page, f"counts['{IDLE}'] > 2")
        assert requested(page, jobs[0]) == before
        assert page.evaluate("[turno._open.size, turno._followed.size, turno._source.etags.size]") == [0, 0, 0]


def test_leading_tab_polls_jobs_of_other_tabs(site: Site, jobs: list[str]) -> None:
    with page_of(site) as first:
        first.context.route("**/api/stream?**", lambda route: route.abort())
        second = first.context.new_page()
        blank(second, site)
        first.evaluate("(id) => { globalThis.stop = follow(id); }", jobs[0])
        wait_for(first, "turno._source.opened")
        second.evaluate("([one, two]) => { globalThis.stops = [follow(one), follow(two)]; }", jobs)
        wait_for(first, "counts[`/api/jobs/${one}`] > 0", jobs[1])
        first.evaluate("stop()")
        wait_for(first, "turno._open.size === 2 && turno._open.has(one)", jobs[0])  # for the second tab's sake
        second.evaluate("stops[0]()")
        wait_for(first, "turno._open.size === 1 && !turno._open.has(one)", jobs[0])
        second.evaluate("turno.close()")
        wait_for(first, "turno._open.size === 0")
        second.evaluate("turno.start()")
        wait_for(first, "turno._open.has(one)", jobs[1])
        second.close()
        first.evaluate("turno._recount()")  # as it does each minute
        wait_for(first, "turno._open.size === 0")


def test_ended_and_announced_jobs_are_forgotten(site: Site, jobs: list[str]) -> None:
    with page_of(site) as page:
        page.context.route("**/api/stream?**", lambda route: route.abort())
        page.evaluate("follow", jobs[0])
        wait_for(page, "turno._source.etags.size === 1")
        site.example.start_worker(site.example.find_job(jobs[0])["id"]).wait(60)  # type: ignore[arg-type]
        wait_for(page, "received.some(([, status]) => status === 'completed')")
        assert page.evaluate("[turno._open.size, turno._followed.size, turno._source.etags.size]") == [0, 0, 0]
        page.evaluate("""() => {
          for (let n = 0; n < 2000; n += 1) {
            turno._takeNotification({ id: `${n}`, read_at: null });
            turno._takeJob({ job_id: `${n}`, revision: 1, label: 'done', status: 'completed' });
          }
        }""")
        assert page.evaluate("[turno._reported.size, turno._jobs.size]") == [500, 500]
