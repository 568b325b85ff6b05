"""A clerk imports a file with three bad lines and downloads a report, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.site import Site

LINES = 3000
BAD = (10, 1500, 2999)


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=30_000)


def follow(page: Page, link: str) -> None:
    """Click this link of the navigation and wait until its page is loaded: axe also examines half a document."""
    with page.expect_navigation():
        page.get_by_role("link", name=link).click()


def accessible(page: Page) -> None:
    result = Axe().run(page)
    assert not result.response["violations"], result.generate_report()


def test_upload_shows_progress_and_lists_bad_lines(site: Site, tmp_path: Path) -> None:
    rows = [f"IMP{n};Cliente {n};{'exento' if n not in BAD else 'raro'};{'x' * 190}" for n in range(LINES)]
    file = tmp_path / "clientes.csv"
    file.write_text("\n".join(["código;razón social;condición;dirección", *rows]), encoding="cp1252")
    try:
        with site.visitor("ana", "suc0001") as page:
            follow(page, "Import")
            accessible(page)
            page.set_input_files("#file", file)
            with page.expect_response(lambda answer: "/pieces/0" in answer.url) as sent:
                page.get_by_role("button", name="Import the file").click()
            assert sent.value.ok
            row = page.locator("#asked-for article")
            expect(row.locator(".state")).to_have_text("Done, 3 failed")
            expect(row.locator(".count")).to_have_text(f"{LINES - 3:,} of {LINES:,}")
            page.get_by_text("Correct the file by the reasons and upload it again.").wait_for()
            expect(page.locator("#asked-for tbody tr")).to_have_count(3)
            expect(page.get_by_role("button", name="Retry")).to_have_count(0)
            accessible(page)
            follow(page, "See the 3 refused lines")
            expect(page.locator("#items tbody")).to_contain_text("line 12, column tax_condition: 'raro' is not one of")
            expect(page.locator("#items tbody tr")).to_have_count(3)
        (kept,) = site.example.rows("SELECT count(*) AS n FROM customers WHERE id LIKE 'IMP%%'")
        assert kept["n"] == LINES - 3
    finally:
        site.example.reset()
        site.example.rows("DELETE FROM customers WHERE id LIKE 'IMP%%'")


def test_refused_file_has_reason_and_one_remedy(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "clientes.csv"
    file.write_text("código;nombre\nIMP1;Uno\n")
    with site.visitor("ana", "suc0001") as page:
        follow(page, "Import")
        page.set_input_files("#file", file)
        page.get_by_role("button", name="Import the file").click()
        asked = page.locator("#asked-for")
        expect(asked.locator(".state")).to_have_text("Failed")
        expect(asked).to_contain_text("The columns tax_condition are missing")
        expect(asked).to_contain_text("Correct the file by the reasons and upload it again.")
        expect(asked.get_by_role("button")).to_have_count(0)
        with page.expect_download() as download:
            page.get_by_role("link", name="Example file Customers").click()
        download.value.save_as(file)
        page.set_input_files("#file", file)
        page.get_by_role("button", name="Import the file").click()
        expect(asked.locator(".state")).to_have_text("Done")
        follow(page, "Back to invoicing")
        expect(page.locator("#jobs .why")).to_contain_text("The columns tax_condition are missing")
    site.example.reset()
    site.example.rows("DELETE FROM customers WHERE id = 'ACME'")


def test_report_is_requested_and_downloaded(site: Site, tmp_path: Path) -> None:
    with site.visitor("ana", "suc0001") as page:
        follow(page, "Sales of all branches")
        accessible(page)
        page.select_option("#format", "csv")
        page.get_by_role("button", name="Write the report").click()
        expect(page.locator("#asked-for article .state")).to_have_text("Done")
        accessible(page)
        with page.expect_download() as download:
            page.locator("#asked-for .download a").click()
        saved = tmp_path / "report.csv"
        download.value.save_as(saved)
        assert download.value.suggested_filename.startswith("sales ")
        assert saved.read_text("utf-8-sig").startswith("branch,customer,name,month")
    site.example.reset()
