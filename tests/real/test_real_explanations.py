"""The explanation of every public trace: its size, its schema, and numbers of its metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("jsonschema")

from founded_claims import unfounded
from json_schemas import problems
from test_real_metrics_walk import SHARED, directories

import ccltui
from ccltui.parsers.errors import TraceError
from ccltui.report.explanation import BUDGET

pytestmark = pytest.mark.shared


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
