"""Write every generated page."""

from tests.reference.pages import PAGES, ROOT

for name, page in PAGES.items():
    (ROOT / name).write_text(page(), encoding="utf-8")
