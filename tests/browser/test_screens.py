"""Every screen, wide, light and English, and narrow, dark and Spanish: accessible, nothing cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext, Page

    from tests.site import Site

LOOKS: dict[str, dict[str, Any]] = {
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "locale": "es-AR"},
    "laptop": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", "locale": "en-US"},
}
LONG = "Compañía Sudamericana de Distribución Mayorista, Importación y Exportación Hnos. Fernández-Etcheverrigaray S.A."
LOCKED_ORDER = 10_310
FILL = """
INSERT INTO customers (id, company_name, tax_condition, country) VALUES ('LONG', '{name}', 'exempt', 'AR');
INSERT INTO orders (id, customer_id, ordered_on) VALUES (1, 'LONG', '2026-11-20'), (2, 'LONG', '2026-11-20');
INSERT INTO order_lines SELECT 1, 1, min(id), 99999999, 9999999.9999 FROM products;
INSERT INTO orders SELECT 1000000 + n, 'LONG', '2026-11-20', 'ARS' FROM generate_series(1, 10000) n;
INSERT INTO order_lines SELECT 1000000 + n, 1, 1, 2, 10 FROM generate_series(1, 10000) n;
INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, max_attempts, status,
                             started_at, finished_at, attempt, read_at)
SELECT 'batch_invoicing', 1, 'cold', 1, '{{}}', '', 'ana', 4, 'completed', now(), now(), 1, now()
FROM generate_series(1, 10000);
INSERT INTO background_job_progress_rows (job_id, done, failed, total) SELECT id, 9990, 10, 10000 FROM background_jobs;
ANALYZE orders, order_lines, background_jobs, background_job_progress_rows
"""
EMPTY = """
DELETE FROM order_lines WHERE order_id < 10 OR order_id > 1000000;
DELETE FROM orders WHERE id < 10 OR id > 1000000;
DELETE FROM customers WHERE id = 'LONG'
"""


@pytest.fixture(scope="module")
def crowded(module_site: Site) -> Iterator[Site]:
    """The longest name, the largest amount, ten thousand orders and as many jobs, one of them with failures."""
    example, tenant = module_site.example, module_site.example.tenants["suc0002"]
    example.reset()
    for statement in FILL.format(name=LONG).split(";\n"):
        example.rows(statement, tenant=tenant)
    job = example.enqueue({"order_ids": [1, 2]}, tenant=tenant)
    example.start_worker(job).wait(60)
    yield module_site
    example.reset()
    for statement in EMPTY.split(";\n"):
        example.rows(statement, tenant=tenant)


# Elements beyond the window's edge, where the page can be scrolled sideways.
TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > room);
  return wide.map((one) => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 40)}`);
}"""


def assert_fit_for_everybody(page: Page, name: str) -> None:
    result = Axe().run(page)
    assert result.violations_count == 0, f"{name}: {result.generate_report()}"
    assert page.evaluate(TOO_WIDE) == [], f"{name} is too wide"


def assert_small(context: BrowserContext, address: str) -> None:
    """The first view of a page has at most 100 kB, with everything that it loads."""
    page = context.new_page()
    page.goto(address, wait_until="load")
    expect(page.locator("#show-keys")).to_be_visible()
    weight = page.evaluate("performance.getEntries().reduce((sum, one) => sum + (one.transferSize ?? 0), 0)")
    assert weight <= 100_000, f"{address}: {weight}"
    page.close()


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_every_screen_is_accessible(crowded: Site, look: dict[str, Any]) -> None:
    with crowded.browser.new_context(**look) as context:
        page = context.new_page()
        page.goto(crowded.url)
        assert_fit_for_everybody(page, "the sign-in")
        page.fill("#token", "no token")
        with page.expect_navigation():
            page.locator("#token").press("Enter")
        expect(page.locator(".notice")).to_be_visible()
        assert_fit_for_everybody(page, "the refused sign-in")
    with crowded.visitor("ana", "suc0001", "suc0002", "suc0003", **look) as page:
        expect(page.locator("#link")).not_to_be_empty()
        assert_fit_for_everybody(page, "the page with orders and no job")
        page.goto(f"{crowded.url}/?branch=suc0002")
        expect(page.locator("#jobs article").first).to_be_visible()
        assert_fit_for_everybody(page, "the page with ten thousand of everything")
        page.locator("input[name=order]").first.check()
        with page.expect_navigation():
            page.locator("#jobs a").first.click()
        expect(page.locator("#items tbody")).to_be_visible()
        assert_fit_for_everybody(page, "a job with failures")
        with page.expect_navigation():
            page.locator(".tabs a").last.click()
        expect(page.locator(".tabs a").last).to_have_attribute("aria-current", "page")
        assert_fit_for_everybody(page, "a job's invoices")
        with page.expect_navigation():
            page.locator("#bell").click()
        expect(page.locator(".told li")).to_have_count(30)  # a page of them
        assert_fit_for_everybody(page, "the notifications")
        page.goto(f"{crowded.url}/notifications?branch=suc0003")
        assert_fit_for_everybody(page, "no notifications")
        page.goto(f"{crowded.url}/?branch=suc0003&q=nothing&show=failed")
        assert_fit_for_everybody(page, "nothing found")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert_fit_for_everybody(page, "the keys")
        for path in ("import", "reports", "authorisations", "schedules", "templates"):
            page.goto(f"{crowded.url}/{path}?branch=suc0003")
            page.locator("main summary").evaluate_all("all => all.forEach((one) => one.click())")
            assert_fit_for_everybody(page, path)
        page.goto(f"{crowded.url}/jobs/x?branch=suc0003")
        assert_fit_for_everybody(page, "a problem")


def test_running_batch_is_accessible(crowded: Site) -> None:
    for look in ("phone", "laptop"):
        with crowded.visitor("ben", "suc0001", **LOOKS[look]) as page, crowded.holding(LOCKED_ORDER):
            page.locator("#choice button.main").click()
            expect(page.locator("#batches [aria-valuenow='50']")).to_be_visible()
            assert_fit_for_everybody(page, "a running batch")
            page.locator("#batches").get_by_role("button").click()
            expect(page.locator("#batches .cancelling")).to_be_visible()
            assert_fit_for_everybody(page, "a batch that is being cancelled")
        # Released, the job commits its progress before it ends.
        assert wait_until(lambda: not crowded.example.rows("SELECT job_id FROM turno.tickets"), within=20)
        crowded.example.rows("DELETE FROM invoice_lines")
        crowded.example.rows("DELETE FROM invoices")


def test_ten_thousand_orders_are_a_page_at_a_time_and_quick(crowded: Site) -> None:
    with crowded.visitor("ana", "suc0002") as page:
        expect(page.locator(".sum")).to_contain_text("10,201 orders")
        expect(page.locator("#choice tbody tr")).to_have_count(25)
        page.get_by_role("link", name="Next page").click()
        expect(page.locator("#choice tbody tr")).to_have_count(25)
        for path in ("", "notifications", "import", "schedules"):
            with crowded.browser.new_context(locale="en-US", storage_state=page.context.storage_state()) as fresh:
                assert_small(fresh, f"{crowded.url}/{path}?branch=suc0002")
