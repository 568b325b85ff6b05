from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

PAGE = b"<!doctype html><title>Turno</title><p id=said></p><script>said.textContent = 'drawn by ' + 'script'</script>"


class SinglePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SinglePage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_page_on_loopback_is_rendered(chromium: Browser, address: str) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(address)
        assert page.title() == "Turno"
        assert page.locator("#said").inner_text() == "drawn by script"
