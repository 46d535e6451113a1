"""Recordings in which a file is not a rank: all commands agree on how many ranks there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import Job, open_job

pytestmark = pytest.mark.shared

LABELS = ["0", "1", "2", "3"]


def job_of(shared: Path, name: str, tmp_path: Path) -> Job:
    folder = shared / "cases" / name / "input"
    if not folder.is_dir():
        pytest.skip(f"no case {name}")
    return open_job(folder, cache_dir=tmp_path)


def doctor(shared: Path, name: str, tmp_path: Path) -> Any:
    """Return what `ccltui doctor` says of a case, and its checks by name."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ccltui", "doctor", shared / "cases" / name / "input"),
            *("--format", "json", "--cache-dir", tmp_path),
        ],
        capture_output=True,
        check=False,
        timeout=120,
    )
    said = json.loads(done.stdout)
    return said, {one["check"]: one for one in said["checks"]}


@pytest.mark.parametrize("name", ["base", "a2b_merged_beside_dist", "a8_merged_int_pids"])
def test_numbers_are_those_of_the_base_job(name: str, shared: Path, tmp_path: Path) -> None:
    job = job_of(shared, name, tmp_path)
    view = View(job)

    assert [trace.label for trace in job.ranks] == LABELS
    calls = find("coll_call_num").run(view)
    assert (calls.value, calls.status) == (16, "ok")
    lag = find("straggler_lag").run(view)
    assert (lag.value, lag.status) == (800, "ok")
    assert find("exposed_communication").run(view).value == pytest.approx(4.4)


def test_doctor_leaves_a_merge_beside_its_parts_out(shared: Path, tmp_path: Path) -> None:
    said, checks = doctor(shared, "a2b_merged_beside_dist", tmp_path)

    assert checks["ranks"]["state"] == checks["files"]["state"] == "ok"
    assert checks["ranks"]["message"] == "all 4 ranks"
    assert [note["code"] for note in said["notes"]] == ["merged_file"]
    merged = next(one for one in said["files"] if one["path"].startswith("merged-"))
    assert (merged["rank"], merged["problem"]) == (None, "left out: other files hold its ranks")


def test_doctor_counts_the_ranks_of_a_merge(shared: Path, tmp_path: Path) -> None:
    _, checks = doctor(shared, "a8_merged_int_pids", tmp_path)

    assert checks["ranks"]["message"].startswith("4 ranks")
    assert checks["GPU events"]["message"] == "48 on 4 ranks"


def test_a_file_of_two_writers_gives_no_number(shared: Path, tmp_path: Path) -> None:
    why = "two ranks wrote into this file (processes 4000 and 4001"
    job = job_of(shared, "h2_interleaved", tmp_path)
    _, checks = doctor(shared, "h2_interleaved", tmp_path)

    assert not job.ranks
    assert why in job.failures[0].error
    assert job.failures[0].error.endswith("profile to one file per rank")
    result = find("coll_call_num").run(View(job))
    assert (result.status, result.value) == ("unavailable", None)
    assert checks["files"]["state"] == "problem"
    assert why in checks["files"]["message"]
    assert not any("internal error" in one["message"] for one in checks.values())
    assert checks["files"]["fix"] == ""


def test_times_in_nanoseconds_are_named(shared: Path, tmp_path: Path) -> None:
    job = job_of(shared, "o_ns_values", tmp_path)
    _, checks = doctor(shared, "o_ns_values", tmp_path)

    assert not job.ranks
    assert all("look like nanoseconds" in one.error for one in job.failures)
    assert "look like nanoseconds" in checks["files"]["message"]
    assert not any("CPU-only" in one["message"] + one["fix"] for one in checks.values())


def test_doctor_knows_clocks_that_collectives_correct(shared: Path, tmp_path: Path) -> None:
    job = job_of(shared, "q2_no_base_relative", tmp_path)
    _, checks = doctor(shared, "q2_no_base_relative", tmp_path)

    assert find("straggler_lag").run(View(job)).value == 800
    windows = checks["capture windows"]
    assert windows["state"] == "warning"
    assert windows["message"].startswith("clocks differ by 4.11 s, corrected from collectives")
