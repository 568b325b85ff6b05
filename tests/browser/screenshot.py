"""`python -m tests.browser.screenshot`: draw the README's picture of the pages, from pages as they are."""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from cli.servers.embedded_postgres import Cluster
from tests.installation import NORTHWIND, ROOT, build_example
from tests.servers import a_browser
from tests.site import site_of
from turno.testing.servers import fresh_database

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.site import Site

PICTURE = ROOT / "docs" / "pages.png"
LOCKED_ORDER = 10_310  # an order in the second chunk of fifty
WITHOUT_LINES = "INSERT INTO orders (id, customer_id, ordered_on) SELECT 1, id, '2026-01-31' FROM customers LIMIT 1"
SIZE = {"width": 900, "height": 760}
SIDE_BY_SIDE = """
<body style="margin: 0; display: flex; gap: 12px; padding: 12px; background: #d5d9de">
{}</body>
"""


def main() -> None:
    """Write the picture and say how large it is."""
    with tempfile.TemporaryDirectory(prefix="turno-picture-") as folder, a_browser() as browser:
        root = Path(folder)
        with (
            Cluster(data=root / "data", durable=False) as cluster,
            fresh_database(cluster) as url,
            build_example(url, root, NORTHWIND) as example,
            site_of(example, browser, root / "web.log") as site,
        ):
            PICTURE.write_bytes(joined(browser, pictures(site)))
            site.settle()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1000} kB")


def pictures(site: Site) -> list[bytes]:
    """Return a branch's page while a batch is under way, and the page of a batch of which one order failed."""
    expect.set_options(timeout=30_000)
    site.example.rows(WITHOUT_LINES)
    with site.visitor("ana", "suc0001", viewport=SIZE) as home:
        invoice(home, 1, 10248, 10249)
        expect(home.locator("#batches article .state").first).to_have_text("Done, 1 failed")
        ended = home.context.new_page()
        ended.goto(f"{site.url}{home.locator('#batches article a').first.get_attribute('href')}")
        expect(ended.locator("#items tbody")).to_contain_text("Order 1 has no lines to invoice")
        with site.holding(LOCKED_ORDER):
            home.get_by_role("button", name="Invoice all").click()
            expect(home.locator("#batches article .count").first).to_have_text(re.compile(r"^\d\d of 499$"))
            return [page.screenshot(animations="disabled") for page in (home, ended)]


def invoice(page: Page, *orders: int) -> None:
    """Choose these orders and press the button."""
    for order in orders:
        page.get_by_label(f"Choose order {order}", exact=True).check()
    page.get_by_role("button", name=f"Invoice {len(orders)} chosen").click()


def joined(browser: Browser, images: list[bytes]) -> bytes:
    """Return these pictures side by side as one."""
    tags = [f'<img src="data:image/png;base64,{base64.b64encode(image).decode()}">' for image in images]
    page = browser.new_page(viewport={"width": 2 * SIZE["width"] + 36, "height": SIZE["height"] + 24})
    page.set_content(SIDE_BY_SIDE.format("".join(tags)))
    return page.screenshot()


if __name__ == "__main__":
    main()
