"""Cases that came from users: files as they were, and printed tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs_by_hand import view_of

import ccltui
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
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


def input_of(shared: Path, name: str) -> Path:
    """What a user of the case has."""
    directory = shared / "cases" / name / "input"
    if not directory.is_dir():
        pytest.skip(f"no case in {directory}")
    return directory


def computed(name: str, directory: Path) -> Result:
    return find(name).run(view_of(directory))


def test_a_table_with_the_tags_of_mpirun(shared: Path) -> None:
    case = input_of(shared, "t03_nccltests_tag_output")
    check_table(computed("nccl_tests_busbw", case), num_wrong=0)


def test_the_json_of_nccl_tests(shared: Path) -> None:
    case = input_of(shared, "t04_nccltests_json")
    test = check_table(computed("nccl_tests_busbw", case), num_wrong=0)

    assert test["nccl_version"] == "2.29.4"


def test_a_table_with_time_stamps(shared: Path) -> None:
    case = input_of(shared, "t05b_nccltests_timestamps")
    check_table(computed("nccl_tests_busbw", case), num_wrong=0)


def test_a_report_of_ras_lists_those_that_are_ahead(shared: Path) -> None:
    case = input_of(shared, "t07_ras_text_mismatch")
    found = computed("hang_verdict", case).details

    assert set(found["ranks"]) == {str(rank) for rank in range(32)} - {"20", "21"}
    first = "All ranks but 20 and 21 are one all-gather behind; these two may wait for them."
    assert found["text"] == first
    assert "30 of 32 ranks launched 812 AllGather; ranks 20 and 21 launched 813" in found["more"][0]
    assert "few ranks are ahead" in found["more"][1]
    assert headline_of(case).startswith("All ranks but 20 and 21")


def test_a_log_of_deepspeed_with_its_summary(shared: Path) -> None:
    case = input_of(shared, "t08_deepspeed_comms_summary")
    first, second = computed("comms_summary", case).details["operations"]

    assert (first["operation"], first["size"], first["count"]) == ("all_reduce", "64.0 MB", 120)
    assert (first["total_ms"], first["waited_ms"]) == (640.2, 238.0)
    assert (second["operation"], second["waited_ms"]) == ("all_gather", 11.0)
    assert headline_of(case).startswith(
        "120 all-reduces of 64.0 MB take 640 ms, 238 ms of it waiting for the last rank"
    )


def test_tables_of_rocprofv3_are_ranks_with_kernels(shared: Path) -> None:
    case = input_of(shared, "t10_rocprofv3_csv")
    job = open_job(case)
    result = find("straggler_lag").run(View(job))
    late = result.details["worst_straggler"]

    assert {trace.rank: trace.source.path for trace in job.ranks}[late].startswith("node/5001")
    assert result.value == pytest.approx(500)
    assert (
        result.details["blame"][str(late)]["last_count"],
        result.details["num_collectives"],
    ) == (
        10,
        10,
    )
    assert computed("dominant_kernel", case).value is not None


def test_step_lines_of_a_run_without_an_end(shared: Path) -> None:
    case = input_of(shared, "t13_megatron_infinity")

    assert computed("run_step_time", case).value == pytest.approx(2103)
    assert computed("run_loss", case).value == pytest.approx(8.26)
    assert "a median of 2.1 s" in headline_of(case)  # 2103 ms in two digits


def test_a_group_of_which_nothing_ever_completed(shared: Path) -> None:
    case = input_of(shared, "t14_deepspeed_watchdog_two_attempts")
    found = computed("hang_verdict", case).details

    assert (found["kind"], found["ranks"]) == ("never_completed", [])
    assert found["text"] == (
        "Group 1 never completed a collective: both ranks that print wait in broadcast 1."
    )
    assert "enqueued 547" in " ".join(found["more"])
    assert "not a late rank" in found["more"][0]
    assert "connection or a device" in found["more"][0]
    assert headline_of(case).startswith("Group 1 never completed a collective")
    assert "rank 0" not in computed("run_completeness", case).details["runs"][0]["ended"].lower()


def headline_of(directory: Path) -> str:
    return ccltui.open(directory).explain().headline


def check_table(result: Result, *, num_wrong: int) -> dict[str, Any]:
    assert result.status == "ok"
    assert result.value == pytest.approx(300.49, abs=0.01)
    assert (result.details["num_wrong"], result.details["collective"]) == (num_wrong, "all_reduce")
    (test,) = result.details["tests"]
    assert (test["num_ranks"], test["at_bytes"], test["num_sizes"]) == (16, 4294967296, 3)
    return dict(test)
