"""An operator adds a template in a real browser: refused first, then saved; accessible."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_screens import LOOKS, assert_fit_for_everybody
from tests.site import Site


@pytest.mark.parametrize("look", ["phone", "laptop"])
def test_a_template_is_added_by_form(site: Site, look: str) -> None:
    with site.visitor("eva", "suc0001", operator=True, **LOOKS[look]) as page:
        page.goto(f"{site.url}/admin/templates")
        page.locator("#name").fill("nightly")
        page.locator("#type").select_option("batch_invoicing")
        page.locator("summary").first.click()
        page.locator("#every").fill("1")
        page.locator("#payload").fill('{"order_ids": [10248]}')
        save = page.locator("form.schedule button")
        save.click()
        expect(page.locator("#wrong-every")).to_be_visible()
        assert_fit_for_everybody(page, "a template that was refused")
        page.locator("#every").fill("3600")
        save.click()
        expect(page.locator("#templates tbody")).to_contain_text("nightly")
        assert_fit_for_everybody(page, "the templates of operators")
        page.locator(".commands button").last.click()
        expect(page.locator(".empty")).to_be_visible()
    assert site.example.rows("SELECT FROM turno.schedule_templates") == []
