"""The documentation as a site: it is built without a warning, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from cli.commands import docs as command
from cli.commands.docs import ROOT, docs

# Building takes eleven seconds of a processor, which others share.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]


class Page(HTMLParser):
    """The links of a page, its anchors, and the files that a browser fetches to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors.add(of.get("id", ""))
        if tag == "a" and "href" in of:
            self.links.append(of["href"])
        elif "src" in of or (tag == "link" and "href" in of):
            self.fetched.append(of.get("src") or of["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    ended = CliRunner().invoke(docs, [str(folder)])
    assert ended.exit_code == 0, ended.output
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_there(site: Path) -> None:
    sources = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    missing = [source for source in sources if not (site / source.relative_to(ROOT).with_suffix(".html")).exists()]
    assert missing == []


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Page]) -> None:
    dead, followed = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            followed += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in known:
                dead.append(f"{path.name}: {link}")
    assert dead == []
    assert followed > 1000


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    named = [name for page in pages.values() for name in page.fetched]
    for style in site.rglob("*.css"):
        named += re.findall(r"""(?:url\(|@import)\s*['"]?([^'")\s]+)""", style.read_text(encoding="utf-8"))
    assert [name for name in named if urlsplit(name).netloc] == []
    for script in site.rglob("*.js"):
        named = re.findall(r"""["'](https?://[^"']+)""", script.read_text(encoding="utf-8"))
        # The name of a language, not an address.
        assert set(named) <= {"http://www.w3.org/2000/svg"}, script.name


def test_dead_link_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / "site", folder / "site")
    shutil.copy(ROOT / "docs" / "conf.py", folder)
    (folder / "index.md").write_text("# All\n\n```{toctree}\none\n```\n", encoding="utf-8")
    links = "[to nowhere](two.md)\n\n[to nobody](#three)\n\n![unseen](four.png)\n"
    (folder / "one.md").write_text(f"# One\n\n{links}", encoding="utf-8")
    (folder / "five.md").write_text("# Five\n", encoding="utf-8")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    ended = CliRunner().invoke(docs, [str(tmp_path / "site")])
    assert ended.exit_code == 1
    assert "the site has errors" in ended.output
    reply = capfd.readouterr().err
    for complaint in ("two.md", "three", "four.png", "five.md"):
        assert "WARNING: " in next(line for line in reply.splitlines() if complaint in line)
