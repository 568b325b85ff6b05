"""An operator at another user's job, in a real browser: a live label means a live connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from uuid import UUID

    from playwright.sync_api import Page

    from tests.site import Site

LIVE, POLLING = "Live", "Updated every few seconds"


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=30_000)


def work(site: Site, job: UUID) -> None:
    site.example.start_worker(job).wait(60)


def link_is(page: Page, text: str) -> None:
    expect(page.locator("#link")).to_have_text(text)


def test_operator_pages_follow_jobs_of_all_users(site: Site) -> None:
    job = site.example.enqueue({"order_ids": [10248, 1]}, user_id="ben")
    with site.visitor("eva", "suc0001", operator=True) as home:
        own = home.context.new_page()
        own.goto(f"{site.url}/jobs/{job}?branch=suc0001")
        for page in (home, own):
            expect(page.locator("article.job .state")).to_have_text("Waiting")
            link_is(page, LIVE)
        expect(home.locator("#jobs .when")).to_contain_text("By ben")
        work(site, job)
        for page in (home, own):
            expect(page.locator("article.job .state")).to_have_text("Done, 1 failed")
            expect(page.locator("article.job .count")).to_have_text("1 of 2")
            link_is(page, LIVE)
        later = site.example.enqueue({"order_ids": [10249]}, user_id="carla")
        expect(home.locator(f"#row-{later} .when")).to_contain_text("By carla")


# An operator's own page with the library: it follows jobs outside its user's stream.
USE = """
async ([base, jobs]) => {
  const { Turno } = await import(`${base}/static/turno-client.js`);
  globalThis.turno = new Turno({ base, schema: 'suc0001', session: 'eva' });
  globalThis.received = [];
  globalThis.connections = [];
  turno.addEventListener('connection', (event) => connections.push(event.detail));
  globalThis.stops = jobs.map((id) => turno.follow(id, (job) => received.push([id, job.status])));
}
"""


def test_unstreamed_job_is_polled_and_not_called_live(site: Site) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    first, later = (site.example.enqueue({"order_ids": [10248]}, user_id="ben", run_at=at) for at in (None, tomorrow))
    jobs = [str(first), str(later)]
    with site.visitor("eva", "suc0001", operator=True, bypass_csp=True) as page:
        page.goto(f"{site.url}/docs")
        page.evaluate(USE, [site.url, jobs])
        page.wait_for_function("() => turno._source.streaming && turno.connection === 'polling'")
        work(site, first)
        page.wait_for_function(
            "([id]) => received.some(([one, status]) => one === id && status === 'completed')", arg=jobs
        )
        assert set(page.evaluate("connections")) == {"polling"}
        # The second job is not followed any more, so all followed jobs are live.
        page.evaluate("stops[1]()")
        page.wait_for_function("() => turno.connection === 'live'")
