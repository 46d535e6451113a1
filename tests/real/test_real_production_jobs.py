"""A published production job: kernels alone, times rounded, figures of the authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def view(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> View:
    """The job of 2 data-parallel pipelines of 4 stages, 32 steps."""
    cache = tmp_path_factory.mktemp("production")
    return View(open_job(shared / "traces" / "stragglers-st", cache_dir=cache, jobs=1))


@pytest.fixture(scope="module")
def truth(shared: Path) -> dict[str, Any]:
    """What the authors published of it."""
    found: dict[str, Any] = json.loads((shared / "golden" / "stragglers-st.truth.json").read_text())
    return found


def test_the_heavy_last_stage_is_named_with_high_confidence(
    view: View, truth: dict[str, Any]
) -> None:
    found = find("verdict").run(view).details

    assert found["verdict"] == truth["verdict"], found["why"]
    assert found["confidence"] == "high"
    assert found["culprit"]["stage"] == truth["culprit"]["stage"]
    assert found["culprit"]["ranks"] == truth["culprit"]["ranks"]
    assert found["loss_pct"] == pytest.approx(16.48, abs=0.3)


def test_the_slowdowns_are_the_published_ones(view: View, truth: dict[str, Any]) -> None:
    found, published = find("what_if_no_straggler").run(view).details, truth["published"]

    assert found["equalised_slowdown"] == pytest.approx(published["S"], rel=0.003)
    for stage, value in published["S_stage"].items():
        assert found["slowdown_by_stage"][stage] == pytest.approx(value, rel=0.02), stage
    assert found["m_w"] == pytest.approx(published["M_W"], abs=0.01)
    assert found["m_s"] == pytest.approx(published["M_S"], abs=0.03)
    assert found["host_slowdown"] == pytest.approx(published["host_slowdown"], abs=0.002)
