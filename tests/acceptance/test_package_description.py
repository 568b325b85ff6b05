"""The metadata of the package, and its README on a package index, which renders it without the other files."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from email.parser import Parser
from typing import TYPE_CHECKING, cast

import pytest
from readme_renderer import markdown

from tests.installation import ROOT
from tests.wheel import run

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

ADDRESS = "https://git.example/shop/turno"
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "turno")
URLS = {
    f"Homepage, {ADDRESS}",
    f"Documentation, {ADDRESS}/blob/v0.1.0/docs/index.md",
    f"Changelog, {ADDRESS}/blob/v0.1.0/CHANGELOG.md",
    f"Issues, {ADDRESS}/issues",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without a remote: a build of this one would depend on the remote of the developer."""
    root = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, root / name)
    run("git", "init", "--quiet", cwd=root)
    return root


def metadata_of(checkout: Path, folder: Path, *options: str, **environment: str) -> Message:
    """Build a wheel and return its metadata."""
    clean = {name: value for name, value in os.environ.items() if name != "TURNO_REPOSITORY"}
    run("uv", "build", "--quiet", *options, "--out-dir", str(folder), cwd=checkout, env=clean | environment)
    (wheel,) = folder.glob("turno_jobs-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def rendered(metadata: Message) -> str:
    """Return the HTML of the description."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    return cast("str", markdown.render(cast("str", metadata.get_payload())))


def links_of(html: str) -> list[str]:
    """Return the targets of links and images, without those inside the page."""
    return [target for target in re.findall(r'(?:href|src)="([^"]*)"', html) if not target.startswith("#")]


def with_remote(checkout: Path, remote: str, tmp_path: Path) -> Path:
    """Return a copy of the checkout with this remote."""
    copy = shutil.copytree(checkout, tmp_path / "with-remote")
    run("git", "remote", "add", "origin", remote, cwd=copy)
    return copy


def test_package_without_address_has_no_link_to_the_repository(checkout: Path, tmp_path: Path) -> None:
    metadata = metadata_of(checkout, tmp_path, "--wheel")
    html = rendered(metadata)
    assert metadata.get_all("Project-URL") is None
    assert [target for target in links_of(html) if not target.startswith("https://")] == []
    assert len(links_of(html)) >= 5
    assert "<img" not in html
    assert "](" not in re.sub(r"<[^>]+>", "", html)


@pytest.mark.parametrize("options", [("--wheel",), ()], ids=["from the checkout", "from the sdist"])
def test_package_links_to_files_of_the_remote(checkout: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    metadata = metadata_of(with_remote(checkout, f"{ADDRESS}.git", tmp_path), tmp_path / "built", *options)
    targets = links_of(rendered(metadata))
    assert set(metadata.get_all("Project-URL", [])) == URLS
    assert [target for target in targets if not target.startswith("https://")] == []
    files = [target.removeprefix(ADDRESS) for target in targets if target.startswith(ADDRESS)]
    matches = [re.fullmatch(r"/(blob|raw)/v0\.1\.0/([^#]+)(#.+)?", file) for file in files]
    named = [(match[1], match[2]) for match in matches if match]
    assert len(named) == len(files) >= 30
    assert [path for _, path in named if not (ROOT / path).is_file()] == []
    assert [path for kind, path in named if kind == "raw"] == ["docs/pages.png"]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@git.example:shop/turno.git", ADDRESS),
        ("ssh://git@git.example:2222/shop/turno.git", ADDRESS),
        ("https://user:secret@git.example:8443/shop/turno", "https://git.example:8443/shop/turno"),
        ("/srv/git/turno.git", None),
        ("file:///srv/git/turno.git", None),
    ],
)
def test_homepage_is_the_public_address_of_the_remote(
    checkout: Path, tmp_path: Path, remote: str, address: str | None
) -> None:
    metadata = metadata_of(checkout, tmp_path, "--wheel", TURNO_REPOSITORY=remote)
    homepages = [url for url in metadata.get_all("Project-URL", []) if url.startswith("Homepage")]
    assert homepages == ([f"Homepage, {address}"] if address else [])
    assert "secret" not in metadata.as_string()


def test_description_keeps_headings_tables_and_code(checkout: Path, tmp_path: Path) -> None:
    html = rendered(metadata_of(checkout, tmp_path, "--wheel"))
    text = re.sub(r"<[^>]+>", "", html)
    assert "First job" in text
    assert "turno tenant add suc0001 --company acme --name Acme" in text
    assert html.count("<table>") == 1
