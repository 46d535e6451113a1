"""Metrics on files of nsys: the same definitions, and the right reasons where they cannot.

The job: two processes on one node, steps of 1 ms marked by NVTX ranges, one all-reduce a step
at which rank 1 is 100 us late, computation before it, of which 20 us run beside the all-reduce.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nsys_exports import Export, Process

from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.registry import find, metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job

US = 1000
STEPS = 4
REDUCED_BYTES = 8192
KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)"


def job(directory: Path, *, payload: bool = True, steps: str = "step {}", ranks: int = 2) -> Path:
    directory.mkdir()
    export = Export()
    for rank in range(ranks):
        process = export.process(100 + rank)
        if payload:
            process.nccl(rank, ranks)
        else:
            process.domain(1, "NCCL")
        for step in range(STEPS):
            _step(process, step * 1000 * US + 100, rank, payload=payload, name=steps.format(step))
    export.write(directory / "node0.sqlite")
    return directory


def _step(process: Process, at: int, rank: int, *, payload: bool, name: str) -> None:
    """Computation [100, 320), all-reduce [200 or 300, 500): it ends on both at once, in us."""
    process.range(name, at, at + 900 * US)
    process.kernel("gemm(args)", at + 100 * US, at + 320 * US, device=rank, launched=at + 10 * US)
    size = REDUCED_BYTES if payload else None
    process.collective("ncclAllReduce", at + 20 * US, at + 30 * US, size=size)
    start = at + (300 if rank else 200) * US
    end = at + 500 * US
    process.kernel(KERNEL, start, end, device=rank, stream=20, launched=at + 25 * US)


def answer(name: str, directory: Path, **options: Any) -> dict[str, Any]:
    return find(name).document_of(directory, **options)


def test_the_seven_metrics_of_a_known_job(tmp_path: Path) -> None:
    directory = job(tmp_path / "job")

    calls = answer("coll_call_num", directory)
    assert (calls["status"], calls["source"]) == ("ok", "nsys_kernel")
    assert calls["total_calls"] == 2 * STEPS
    assert calls["calls_by_type"] == {name: 8 if name == "AllReduce" else 0 for name in _TYPES}
    assert calls["calls_per_step"] == {str(r): {str(s): 1 for s in range(4)} for r in range(2)}
    assert calls["inputs"]["profile_mode"] == "nsys"

    times = answer("iter_time", directory)
    assert (times["status"], times["avg_iter_time_ms"], times["num_iterations"]) == ("ok", 0.9, 4)
    assert times["basis"]["step_marker"] == "NVTX step"

    overlap = answer("comm_comp_overlap", directory)
    # Per step: rank 0 communicates 300 us, 120 of them beside computation; rank 1 200 and 20.
    assert overlap["comm_time_ms"] == pytest.approx(STEPS * 0.25)
    assert overlap["comp_time_ms"] == pytest.approx(STEPS * 0.22)
    assert overlap["overlap_time_ms"] == pytest.approx(STEPS * 0.07)

    lag = answer("straggler_lag", directory)
    assert (lag["status"], lag["num_collectives"]) == ("ok", STEPS)
    assert (lag["blame"]["1"]["last_count"], lag["stragglers"]) == (STEPS, [])  # rank 0 computes
    assert lag["mean_lag_us"] == 100.0
    assert lag["wait_us"] == {"0": 400.0, "1": 0.0}
    assert lag["match"]["overlap_pass_ratio"] == 1.0

    traffic = answer("traffic_distribution", directory)
    assert traffic["total_bytes"] == 2 * STEPS * REDUCED_BYTES
    assert traffic["world_bytes"] == 2 * STEPS * REDUCED_BYTES

    stated = {"batch_size": 4, "seq_len": 900, "batch_size_scope": "global"}
    tokens = answer("throughput_tokens", directory, overrides=stated)
    assert tokens["throughput_tokens_per_s"] == 4_000_000.0

    bubble = answer("pipeline_bubble", directory, overrides={"pp": 1})
    assert (bubble["status"], bubble["reason"]) == ("unavailable", "not_applicable")


_TYPES = [name for name in TYPES if name not in ("Gather", "Scatter", "Barrier")]


def test_a_reduction_counts_elements_of_the_type_that_its_kernel_names(tmp_path: Path) -> None:
    view = View(open_job(job(tmp_path / "job")))

    calls = view.ranks[0].named_calls

    assert calls.in_elems.tolist() == [REDUCED_BYTES // 2] * STEPS
    assert calls.message_bytes.tolist() == [REDUCED_BYTES] * STEPS
    assert calls.wire_bytes.tolist() == [REDUCED_BYTES] * STEPS  # 2 (n - 1) / n of it, n = 2


def test_without_payload_sizes_are_absent_not_zero(tmp_path: Path) -> None:
    directory = job(tmp_path / "job", payload=False)

    traffic = answer("traffic_distribution", directory)
    assert (traffic["status"], traffic["reason"]) == ("partial", "no_message_size")
    assert traffic["total_bytes"] is None
    assert answer("busbw", directory)["reason"] == "no_message_size"

    # The devices of the only file are taken for ranks in their order, and it says so.
    lag = answer("straggler_lag", directory)
    assert (lag["blame"]["1"]["last_count"], lag["mean_lag_us"]) == (STEPS, 100.0)
    assert any(
        "does not state its ranks: its devices count as 0-1" in text for text in lag["warnings"]
    )


def test_without_steps_the_trace_is_measured_and_times_of_steps_are_refused(
    tmp_path: Path,
) -> None:
    directory = job(tmp_path / "job", steps="optimizer_step")

    assert answer("iter_time", directory)["reason"] == "no_step_markers"
    assert answer("comm_comp_overlap", directory)["basis"]["window"] == "trace"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("step {}", [0, 1, 2, 3]),
        ("Step_{}", [0, 1, 2, 3]),
        ("train_step_{}", [0, 1, 2, 3]),
        ("iteration{}", [0, 1, 2, 3]),
        ("loop:iter {}", [0, 1, 2, 3]),
        ("train step", [0, 1, 2, 3]),
        ("backward {}", []),
        ("warmup step {}", []),
        ("step {} forward", []),
    ],
)
def test_names_of_steps(tmp_path: Path, name: str, ids: list[int]) -> None:
    view = View(open_job(job(tmp_path / "job", steps=name)))

    assert [step.id for step in view.ranks[0].steps] == ids


def test_one_device_has_no_straggler(tmp_path: Path) -> None:
    directory = job(tmp_path / "job", ranks=1)

    assert answer("straggler_lag", directory)["reason"] == "single_rank"


def test_nodes_with_clocks_apart_are_aligned_by_the_ends_of_collectives(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    for rank in range(2):
        # The second node's session began at another time, and its clock is 3 ms ahead.
        started = 1_700_000_000_000_000_000 + rank * 50_000_000
        export = Export(start_utc_ns=started + rank * 3_000_000, host=f"node{rank}")
        process = export.process(100)
        process.nccl(rank, 2)
        for step in range(STEPS):
            at = step * 1000 * US + 100_000_000 - rank * 50_000_000
            _step(process, at, 0, payload=True, name=f"step {step}")
        export.write(directory / f"node{rank}.sqlite")

    lag = answer("straggler_lag", directory)

    assert lag["clock"]["1"]["offset_us"] == 3000.0
    assert (lag["stragglers"], lag["lag_aligned"]["max_lag_us"]) == ([], 0.0)


@pytest.mark.parametrize("payload", [True, False])
def test_every_metric_answers_or_says_why_not(tmp_path: Path, payload: bool) -> None:
    view = View(open_job(job(tmp_path / "job", payload=payload)))

    results = {name: metric.run(view) for name, metric in metrics().items()}

    assert {n: r.reasons for n, r in results.items() if r.reason == "internal_error"} == {}
    sources = {result.source for result in results.values() if result.status == "ok"}
    assert sources == {"nsys_kernel", "annotation"}  # steps are ranges


def test_the_mode_decides_whose_files_answer(tmp_path: Path) -> None:
    directory = job(tmp_path / "job")

    assert answer("coll_call_num", directory, profile_mode="nsys")["total_calls"] == 8
    refused = answer("coll_call_num", directory, profile_mode="torch")
    assert refused["reason"] == "mode_mismatch"
    assert "here are nsys files: node0.sqlite" in refused["reasons"][0]["message"]

    opened_otherwise = View(open_job(directory), ViewOptions(profile_mode="torch"))
    result = metrics()["coll_call_num"].run(opened_otherwise)
    assert result.reason == "mode_mismatch"


def test_active_sms_are_the_mean_of_readings_in_the_steps(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.range("step 1", 100, 200)
    process.kernel("gemm", 120, 180, launched=110)
    export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=4, metricName="SM Active")
    for time, value in ((110, 90), (130, 40), (150, 60), (179, 80), (190, 90)):
        export.add("GPU_METRICS", timestamp=time, typeId=0, metricId=4, value=value)
    export.write(tmp_path / "a.sqlite")

    result = metrics()["sm"].run(View(open_job(tmp_path, cache_dir=tmp_path / "cache")))

    assert result.details["sm_active_pct"] == 60.0  # of the device's part of the step: 120 to 180
    assert result.details["per_rank"]["a.sqlite"]["sm_active_pct"] == 60.0
