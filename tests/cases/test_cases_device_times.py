"""Recordings of devices with impossible times, copies of events, and dead clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.doctor.trace_checks import device_times, gpu_events
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.window import parse_window

pytestmark = pytest.mark.shared


def opened(shared: Path, cache: Path, case: str) -> Job:
    return open_job(shared / "cases" / case / "input", cache_dir=cache, jobs=1)


def results(job: Job, **options: object) -> dict[str, Result]:
    view = View(job, ViewOptions(**options))  # type: ignore[arg-type]
    return {one.name: one.run(view) for one in metrics().values() if one.in_all}


def number(result: Result, key: str) -> float:
    value = result.details[key]
    assert isinstance(value, int | float)
    return value


FEW = (
    "c4_one_kernel_other_clock",
    "c_ts0_kernels",
    "d_dur_overflow",
    "gpu_clock_dead_one_rank",
    "k_duplicate_kernels",
    "n19_one_gemm_zero_time",
)


@pytest.mark.parametrize("case", FEW)
def test_no_number_is_ok_and_none_fails(shared: Path, tmp_path: Path, case: str) -> None:
    job = opened(shared, tmp_path, case)

    for name, result in results(job).items():
        codes = {reason.code for reason in result.reasons}
        assert "internal_error" not in codes, name
        assert result.status == "unavailable" or "device_times" in codes, name
    assert device_times(job).state in ("warning", "problem")
    assert gpu_events(job).state == "ok"


def test_a_kernel_on_another_clock_is_counted_and_not_timed(shared: Path, tmp_path: Path) -> None:
    job = opened(shared, tmp_path, "c4_one_kernel_other_clock")
    found, base = results(job), results(opened(shared, tmp_path, "base"))

    overlap = found["comm_comp_overlap"]
    assert number(overlap, "comm_time_ms") == pytest.approx(8.4)
    assert number(overlap, "overlap_time_ms") == pytest.approx(4.0)
    assert number(overlap, "exposed_comm_ms") == pytest.approx(4.4)
    assert number(overlap, "comp_time_ms") == pytest.approx(20.8 - 3.0 / 4)  # of 4 ranks
    kernels = number(overlap, "num_comm_kernels") + number(overlap, "num_comp_kernels")
    assert kernels == 48
    for name in ("coll_call_num", "straggler_lag", "iter_time", "blame_chain", "busbw"):
        assert found[name].value == base[name].value, name
    assert number(found["verdict"], "saves_ms") == pytest.approx(
        number(base["verdict"], "saves_ms"), abs=0.1
    )


def test_kernels_at_time_zero_do_not_move_the_origin(shared: Path, tmp_path: Path) -> None:
    job = opened(shared, tmp_path, "c_ts0_kernels")

    first = results(job, window=parse_window("0/12ms"))["coll_call_num"]
    assert (first.value, first.status) == (4, "partial")
    overlap = results(job)["comm_comp_overlap"]
    assert number(overlap, "comp_time_ms") == pytest.approx(20.8)
    assert number(overlap, "window_ms") == pytest.approx(36.32)


def test_a_duration_ends_at_the_next_start_on_its_stream(shared: Path, tmp_path: Path) -> None:
    overlap = results(opened(shared, tmp_path, "d_dur_overflow"))["comm_comp_overlap"]

    assert overlap.details["per_rank"]["1"]["comp_time_ms"] <= 21.9
    assert number(overlap, "comm_time_ms") == pytest.approx(8.4)


def test_copies_of_kernels_count_once(shared: Path, tmp_path: Path) -> None:
    found = results(opened(shared, tmp_path, "k_duplicate_kernels"))
    base = results(opened(shared, tmp_path, "base"))

    for name, result in base.items():
        assert found[name].value == result.value, name
    assert any("(24×)" in reason.message for reason in found["idle_ratio"].reasons)


def test_a_rank_without_device_times_keeps_its_counts(shared: Path, tmp_path: Path) -> None:
    job = opened(shared, tmp_path, "gpu_clock_dead_one_rank")
    found = results(job)

    calls = found["coll_call_num"]
    assert calls.details["calls_per_rank"]["1"] == calls.details["calls_per_rank"]["0"]
    assert set(found["idle_ratio"].details["per_rank"]) == {"0", "4", "5"}
    told = [reason for reason in found["idle_ratio"].reasons if reason.rank == "1"]
    assert [reason.code for reason in told] == ["device_times"]
    assert found["iter_time"].value == pytest.approx(58.3, abs=0.1)


def test_a_gemm_that_was_not_collected_is_no_idle_time(shared: Path, tmp_path: Path) -> None:
    found = results(opened(shared, tmp_path, "n19_one_gemm_zero_time"))

    # Within steps 0.1 % is idle; between them are 7 pauses of 0.3 ms, in 90.1 ms.
    between = 7 * 0.3 / 90.1
    assert number(found["idle_ratio"], "idle_ratio") == pytest.approx(between + 0.001, abs=0.001)
    assert found["straggler_lag"].details["worst_straggler"] == 2
    assert found["straggler_lag"].value == pytest.approx(3000.0)


def test_a_graph_recorded_as_a_whole_is_computation(shared: Path, tmp_path: Path) -> None:
    found = results(opened(shared, tmp_path, "n10_graph_whole_nccl_outside"))

    overlap = found["comm_comp_overlap"]
    assert overlap.details["per_rank"]["2"]["comp_time_ms"] == pytest.approx(8 * 9.0)
    assert overlap.details["per_rank"]["0"]["comp_time_ms"] == pytest.approx(8 * 6.0)
    verdict = found["verdict"].details
    assert verdict["verdict"] == "slow_worker"
    assert str(verdict["why"]).startswith("rank 2 computes 1.50 times as long")
    for name, result in found.items():
        codes = {reason.code for reason in result.reasons}
        assert result.status == "unavailable" or "lost_events" in codes, name


def test_ranks_without_kernels_are_not_replayed(shared: Path, tmp_path: Path) -> None:
    """Their copies are on the device, their collectives on the host: rows of two tables."""
    found = results(opened(shared, tmp_path, "kernels_lost_copies_kept"))

    for name, result in found.items():
        assert "internal_error" not in {reason.code for reason in result.reasons}, name
    what_if = found["what_if_no_straggler"]
    assert what_if.status == "unavailable"
    assert "ranks 4-5 have no kernels" in what_if.reasons[0].message
    assert any("rank 4" in reason.message for reason in found["verdict"].reasons)
