"""The report in a headless Chromium: contrast, width, and what is printed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import unicodedata
from html import unescape
from pathlib import Path

import pytest
from report_html import all_of, page_of, parsed, text_of

from ccltui.demo import Spec, write_job
from ccltui.report.page.make_page import html_page
from ccltui.report.page.page_parts import Page, Picture, Section, Share, step_bar

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((found for name in _NAMES if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

DARK = "--blink-settings=preferredColorScheme=0"
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text of usual size
DIMENSIONS = ("tp", "dp", "pp", "ep", "cp", "world")

_MEASURE = """
<script>
function rgb(text) {
  const found = text.match(/[\\d.]+/g).map(Number);
  return found.length > 3 && found[3] === 0 ? null : found.slice(0, 3);
}
function luminance(color) {
  const part = color.map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * part[0] + .7152 * part[1] + .0722 * part[2];
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
}
function ground(element) {
  if (element.classList.contains('on')) {
    const kinds = [...element.classList].filter(n => !['label', 'on'].includes(n));
    const part = element.parentNode.querySelector('rect.' + kinds.join('.'));
    return rgb(getComputedStyle(part).fill);
  }
  for (let one = element; one; one = one.parentElement) {
    const found = rgb(getComputedStyle(one).backgroundColor);
    if (found) return found;
  }
}
const low = [];
let count = 0;
for (const element of document.body.querySelectorAll('*')) {
  const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || element.closest('script,title,desc,.unseen,.skip')) continue;
  const style = getComputedStyle(element);
  const found = contrast(rgb(element.closest('svg') ? style.fill : style.color), ground(element));
  count += 1;
  if (found < LEAST) low.push([element.textContent.trim().slice(0, 40), found]);
}
const wide = document.documentElement;
document.body.innerHTML = '<pre id="found"></pre>';
document.getElementById('found').textContent = JSON.stringify({
  low, count, width: WIDTH, ground: getComputedStyle(wide).backgroundColor});
</script>
""".replace("LEAST", str(LEAST_CONTRAST)).replace("WIDTH", "measured")
_WIDTH = "<script>const measured = document.documentElement.scrollWidth;</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    directory = tmp_path_factory.mktemp("browser") / "job"
    write_job(directory, Spec())
    return page_of(directory)[0]


def chromium(*arguments: str, folder: Path) -> str:
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",  # as root there is none
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
        *arguments,
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    return done.stdout


def measured(data: bytes, folder: Path, *arguments: str) -> dict[str, object]:
    """What a script finds that is added to a copy of the page."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", data.decode())
    path = folder / "page.html"
    path.write_text(text.replace("</body>", f"{_WIDTH}{_MEASURE}</body>"))
    shown = chromium(*arguments, "--dump-dom", path.as_uri(), folder=folder)
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None, shown[-2000:]
    return json.loads(unescape(found[1]))  # type: ignore[no-any-return]


def with_all_parts(page: Page) -> bytes:
    """The page, and a bar with the percentage of every kind of part."""
    kinds = ["compute", "waiting", "bubble", "copies", "idle"]
    kinds += [f"idle cause-{one}" for one in ("data_loading", "checkpoint", "allocation")]
    kinds += [f"communication dim-{one}" for one in DIMENSIONS] + ["communication"]
    bar = step_bar([Share(kind, kind, 1 / len(kinds)) for kind in kinds], "all parts")
    section = Section("parts", "Parts", "", [Picture(bar)])
    only = Page("/job", "", (), (section,), "0")
    return html_page(only)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page: Page, tmp_path: Path, scheme: str) -> None:
    arguments = [DARK] if scheme == "dark" else []

    for data in (html_page(page), with_all_parts(page)):
        found = measured(data, tmp_path, *arguments)
        assert found["low"] == []
        assert int(str(found["count"])) > 10
        dark = sum(map(int, re.findall(r"\d+", str(found["ground"])))) < 200
        assert dark is (scheme == "dark")


def test_a_narrow_window_scrolls_tables_and_not_the_page(page: Page, tmp_path: Path) -> None:
    found = measured(html_page(page), tmp_path, "--window-size=500,900")

    assert int(str(found["width"])) <= 500


def test_everything_is_printed(page: Page, tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    data = html_page(page)
    (tmp_path / "page.html").write_bytes(data)
    target = tmp_path / "page.pdf"

    chromium(
        "--no-pdf-header-footer",
        f"--print-to-pdf={target}",
        (tmp_path / "page.html").as_uri(),
        folder=tmp_path,
    )

    pages = [one.extract_text() for one in pypdf.PdfReader(target).pages]
    # The letters of a ligature are one character in a PDF.
    printed = re.sub(r"\s", "", unicodedata.normalize("NFKC", "".join(pages)))
    root = parsed(data)
    for name in ("h1", "h2", "h3", "caption", "td", "li", "text"):
        for one in all_of(root, name):
            if all_of(one, "svg"):  # its title is not for the eye
                continue
            text = re.sub(r"\s", "", unicodedata.normalize("NFKC", text_of(one)))
            text = text.replace("–notknown", "–")
            if any(child.tag == "a" for child in one):  # links to sections are for screens
                continue
            assert text in printed, (name, text)
