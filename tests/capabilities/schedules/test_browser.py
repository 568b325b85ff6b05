"""A person schedules a batch in a real browser: wrong first, then right, and pauses it; accessible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.test_screens import LOOKS, assert_fit_for_everybody

if TYPE_CHECKING:
    from tests.site import Site


@pytest.mark.parametrize("look", ["phone", "laptop"])
def test_a_batch_is_scheduled_by_form(site: Site, look: str) -> None:
    spanish = look == "phone"
    with site.visitor("eva", "suc0001", operator=True, **LOOKS[look]) as page:
        page.goto(f"{site.url}/?branch=suc0001")
        page.get_by_role("link", name="Programaciones" if spanish else "Schedules").click()
        assert_fit_for_everybody(page, "no schedules")
        page.locator("#name").fill("nightly")
        page.locator("summary").first.click()
        page.locator("#cron").fill("61 3 * * *")
        page.locator("#payload").fill('{"order_ids": [10248]}')
        save = page.locator("form.schedule button")
        save.click()
        expect(page.locator("#wrong-cron")).to_contain_text("0 to 59")
        expect(page.locator("#cron")).to_have_value("61 3 * * *")
        assert_fit_for_everybody(page, "a schedule that was refused")
        page.locator("#cron").fill("")
        page.locator("#days").select_option("* * 1-5")
        page.locator("#at").fill("03:00")
        save.click()
        expect(page.locator("#next li")).to_have_count(5)
        words = "Lunes a viernes a las 3:00" if spanish else "Monday to Friday at 3:00"
        expect(page.locator("#when")).to_contain_text(words)
        assert_fit_for_everybody(page, "a schedule")
        page.locator(".commands button").first.click()
        expect(page.locator(".since")).to_contain_text("En pausa" if spanish else "Paused")
        page.get_by_role("link", name="Volver a las programaciones" if spanish else "Back to the schedules").click()
        expect(page.locator("tbody")).to_contain_text(words)
        assert_fit_for_everybody(page, "the schedules of a tenant")
        page.goto(f"{site.url}/admin/schedules")
        expect(page.locator("tbody")).to_contain_text("nightly")
        assert_fit_for_everybody(page, "the schedules of all tenants")
        page.get_by_role("link", name="nightly").click()
        page.locator(".commands button").last.click()
        expect(page.locator(".empty")).to_be_visible()
    assert site.example.rows("SELECT FROM job_schedules") == []
