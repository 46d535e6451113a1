"""Cases that came from users: times of devices, launches, and parts of a rank's time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from partition_checks import check

from ccltui.doctor.trace_checks import device_times, gpu_events
from ccltui.metrics.registry import find, metrics
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


GAP = "cases/hg_dataloader_gap/input"
RESNET = "traces/kineto/samples/resnet50_num_workers_0"
RESNET_PLUGIN = "traces/kineto/plugin/samples/resnet50_num_workers_0"
SEVERAL_STEPS = (
    "traces/aorta/misc",
    "traces/hta/df_index_resolver",
    "traces/hta/nccl_parser_config",
    "traces/hta/trace_compare/base",
    "traces/hta/trace_compare/test",
    "traces/hta/trace_diff/control",
    "traces/hta/trace_filter",
    RESNET,
    RESNET_PLUGIN,
    "traces/torchrec/log/resnet18",
    "traces/torchrec/trace/sst_long_a2a_optimizer",
    "traces/torchrec/trace/sst_long_a2a_optimizer_3",
    "traces/torchrec/trace/sst_long_a2a_optimizer_5_qcomm",
    "traces/tracelens/traces/mi300",
    "traces/stragglers-st",
    "cases/n10_graph_whole_nccl_outside/input",
    "cases/n19_one_gemm_zero_time/input",
    GAP,
)
"""Public recordings of devices over several steps."""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")


def view_of(path: Path, cache: Path) -> View:
    return View(open_job(path, cache_dir=cache, jobs=1))


def events_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    events = document if isinstance(document, list) else document["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def busy_and_span_us(path: Path) -> tuple[float, float]:
    """Time in device work, and from the first to the last work launched inside step markers.

    Work without a launch record is that of the marker in which it starts.
    """
    events = events_of(path)
    markers = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"].startswith("ProfilerStep") and "gpu" not in event["cat"]
    ]
    launched = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if "correlation" in event.get("args", {}) and event["cat"].lower().endswith("runtime")
    }
    work = [event for event in events if event["cat"].lower() in ON_DEVICE]
    inside = [
        event
        for event in work
        if any(
            start <= launched.get(event["args"]["correlation"], event["ts"]) < end
            for start, end in markers
        )
    ]
    first = min(event["ts"] for event in inside)
    last = max(event["ts"] + event["dur"] for event in inside)
    busy, reached = 0.0, first
    for event in sorted(work, key=lambda one: float(one["ts"])):
        begin, end = max(event["ts"], reached), min(event["ts"] + event["dur"], last)
        busy += max(end - begin, 0)
        reached = max(reached, end)
    return busy, last - first


def test_a_device_that_waits_for_the_data_loader_is_idle(shared: Path, tmp_path: Path) -> None:
    view = view_of(shared / GAP, tmp_path)

    idle = find("idle_ratio").run(view).details
    assert (idle["idle_ms"], idle["window_ms"]) == (pytest.approx(11.12), pytest.approx(36.32))
    assert find("gpu_busy").run(view).value == pytest.approx(1 - 11.12 / 36.32)
    causes = find("idle_causes").run(view).details
    assert causes["idle_ms"] == pytest.approx(11.12)
    by_cause = {cause: row["ms"] for cause, row in causes["by_cause"].items()}
    assert max(by_cause, key=lambda cause: by_cause[cause]) == "data_loading"
    assert by_cause["data_loading"] == pytest.approx(3 * 3.4, abs=0.1)
    first = find("fix_first").run(view).details["losses"][0]
    assert (first["kind"], first["what"]) == ("idle", "data_loading")
    composed = find("step_composition").run(view).details
    assert sum(row["ms"] for row in composed["parts"]) == pytest.approx(36.32)


@pytest.mark.parametrize("name", [RESNET, RESNET_PLUGIN])
def test_busy_is_that_of_plain_json(shared: Path, tmp_path: Path, name: str) -> None:
    (path,) = sorted((shared / name).iterdir())
    busy, span = busy_and_span_us(path)

    view = view_of(shared / name, tmp_path)
    found = find("gpu_busy").run(view).details
    assert found["busy_ms"] == pytest.approx(busy / 1000, abs=1e-6)
    assert found["window_ms"] == pytest.approx(span / 1000, abs=1e-6)
    losses = find("fix_first").run(view).details["losses"]
    assert "data_loading" in [one["what"] for one in losses]


def test_half_of_the_time_of_the_sample_without_workers(shared: Path, tmp_path: Path) -> None:
    view = view_of(shared / RESNET_PLUGIN, tmp_path)

    assert find("gpu_busy").run(view).value == pytest.approx(0.499, abs=5e-4)


@pytest.mark.parametrize("name", SEVERAL_STEPS)
def test_the_parts_are_the_span_and_the_metrics_agree(
    shared: Path, tmp_path: Path, name: str
) -> None:
    check(view_of(shared / name, tmp_path))
