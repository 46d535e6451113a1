"""What to do about public recordings fits the program and the recording."""

from __future__ import annotations

import pytest
from test_real_metrics_walk import SHARED

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Finding
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared
OPENMP = "nsys/paracodex/workdirs/serial_omp_hecbench_workdir/data/src/pathfinder-omp"


def first(folder: str) -> Finding:
    return answer_of(View(open_job(SHARED / folder))).findings[0]


def test_a_program_without_pytorch_gets_no_setting_of_its_allocator() -> None:
    finding = first(OPENMP)

    assert finding.kind == "host_allocation"
    assert "cudaMallocAsync" in finding.do
    assert "PYTORCH" not in finding.do


def test_a_recording_of_one_event_is_to_be_recorded_again() -> None:
    finding = first("traces/hta/large_integer_trace")

    assert finding.do.startswith("Record a few steps on all ranks")
