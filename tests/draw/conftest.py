"""Golden pictures."""

from __future__ import annotations

import os

import pytest
from pictures import GOLDEN, Golden, picture

from ccltui.draw.planes import Planes


@pytest.fixture
def golden() -> Golden:
    """Compare a picture with the file of that name; CCLTUI_GOLDEN=write accepts new ones."""

    def compare(name: str, planes: Planes) -> None:
        path = GOLDEN / f"{name}.txt"
        text = picture(planes)
        if os.environ.get("CCLTUI_GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8").splitlines()
        for y, (row, wanted) in enumerate(zip(text.splitlines(), expected, strict=True)):
            assert row == wanted, f"{name}: line {y}"

    return compare
