"""The pictures of the documentation are what the explorer draws, small, and all in use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
NAMED = re.compile(r"pictures/([\w-]+)\.svg")


def names() -> set[str]:
    """Pictures that pages show."""
    return {name for page in PAGES for name in NAMED.findall(page.read_text(encoding="utf-8"))}


@pytest.mark.long
def test_the_command_draws_the_pictures_that_are_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ccltui.tools.pictures", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONSAFEPATH": ""},
        cwd=ROOT,
    )

    assert done.returncode == 0, f"run make pictures, and look at them:\n{done.stdout}{done.stderr}"


def test_pictures_that_pages_name_are_those_that_are_there() -> None:
    assert names() == {path.stem for path in FOLDER.glob("*.svg")}
    assert len(names()) > 5


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_is_small_and_loads_nothing(path: Path) -> None:
    svg = path.read_text(encoding="utf-8")

    assert len(svg.encode()) < 80_000
    assert re.findall(r"https?://(?!www\.w3\.org/)[^\s\"')]*", svg) == []
    assert "ccltui" in svg
