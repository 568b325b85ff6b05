"""The README's picture can be made anew from the pages as they are."""

from tests.browser.screenshot import joined, pictures
from tests.site import Site


def test_the_picture_of_the_pages_is_made_and_small(site: Site) -> None:
    picture = joined(site.browser, pictures(site))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000
