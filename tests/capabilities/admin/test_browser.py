"""The operator's pages in a real browser: accessible, by keyboard, live, and quiet while hidden."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from playwright.sync_api import expect

from tests.browser.test_screens import LOOKS, assert_fit_for_everybody, assert_small

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from playwright.sync_api import Page, Request

    from tests.site import Site

FILL = """
INSERT INTO turno.workers (backend, host, pid, types, versions, alive_at) VALUES
    ('pool', 'app-1.a-rather-long-name-of-a-host.example.com', 4711, '{batch_invoicing}', '{1}',
     now() + interval '1 day'),
    ('pool', 'app-2.example', 813, '{batch_invoicing}', '{1}', now() - interval '3 minutes');
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT turno.uuid_v7(), id, 'q' || n % 7, 'a_type_with_quite_a_long_name_' || n % 5, 1, 1,
       now() - interval '9 minutes', 'ready', 'pool' FROM turno.tenants, generate_series(1, 1000) n;
INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, at)
SELECT id, 'batch_invoicing', CASE WHEN n % 9 = 0 THEN 'failed' ELSE 'completed' END, ARRAY[n], ARRAY[n],
       now() - n * interval '0.3 s' FROM turno.tenants, generate_series(1, 10000) n;
INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, died_at)
SELECT turno.uuid_v7(), 1 + n % 3, 'batch_invoicing', 'OperationalError: connection to server number ' || n % 60
       || ' failed, and this goes on for some more words', now() - n * interval '1 s' FROM generate_series(1, 10000) n;
INSERT INTO turno.webhook_addresses (url) VALUES ('https://hooks.a-rather-long-name-of-a-host.example.com/turno');
INSERT INTO turno.webhooks (job_id, tenant_id, url, type, outcome, ended_at, due_at, error)
SELECT turno.uuid_v7(), 1, 'https://shop.example/hook', 'batch_invoicing', 'failed', now(), 'infinity',
       'the address answered 500 ' || n FROM generate_series(1, 3) n;
UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0003'
"""


LEASES = ["sweep", "maintenance", "upkeep"]
LEASED = "INSERT INTO turno.leases SELECT n, 'test', now() FROM unnest(%s::text[]) n ON CONFLICT DO NOTHING"
LOGGED = """
INSERT INTO background_job_logs
SELECT %s, 1, 7 + n, now() + n * interval '1 ms', CASE n %% 9 WHEN 8 THEN 'ERROR' ELSE 'INFO' END, 'shop.billing',
       'order ' || n || ' of a customer with a rather long name was read, and is invoiced now' || repeat('!', n)
FROM generate_series(1, 100) n
"""


def at(site: Site, path: str) -> str:
    return f"{site.url}/admin{path}"


@pytest.fixture(scope="module")
def busy(module_site: Site) -> Iterator[tuple[Site, UUID]]:
    """Ten thousand of everything, a lost worker, a paused tenant, and a batch of which one order failed."""
    example = module_site.example
    example.reset()
    job = example.enqueue({"order_ids": [10248, 1]})
    example.start_worker(job).wait(60)
    for statement in FILL.replace("%", "%%").split(";\n"):
        example.rows(statement)
    example.rows(LOGGED, job)
    # Tickets without a job and silent workers would be repaired by the maintenance of the web.
    example.rows(LEASED, LEASES)
    with psycopg.connect(example.url) as holder:
        holder.execute("SELECT FROM turno.leases WHERE name = ANY (%s) FOR UPDATE", (LEASES,))
        yield module_site, job
    example.reset()
    example.rows("UPDATE turno.tenants SET paused_at = NULL, weight = 1")


SCREENS = {
    "the overview": "",
    "jobs": "/jobs?since=all",
    "jobs of a user": "/jobs?user=ana&status=completed",
    "waiting jobs": "/jobs?status=pending&tenant=suc0001",
    "tenants": "/tenants",
    "no tenant": "/tenants?q=nobody",
    "a tenant": "/tenants/suc0003",
    "queues": "/queues",
    "types": "/types",
    "a type": "/types/batch_invoicing",
    "workers": "/workers",
    "dead letters": "/failures",
    "a look at a replay": "/changes/retry?status=failed&since=1h",
    "charts": "/charts?by=type",
    "the audit": "/audit",
    "webhooks": "/webhooks",
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_every_operator_screen_is_accessible(busy: tuple[Site, UUID], look: dict[str, Any]) -> None:
    site, job = busy
    with site.visitor("eva", operator=True, **look) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda reply: errors.append(reply.text) if reply.type == "error" else None)
        for name, path in (
            SCREENS | {"a job": f"/jobs/suc0001/{job}", "a rerun": f"/jobs/suc0001/{job}/rerun"}
        ).items():
            page.goto(at(site, path))
            expect(page.locator("#show-keys")).to_be_visible()
            assert_fit_for_everybody(page, name)
        assert errors == []


def test_first_view_is_small_and_complete_without_script(busy: tuple[Site, UUID]) -> None:
    site, _ = busy
    with site.visitor("eva", operator=True) as page:
        fresh = site.browser.new_context(locale="en-US", storage_state=page.context.storage_state())
        for path in ("", "/charts", "/failures", "/jobs?since=all"):
            assert_small(fresh, at(site, path))
        fresh.close()
        plain = site.browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
        drawn = plain.new_page()
        drawn.goto(at(site, "/charts"))
        assert drawn.locator("figure.chart").count() == 3
        assert drawn.locator("figure.chart tbody tr").count() == 180
        drawn.goto(at(site, ""))
        assert "3,000" in drawn.locator("#counts").inner_text()
        plain.close()


def test_charts_show_the_values_at_the_pointer(busy: tuple[Site, UUID]) -> None:
    site, _ = busy
    with site.visitor("eva", operator=True) as page:
        for path in ("", "/charts"):
            page.goto(at(site, path))
            figures = page.locator("figure.chart")
            number, now = figures.first.locator("b"), figures.first.locator("b").inner_text()
            assert re.fullmatch(r"[\d.,]+", now)
            figures.first.locator("svg").hover()
            expect(number).to_contain_text("·")
            expect(figures.last.locator("b")).to_contain_text("·")
            page.mouse.move(1, 1)
            expect(number).to_have_text(now)


def test_a_row_is_found_and_opened_by_keyboard(busy: tuple[Site, UUID]) -> None:
    site, _ = busy
    with site.visitor("eva", operator=True) as page:
        page.goto(at(site, "/tenants"))
        page.keyboard.press("/")
        expect(page.locator("#q")).to_be_focused()
        page.keyboard.type("suc0002")
        page.keyboard.press("Enter")
        expect(page.locator("#tenants tbody tr")).to_have_count(1)
        page.locator("#main").focus()
        page.keyboard.press("j")
        expect(page.locator("#tenant-suc0002")).to_be_focused()
        page.keyboard.press("x")
        page.wait_for_url("**/admin/tenants/suc0002")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()


def test_page_is_live_while_visible_and_silent_while_hidden(busy: tuple[Site, UUID]) -> None:
    site, _ = busy
    with site.visitor("eva", operator=True) as page:
        page.clock.install()
        page.goto(at(site, ""))
        site.example.rows("UPDATE turno.tenants SET weight = 42 WHERE slug = 'suc0001'")
        page.locator("#others summary").click()
        page.locator("#tenant-suc0001 a").focus()
        page.clock.run_for(6_000)
        expect(page.locator("#tenant-suc0001")).to_contain_text("42")
        expect(page.locator("#link")).to_contain_text("Live, as of")
        expect(page.locator("#tenant-suc0001 a")).to_be_focused()
        expect(page.locator("#others")).to_have_attribute("open", "")
        requested: list[str] = []

        def note(request: Request) -> None:
            requested.append(request.url)

        page.on("request", note)
        hide(page, hidden=True)
        page.clock.run_for(60_000)
        assert requested == []
        hide(page, hidden=False)
        expect(page.locator("#link")).to_contain_text("Live, as of")
        page.wait_for_function("() => true")
        assert requested, "a visible page requests the present state"


def hide(page: Page, *, hidden: bool) -> None:
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_tenant_is_paused_and_resumed_by_a_press(busy: tuple[Site, UUID]) -> None:
    site, _ = busy
    with site.visitor("eva", operator=True) as page:
        page.goto(at(site, "/tenants/suc0002"))
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#notice")).to_have_text("Set. It counts from now on.")
        expect(page.locator("#tenant")).to_contain_text("Paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#tenant")).not_to_contain_text("Paused")
        page.goto(at(site, "/audit"))
        expect(page.locator("#audit tbody tr").first).to_contain_text("suc0002")
