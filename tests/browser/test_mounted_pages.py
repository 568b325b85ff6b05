"""Turno's pages within an application's layout, below its prefix, in a real browser: they look, act and stay live."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.acceptance.test_mounted_servers import AT, served_by
from tests.greetings import valid_body
from tests.site import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.installation import ExampleInstallation


def test_a_page_in_the_host_s_layout_is_live_and_its_forms_work(
    module_example: ExampleInstallation, chromium: Browser
) -> None:
    with served_by("serve", module_example) as visitor, chromium.new_context(locale="en-US") as context:
        context.set_default_timeout(PATIENCE_MS)
        page, at = context.new_page(), f"http://127.0.0.1:{visitor.port}"
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.request.post(f"{at}/login", form={"user": "ana", "branch": "suc0001"})
        page.goto(f"{at}{AT}/")
        page.locator("#link.live").wait_for()
        assert page.locator("nav", has_text="The ERP's own menu").evaluate("one => getComputedStyle(one).fontSize") == (
            page.evaluate("getComputedStyle(document.body).fontSize")
        ), "our style applies to our elements"
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "normal"
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == ""
        assert page.locator(".turno h1").evaluate("one => getComputedStyle(one).fontSize") == "28px"
        submitted = page.evaluate(
            """async ([at, body]) => (await fetch(`${at}/api/jobs/greetings`, {method: "POST", body,
                 headers: {"X-Schema": "suc0001", "Content-Type": "application/json"}})).json()""",
            [AT, json.dumps(valid_body())],
        )
        row = page.locator(f"#row-{submitted['job_id']}")
        row.wait_for()
        assert "waiting" in row.inner_text().lower()
        row.get_by_role("link", name="Greetings").first.click()
        page.wait_for_url(f"{at}{AT}/jobs/{submitted['job_id']}**")
        page.get_by_role("button", name="Cancel").click()
        page.locator('[data-label="cancelled"]').wait_for()
        assert page.url.startswith(f"{at}{AT}/")
        assert errors == []
