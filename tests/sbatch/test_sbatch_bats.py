"""The suites of bats, each case a line of its report."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SUITES = sorted(Path(__file__).parent.glob("*.bats"))


@pytest.mark.parametrize("needs", ["bats"], indirect=True)
@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_suite(suite: Path, needs: Path, tmp_path: Path) -> None:
    cases = len(re.findall("^@test ", suite.read_text(), re.MULTILINE))

    done = subprocess.run(
        [str(needs), "--tap", str(suite)],
        check=False,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )

    assert re.findall("^not ok .*", done.stdout, re.MULTILINE) == [], done.stdout + done.stderr
    assert len(re.findall("^ok ", done.stdout, re.MULTILINE)) == cases
