"""The explanation of every public trace: its size, its schema, and numbers of its metrics."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("jsonschema")

from founded_claims import unfounded
from json_schemas import problems

import ccltui
from ccltui.parsers.errors import TraceError
from ccltui.report.explanation import BUDGET

pytestmark = pytest.mark.shared

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))


def directories() -> list[Path]:
    """Folders with files, below the public traces, the recorded runs and the captures of nsys."""
    return [
        Path(folder)
        for top in ("recorded", "traces", "nsys")
        for folder, _, files in sorted(os.walk(SHARED / top))
        if files
    ]


@pytest.mark.parametrize("folder", directories(), ids=lambda path: str(path.relative_to(SHARED)))
def test_the_explanation_holds(folder: Path) -> None:
    try:
        job = ccltui.open(folder)
    except TraceError as error:
        pytest.skip(str(error))
    data = job.explain().to_json()
    document = json.loads(data)
    assert len(data) <= BUDGET
    assert problems("explanation", document) == []
    assert unfounded(document, job) == []
    assert document["left_out"] == 0
    assert document["headline"]
    assert document["actions"]
