"""Recordings in which device work lacks its launch record."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared


@pytest.fixture
def view(shared: Path, tmp_path: Path) -> View:
    return View(open_job(shared / "cases/t2_correlation_absent/input", cache_dir=tmp_path))


def test_kernels_without_a_launch_record_count_in_their_steps(view: View) -> None:
    result = metrics()["comm_comp_overlap"].run(view)

    found = result.details
    assert result.status == "ok"
    assert found["comp_time_ms"] == pytest.approx(20.8)
    assert found["comm_time_ms"] == pytest.approx(8.4)
    assert found["overlap_time_ms"] == pytest.approx(4.0)
    assert found["exposed_comm_ms"] == pytest.approx(4.4)
    assert (found["num_comp_kernels"], found["num_comm_kernels"]) == (32, 16)
    assert found["window_ms"] == pytest.approx(36.32)  # three steps of 10 ms, and 6.32 ms of work


def test_the_same_job_with_all_launch_records_has_the_same_numbers(
    shared: Path, tmp_path: Path, view: View
) -> None:
    base = View(open_job(shared / "cases/base/input", cache_dir=tmp_path))

    for name in ("comm_comp_overlap", "temporal_breakdown", "straggler_lag", "verdict"):
        assert metrics()[name].run(view).value == metrics()[name].run(base).value


def test_one_step_alone_has_its_kernels(view: View) -> None:
    one = View(view.job, ViewOptions(steps=(6, 6)))

    found = metrics()["comm_comp_overlap"].run(one).details

    assert (found["num_comp_kernels"], found["num_comm_kernels"]) == (8, 4)
    assert found["window_ms"] == pytest.approx(10)  # to the first kernel of step 7
