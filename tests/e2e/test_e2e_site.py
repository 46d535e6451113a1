"""The documentation as a site: every link and anchor leads somewhere, and to no other host."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from shell import run

from ccltui.tools.site_links import on_page_markdown

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTWARD = re.compile(r"\]\((\.\./[^)#\s]+)")
LOADED = re.compile(
    r"""<(?:link|script|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?([^"'\s>]+)"""
)
IN_STYLES = re.compile(r"url\(([^)]+)\)|@import ([^;]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A missing page, file or anchor, and a page without a place, end the build."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = run((sys.executable, "-m", "mkdocs", "build", "--site-dir"), folder, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {page.stem for page in DOCS.glob("*.md")}

    assert {page.stem for page in site.glob("*.html")} >= pages
    assert len(pages) > 30


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {url for page in site.glob("*.html") for url in LOADED.findall(page.read_text())}
    styles = {
        url
        for sheet in site.rglob("*.css")
        for pair in IN_STYLES.findall(sheet.read_text())
        for url in pair
    }

    assert any(url.endswith(".css") for url in loaded)
    assert [url for url in loaded | styles if re.match(r"[\"']?(?:https?:)?//", url)] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_files_beside_the_folder_that_a_page_links_exist(page: Path) -> None:
    linked = OUTWARD.findall(page.read_text(encoding="utf-8"))

    assert [link for link in linked if not (DOCS / link).exists()] == []


def test_links_out_of_the_folder_become_paths() -> None:
    text = "[SECURITY.md](../SECURITY.md), [the recipe](../CONTRIBUTING.md#add-a-metric), [a](b.md)"

    assert on_page_markdown(text) == ("`SECURITY.md`, the recipe (`CONTRIBUTING.md`), [a](b.md)")
    assert on_page_markdown("[notebook](python.ipynb)") == "notebook (`docs/python.ipynb`)"
