"""A clerk at the tenant's page, in a real browser: press once, watch, mend, retry, read the totals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

    from tests.site import Site

# The names of the buttons that are filled with the accent colour of links.
FILLED = """buttons => buttons.filter((one) =>
    getComputedStyle(one).backgroundColor === getComputedStyle(document.querySelector("#bell")).color
).map((one) => one.textContent)"""
LOCKED_ORDER = 10_310  # in the second chunk of fifty


def batch(page: Page) -> Locator:
    return page.locator("#batches article").first


def shows(page: Page, state: str, count: str) -> None:
    expect(batch(page).locator(".state")).to_have_text(state)
    expect(batch(page).locator(".count")).to_have_text(count)


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=30_000)


def test_the_whole_story_from_the_sign_in_to_the_totals(site: Site) -> None:
    site.example.rows(
        "INSERT INTO orders (id, customer_id, ordered_on) SELECT 1, id, '2026-01-31' FROM customers LIMIT 1"
    )
    try:
        with site.visitor("ana", "suc0001", "suc0002") as page:
            expect(page.locator(".sum")).to_contain_text("501 orders")
            for order in (1, 10248, 10249):
                page.get_by_label(f"Choose order {order}", exact=True).check()
            page.get_by_role("button", name="Invoice 3 chosen").click()
            shows(page, "Done, 1 failed", "2 of 3")
            expect(batch(page).locator(".failed-count")).to_have_text("1 failed")
            expect(page.locator(".badge")).to_have_text("1")
            batch(page).get_by_role("link").click()
            expect(page.locator("#items tbody")).to_contain_text("Order 1 has no lines to invoice")
            expect(page.locator(".story")).to_contain_text("2 orders were invoiced and stay so.")

            site.example.rows("INSERT INTO order_lines SELECT 1, 1, id, 2, 10.00 FROM products LIMIT 1")
            page.get_by_role("button", name="Retry the failed one").click()
            expect(page.locator("#job .state")).to_have_text("Done")
            expect(page.locator("#job .count")).to_have_text("1 of 1")
            page.get_by_role("link", name="Back to invoicing").click()

            page.get_by_role("button", name="Invoice all 498").click()
            shows(page, "Done", "498 of 498")
            expect(page.locator(".orders .empty")).to_contain_text("Every order is invoiced")
            expected = site.example.rows("SELECT letter, invoices, to_char(total, 'FM999,999,990.00') AS total"
                                         " FROM invoice_totals ORDER BY letter, currency")  # fmt: skip
            rows = page.locator("#totals tbody tr")
            expect(rows).to_have_count(len(expected))
            for row, series in zip(rows.all(), expected, strict=True):
                expect(row).to_contain_text(f"{series['letter']}{series['invoices']}")
                expect(row).to_contain_text(series["total"])
            assert sum(series["invoices"] for series in expected) == 501

            page.get_by_role("link", name=re.compile("Notifications")).click()
            expect(page.locator(".told .unread")).to_have_count(3)
            page.locator(".story-button").first.click()
            expect(page.locator("#job .count")).to_have_text("498 of 498")
            expect(page.locator(".badge")).to_have_text("2")
    finally:
        site.example.reset()
        site.example.rows("DELETE FROM order_lines WHERE order_id = 1")
        site.example.rows("DELETE FROM orders WHERE id = 1")


def test_a_double_press_and_a_second_tab_find_the_same_job(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        again = page.context.new_page()
        again.route("**/static/pages.js", lambda route: route.abort())  # or it would show the job without a reload
        again.goto(page.url)
        key = "input[name=key]"
        again.eval_on_selector(key, "(field, key) => field.value = key", page.input_value(key))
        page.get_by_role("button", name="Invoice all 500").dblclick()
        shows(page, "Done", "500 of 500")
        again.get_by_role("button", name="Invoice all 500").click()
        expect(again.locator("#notice")).to_contain_text("nothing was started twice")
        shows(again, "Done", "500 of 500")
    assert len(site.example.rows("SELECT id FROM background_jobs")) == 1


def test_progress_bar_never_goes_back_and_job_is_cancelled(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page, site.holding(LOCKED_ORDER):
        page.get_by_role("button", name="Invoice all 500").click()
        shows(page, "Running", "50 of 500")
        bar = batch(page).get_by_role("progressbar")
        expect(bar).to_have_attribute("aria-valuenow", "50")
        assert batch(page).locator("rect.done").get_attribute("width") == "10.00%"
        expect(page.locator("#choice")).to_have_count(0)
        page.reload()
        shows(page, "Running", "50 of 500")
        batch(page).get_by_role("button", name="Cancel").click()
        expect(batch(page).locator(".state")).to_have_text("Cancelling")
    # The browser has left; the page shows the same later.
    with site.visitor("ana", "suc0001") as page:
        expect(page.locator("#jobs article .state")).to_have_text("Cancelled")
        expect(page.locator("#jobs").get_by_role("button", name="Go on with the rest")).to_be_visible()


def test_job_runs_while_web_is_away_and_page_reconnects(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        with site.holding(LOCKED_ORDER):
            page.get_by_role("button", name="Invoice all 500").click()
            shows(page, "Running", "50 of 500")
            site.web.stop()
            expect(page.locator("#link")).to_have_text("No connection; trying again")
            expect(batch(page).locator(".link")).to_have_text("No connection; trying again")
            site.web.start()
        shows(page, "Done", "500 of 500")
        expect(page.locator("#link")).not_to_have_text("No connection; trying again")


def test_page_polls_without_streams(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        page.route("**/api/stream*", lambda route: route.abort())
        page.reload()
        expect(page.locator("#link")).to_have_text("Updated every few seconds")
        with site.holding(LOCKED_ORDER):
            page.get_by_role("button", name="Invoice all 500").click()
            shows(page, "Running", "50 of 500")
        shows(page, "Done", "500 of 500")


def test_two_tenants_in_two_browsers_are_isolated(site: Site) -> None:
    with site.visitor("ana", "suc0001") as ana, site.visitor("ben", "suc0002") as ben:
        ana.get_by_role("button", name="Invoice all 500").click()
        shows(ana, "Done", "500 of 500")
        job = batch(ana).get_attribute("data-job")
        expect(ben.locator(".sum")).to_contain_text("200 orders")
        for path in ("/?branch=suc0002", "/?branch=suc0002&show=completed", f"/?branch=suc0002&job={job}"):
            ben.goto(site.url + path)
            expect(ben.locator("article.job")).to_have_count(0)
            expect(ben.locator("#totals")).to_contain_text("Nothing is invoiced yet")
            expect(ben.locator(".badge")).to_have_count(0)
        for path in (f"/jobs/{job}?branch=suc0002", f"/jobs/{job}?branch=suc0001", "/?branch=suc0001"):
            answer = ben.goto(site.url + path)
            assert answer is not None
            assert answer.status == 404
            expect(ben.locator("h1")).to_have_text("This did not work")
        ben.goto(site.url)
        ben.get_by_role("button", name="Invoice all 200").click()
        shows(ben, "Done", "200 of 200")
        ana.reload()
        expect(ana.locator("article.job")).to_have_count(1)
        expect(ana.locator(".badge")).to_have_text("1")


def test_everything_works_without_a_script(site: Site) -> None:
    with site.visitor("ana", "suc0001", "suc0002", java_script_enabled=False) as page:
        page.get_by_label("Choose order 10249", exact=True).check()
        with site.holding(10_249):
            page.get_by_role("button", name="Invoice chosen").click()
            expect(batch(page).get_by_role("button", name="Cancel")).to_be_visible()
            batch(page).get_by_role("button", name="Cancel").click()
            expect(page.locator("article.job .state").first).to_have_text(re.compile("Cancell"))
        page.goto(f"{site.url}/?branch=suc0002&q=Alfreds")
        expect(page.locator("#choice tbody tr").first).to_contain_text("Alfreds")
        page.get_by_role("button", name=re.compile("Invoice the . found")).click()
        expect(batch(page)).to_be_visible()
        page.get_by_role("link", name="Español").click()
        expect(page.locator("h1")).to_have_text("Pedidos por facturar")
        page.get_by_role("button", name="Salir").click()
        expect(page.locator("h1")).to_have_text("Entrar")


def test_filters_and_pages_are_in_the_address(site: Site) -> None:
    for number in range(15):
        job = site.example.enqueue({"order_ids": [number + 1]})
        if number % 5 == 0:
            assert site.example.cancel(job) == "cancelled"
    site.example.drain()  # or the web's maintenance would run the jobs while the test counts them
    with site.visitor("ana", "suc0001") as page:
        page.select_option("#show", "cancelled")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("#jobs article")).to_have_count(3)
        page.reload()
        expect(page.locator("#show")).to_have_value("cancelled")
        expect(page.locator("#jobs article")).to_have_count(3)
        page.select_option("#show", "")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name="Older").click()
        expect(page.locator("#jobs article")).to_have_count(3)
        page.go_back()
        expect(page.locator("#jobs article")).to_have_count(12)


def test_the_keyboard_is_enough(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        page.keyboard.press("/")
        expect(page.locator("#q")).to_be_focused()
        page.keyboard.type("QUICK-Stop")
        page.keyboard.press("Enter")
        expect(page.locator("#choice tbody tr")).to_have_count(18)
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("j")
        page.keyboard.press("x")
        expect(page.get_by_role("button", name="Invoice 2 chosen")).to_be_enabled()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        shows(page, "Done", "2 of 2")


def test_key_press_on_a_visible_control_is_never_lost(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        on_the_way: list[Route] = []
        page.route("**/static/turno-client.js", lambda route: on_the_way.extend([route]))
        page.goto(f"{site.url}/?q=QUICK-Stop", wait_until="commit")
        expect(page.locator("#choice tbody tr")).to_have_count(18)
        for key in "jxjx":
            page.keyboard.press(key)
        expect(page.locator("#choice tbody :checked")).to_have_count(2)
        on_the_way[0].continue_()
        expect(page.get_by_role("button", name="Invoice 2 chosen")).to_be_enabled()


def test_a_row_opens_in_place_and_is_open_after_a_reload(site: Site) -> None:
    for order in (10248, 10249):
        assert site.example.cancel(site.example.enqueue({"order_ids": [order]})) == "cancelled"
    with site.visitor("ana", "suc0001") as page:
        address = page.url
        opener = page.locator("#jobs .opener").first
        opener.click()
        expect(page.locator("#jobs .inside").first).to_contain_text("Nothing was invoiced.")
        expect(opener).to_have_attribute("aria-expanded", "true")
        expect(opener).to_be_focused()
        expect(page.locator("#jobs .inside:visible")).to_have_count(1)
        page.reload()
        expect(page.locator("#jobs .inside").first).to_contain_text("Nothing was invoiced.")
        opener.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#jobs .inside:visible")).to_have_count(0)
        assert page.url.split("?")[0] == address.split("?")[0]
        page.locator("#jobs article").last.focus()
        page.keyboard.press("x")
        expect(page.locator("#jobs .inside").last).to_contain_text("Nothing was invoiced.")


def test_notification_read_in_one_tab_is_read_in_all(site: Site) -> None:
    assert site.example.cancel(site.example.enqueue({"order_ids": [10248]})) == "cancelled"
    with site.visitor("ana", "suc0001") as page:
        other = page.context.new_page()
        other.goto(page.url)
        for tab in (page, other):
            expect(tab.locator("#link")).to_have_text("Live")
            expect(tab.locator(".badge")).to_have_text("1")
        page.locator("#bell").click()
        page.locator(".story-button").click()
        expect(page.locator("#job .state")).to_have_text("Cancelled")
        expect(other.locator(".badge")).to_have_count(0)


def test_progress_is_announced_in_few_steps(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        page.evaluate(
            """() => {
                globalThis.received = [];
                new MutationObserver(() => received.push(document.getElementById('said').textContent))
                    .observe(document.getElementById('said'), {childList: true});
            }"""
        )
        job = site.example.enqueue({"order_ids": site.example.order_ids()})
        expect(batch(page).locator(".state")).to_have_text("Waiting")
        site.example.start_worker(job)
        expect(page.locator("#jobs article .state")).to_have_text("Done")
        expect(page.locator("#said")).to_have_text("Invoicing: Done. 500 of 500.")
        received = page.evaluate("received")
        assert len(received) <= 6  # two states, three quarters at most, the end


def test_form_can_be_sent_again_after_failed_navigation(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        page.route("**/batches", lambda route: route.fulfill(status=204), times=1)
        press = page.get_by_role("button", name="Invoice all 500")
        with page.expect_response(lambda response: response.url.endswith("/batches")):
            press.click()
        page.wait_for_function("() => !document.querySelector('form[data-sent]')")
        press.click()
        shows(page, "Done", "500 of 500")


def test_press_without_network_keeps_page_and_selection(site: Site) -> None:
    def filled() -> list[str]:
        names: list[str] = page.locator(".buttons button").evaluate_all(FILLED)
        return names

    with site.visitor("ana", "suc0001") as page:
        assert filled() == ["Invoice all 500"]
        for order in (10248, 10249):
            page.get_by_label(f"Choose order {order}", exact=True).check()
        assert filled() == ["Invoice 2 chosen"]
        page.context.set_offline(offline=True)
        page.get_by_role("button", name="Invoice 2 chosen").click()
        expect(page.get_by_role("alert")).to_contain_text("nothing was sent")
        expect(page.locator("#choice tbody :checked")).to_have_count(2)
        assert not site.example.rows("SELECT id FROM background_jobs")
        page.context.set_offline(offline=False)
        page.get_by_role("button", name="Invoice 2 chosen").click()
        shows(page, "Done", "2 of 2")


def test_times_are_uniform_in_the_zone_of_the_reader(site: Site) -> None:
    assert site.example.cancel(site.example.enqueue({"order_ids": [10248]})) == "cancelled"
    site.example.rows("UPDATE background_jobs SET created_at = '2026-01-05T01:02:03Z', started_at = NULL")
    for locale, zone, day in (
        ("en-US", "America/Argentina/Buenos_Aires", "4 Jan 2026"),
        ("es-AR", "UTC", "5 ene 2026"),
    ):
        with site.visitor("ana", "suc0001", locale=locale, timezone_id=zone) as page:
            time = page.locator("#jobs time").first
            expect(time).to_have_text(day)
            exact = f"{day} {'22' if zone != 'UTC' else '01'}:02:03"
            expect(time).to_have_attribute("title", exact)
            page.locator("#jobs article a").first.click()
            expect(page.locator(".facts .exact").first).to_have_text(exact)


def test_first_view_is_small_and_loads_no_foreign_file(site: Site) -> None:
    with site.visitor("ana", "suc0001") as page:
        answers: dict[str, int] = {}
        page.on("requestfinished", lambda request: answers.update({request.url: request.sizes()["responseBodySize"]}))
        with page.expect_event("requestfinished", lambda request: "turno-client" in request.url):
            page.reload()
        assert all(url.startswith(site.url) for url in answers)
        assert sum(answers.values()) < 100_000, answers
