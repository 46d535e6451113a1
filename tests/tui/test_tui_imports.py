"""What is imported when: the screen paints before anything heavy is there."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("ccltui.tui", ["textual", "rich", "numpy"]),
        ("ccltui.tui.app", ["numpy", "orjson", "yaml"]),
    ],
)
def test_modules_that_are_not_imported(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {absent} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
