"""Metrics of training runs: recorded figures, contradictions and missing artifacts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from runs_by_hand import (
    BASELINE,
    CAPTURE_A,
    CAPTURE_B,
    COMMIT_A,
    document,
    pair,
    put_run,
    view_of,
    with_capture,
)

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.runs.completeness import completeness, run_table
from ccltui.metrics.runs.key_figures import loss, rate_curve, step_times, throughput
from ccltui.metrics.runs.nccl_calls import nccl_calls
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.discovery.discover import discover


def measure(path: Path, name: str, **overrides: Any) -> Result:
    view = view_of(path)
    return find(name).run(view.with_options(overrides=overrides))


def only(path: Path) -> Run:
    (run,) = read_runs(discover(path))
    return run


def steps_text(count: int, **more: Any) -> str:
    rows = [
        {"step": s, "loss": 10 - s / 10, "step_time_sec": 0.1, "tokens": 1000, **more}
        for s in range(1, count + 1)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_throughput_of_the_run_asked_for(tmp_path: Path) -> None:
    pair(tmp_path)

    first = measure(tmp_path, "run_throughput")
    second = measure(tmp_path, "run_throughput", run="bucket200_300")

    assert (first.status, first.source) == ("ok", "side_file")
    assert first.value == 29971.22824616126
    assert second.value == 35806.75274368032
    assert second.details["tokens_per_s_per_gpu"] == 35806.75274368032 / 8
    assert [row["run"] for row in first.details["runs"]] == ["accum2_300", "bucket200_300"]
    assert "2 runs, which are never averaged" in first.warnings[0]


def test_the_line_of_completion_in_a_log_of_a_rank_is_no_run_of_its_own(tmp_path: Path) -> None:
    line = "[Rank 0] RUN_COMPLETE world_size=2 tokens_per_sec=5.00 total_wall_time_sec=1.00\n"
    run = put_run(tmp_path / "a", BASELINE)
    logs = run / "torchrun_logs" / "node1" / "attempt_0" / "0"
    logs.mkdir(parents=True)
    (logs / "stdout.log").write_text(line)
    alone = tmp_path / "b"
    alone.mkdir()
    (alone / "stdout.log").write_text(line)

    found = read_runs(discover(tmp_path))

    assert [run.name for run in found] == ["a", "b"]
    assert only(run).name == "a"


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    pair(tmp_path)

    result = measure(tmp_path, "run_throughput", run="nowhere")

    assert (result.status, result.reason) == ("unavailable", "no_side_file")
    assert "there are accum2_300, bucket200_300" in result.reasons[0].message


def test_percentiles_of_six_samples_have_a_warning(tmp_path: Path) -> None:
    pair(tmp_path)

    result = measure(tmp_path, "run_step_time")

    assert (result.status, result.reason) == ("partial", "sampled_steps")
    assert (result.details["num_samples"], result.details["num_steps"]) == (6, 300)
    assert result.details["num_samples_stated"] is False
    assert result.details["coverage_ratio"] == pytest.approx(0.1896, abs=5e-5)
    assert result.details["step_time_p95_ms"] == pytest.approx(77.409, abs=5e-4)
    assert result.reasons[0].message == (
        "step times, p95 too, rest on 6 of 300 micro-steps (computed, not stated) and cover 19 % "
        "of the training wall time"
    )


def test_a_single_sample_has_a_warning_too(tmp_path: Path) -> None:
    epoch = {**BASELINE, "micro_steps": 80, "steps": 80}
    put_run(tmp_path, document(epoch, COMMIT_A))

    assert measure(tmp_path, "run_step_time").details["num_samples"] == 1


def test_step_times_of_all_steps_are_whole(tmp_path: Path) -> None:
    epoch = {
        **BASELINE,
        "epoch_wall_time_sec": 30.0,
        "step_time_mean_sec": 0.1,
        "step_time_num_samples": 300,
        "step_time_sampling": "all",
    }
    put_run(tmp_path, document(epoch, COMMIT_A))

    result = measure(tmp_path, "run_step_time")

    assert (result.status, result.details["caveat"]) == ("ok", "")
    assert result.details["coverage_ratio"] == pytest.approx(1.0)


def test_logged_steps_take_precedence_over_stated_figures(tmp_path: Path) -> None:
    put_run(tmp_path, document({**BASELINE, "epoch_wall_time_sec": 10.0}, COMMIT_A))
    (tmp_path / "training_steps.jsonl").write_text(steps_text(100))

    run = only(tmp_path)
    times, losses = step_times(run), loss(run)

    assert times is not None
    assert losses is not None
    assert (times.num_samples, times.p50_s) == (100, 0.1)
    assert times.coverage == pytest.approx(1.0)
    assert (losses.last_train, losses.best_val, len(losses.curve)) == (0.0, 7.282568359375, 100)
    assert rate_curve(run)[:2] == (10_000.0, 10_000.0)


def test_the_loss_of_a_run_is_its_last_step_or_the_mean_of_its_last_epoch(tmp_path: Path) -> None:
    whole = put_run(tmp_path / "whole", document(BASELINE, COMMIT_A))
    logged = put_run(tmp_path / "logged", document(BASELINE, COMMIT_A))
    (logged / "training_steps.jsonl").write_text(steps_text(40))

    of_epoch, of_steps = measure(whole, "run_loss"), measure(logged, "run_loss")

    assert (of_epoch.value, of_epoch.unit) == (8.2418359375, "nats")
    assert of_epoch.details["best_val_loss"] == 7.282568359375
    assert (of_steps.value, of_steps.details["num_points"]) == (6.0, 40)


def test_contradicting_numbers_have_a_warning(tmp_path: Path) -> None:
    epoch = {**BASELINE, "tokens_processed_global": 5_000_000}
    put_run(tmp_path, document(epoch, COMMIT_A))

    warnings = measure(tmp_path, "run_throughput").warnings

    assert "micro-steps is 2,457,600" in warnings[0]
    assert "its tokens over its wall time are 60,976.62" in warnings[1]


def test_profiled_runs_are_no_evidence(tmp_path: Path) -> None:
    run = put_run(tmp_path, document(BASELINE, COMMIT_A), switches={"NSYS": "1"})
    with_capture(run, CAPTURE_B)

    result = measure(tmp_path, "run_throughput")

    assert result.details["profiled"] is True
    assert "nsys was recording: the throughput may be lower than without it" in result.warnings


def test_calls_per_backward_and_not_calls(tmp_path: Path) -> None:
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A, grad_accum_steps=1))
    b = put_run(tmp_path / "b", document(BASELINE, COMMIT_A))
    with_capture(a, CAPTURE_A)
    with_capture(b, CAPTURE_B)

    one = measure(tmp_path, "run_nccl_calls", run="a")
    other = measure(tmp_path, "run_nccl_calls", run="b")

    assert one.value == pytest.approx(3.0011, abs=5e-5)  # 42,748 of 14,244
    assert other.value == 1.625  # 520 of 320
    assert one.details["instances"] == {"AllReduce": 42748, "AllGather": 14212}
    # one exchange in two backward passes: per update there are not fewer
    assert other.details["allreduce_per_optimizer_step"] == 3.25


def summary_row(name: str, count: str, total: str = "27,65,96,75,62,725") -> dict[str, Any]:
    """An entry as it is made from a printed row."""
    nanoseconds = total.replace(",", "")
    raw = f"     53.9  {total}     {count}  19,41,84,748.9  12,36,84,299.5  PushPop  {name}   "
    return {
        "kind": "nvtx",
        "name": name,
        "time_percent": 53.9,
        "total_time": f"{nanoseconds} ns",
        "raw": raw,
    }


def test_without_the_text_the_summary_counts(tmp_path: Path) -> None:
    run = put_run(tmp_path, document(BASELINE, COMMIT_A))
    rows = [
        summary_row(":DeepSpeedEngine.backward", "14,244"),
        summary_row("NCCL:ncclAllReduce", "42,748"),
        {**summary_row("NCCL:ncclAllGather", "14,212"), "total_time": "5 ns"},  # another row's
        {"name": 5},
    ]
    (run / "profile_summary.json").write_text(json.dumps({"nvtx_top5": rows, "inputs": []}))

    details = measure(tmp_path, "run_nccl_calls").details

    assert details["allreduce_per_backward"] == pytest.approx(42748 / 14244)
    assert details["instances"] == {"AllReduce": 42748}
    assert details["files"] == ["profile_summary.json"]
    calls = nccl_calls(only(tmp_path))
    assert calls is not None
    assert calls.per_backward("AllGather") is None  # not among the largest: not told


def test_captures_without_backward_passes_do_not_count(tmp_path: Path) -> None:
    run = put_run(tmp_path, document(BASELINE, COMMIT_A))
    with_capture(run, {"NCCL:ncclAllReduce": 7_000_000}, "node-12", "b")
    with_capture(run, CAPTURE_B, "node-13")

    calls = nccl_calls(only(tmp_path))

    assert calls is not None
    assert calls.per_backward("AllReduce") == 1.625
    assert calls.per_backward("Broadcast") == 0.0  # the whole text does not list it


def test_one_capture_in_two_texts_counts_once(tmp_path: Path) -> None:
    run = put_run(tmp_path, document(BASELINE, COMMIT_A))
    with_capture(run, CAPTURE_B, "node-13")
    with_capture(run, CAPTURE_B, "node-13_again")

    result = measure(tmp_path, "run_nccl_calls")

    assert (result.details["num_backward"], result.value) == (320, 1.625)


def test_a_killed_run_is_incomplete_and_lists_missing_artifacts(tmp_path: Path) -> None:
    log = "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***\n"
    switches = {"NSYS": "0", "NCCL_LOGS": "1", "GPT2_EXTRA_ARGS": "--max_train_steps 80"}
    put_run(tmp_path, None, complete=False, log=log, switches=switches)
    (tmp_path / "training_steps.jsonl").write_text(steps_text(37) + '{"step": 38, "lo')

    done = completeness(only(tmp_path))
    rate = measure(tmp_path, "run_throughput")

    assert (done.state, done.last_step, done.total_steps) == ("incomplete", 37, 80)
    assert done.missing == (
        "training_metrics.json",
        "RUN_COMPLETE.txt",
        "nccl_rank_*.log",
        "nccl_topo.xml",
        "ibstat.txt",
        "topo.txt",
    )
    assert done.present == ("launcher_metadata.json", "train.log", "training_steps.jsonl")
    assert done.faults == ("missing_metrics",)
    assert "DUE TO TIME LIMIT" in done.ended
    assert (rate.status, rate.reason, rate.value) == ("partial", "incomplete_run", 10_000.0)
    assert measure(tmp_path, "run_completeness").value == 1


def test_broken_files_are_missing_and_listed_in_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "training_metrics.json").write_bytes(b"\x00\xff" * 500)
    (tmp_path / "launcher_metadata.json").write_text('{"world_size": 8, "slu')
    (tmp_path / "RUN_COMPLETE.txt").write_text("")

    run = only(tmp_path)

    assert run.problems == (
        "training_metrics.json: binary data in no format known here",
        "launcher_metadata.json: not valid JSON: Unterminated string in line 1",
        "RUN_COMPLETE.txt: an empty file",
    )
    assert completeness(run).present == ()
    result = measure(tmp_path, "run_throughput")
    assert result.status == "unavailable"
    assert [reason.code for reason in result.reasons] == ["no_side_file"] * 4


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"log": None}, "missing_log"),
        ({"drop": "run_id"}, "invalid_schema: without run_id"),
        ({"name": "4gpu_run1"}, "world_size_mismatch: 4 against 8"),
        ({}, None),
    ],
)
def test_verification_codes(tmp_path: Path, change: dict[str, Any], fault: str | None) -> None:
    metrics = document(BASELINE, COMMIT_A)
    metrics.pop(change.get("drop", ""), None)
    put_run(tmp_path / change.get("name", "run"), metrics, log=change.get("log", "x\n"))

    assert completeness(only(tmp_path)).faults == (() if fault is None else (fault,))


TITAN = "".join(
    f"[rank0]:[titan] 2026-01-01 00:00:{s:02d},000 - root - INFO - step: {s}  loss: {10 - s}.5  "
    f"tps: {1000 * s}\n"
    for s in range(1, 5)
)


def test_a_log_alone_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "job.out").write_text("WORLD_SIZE=4\n" + TITAN + "Training completed\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "job.out").write_text(TITAN)

    one, two = read_runs(discover(tmp_path))

    rate = throughput(one)
    assert rate is not None
    assert (one.name, two.name) == ("one", "two")
    assert rate.tokens_per_s == 3000 * 4  # the median of all lines but the first, on 4 devices
    assert throughput(two) is None  # nothing says how many devices there are
    assert completeness(one).state == "complete"
    assert completeness(two).state == "incomplete"
    assert completeness(two).sentence == "incomplete: step 4"


def test_a_log_of_one_device_takes_the_world_of_the_traces_beside_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train_7.out").write_text(TITAN + "Training completed\n")
    without = measure(tmp_path, "run_throughput")
    head = (
        '{"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": %d, "world_size": 6}'
    )
    (tmp_path / "traces").mkdir()
    for rank in range(2):
        text = head % rank + ', "traceEvents": []}'
        (tmp_path / "traces" / f"rank{rank}_trace.json").write_text(text)

    result = measure(tmp_path, "run_throughput")

    assert (without.status, without.reason) == ("unavailable", "no_side_file")
    assert "states 3,000 tokens/s of one device" in without.reasons[0].message
    assert (result.value, result.details["world_size"]) == (3000 * 6, 6)


def test_nested_runs_take_their_own_files(tmp_path: Path) -> None:
    put_run(tmp_path, document(BASELINE, COMMIT_A))
    put_run(tmp_path / "inner", document(BASELINE, COMMIT_A))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train_1.out").write_text(TITAN)

    outer, inner = read_runs(discover(tmp_path))

    assert outer.name == tmp_path.name
    assert inner.name == "inner"
    assert outer.log is not None
    assert len(outer.log) == 4
    assert all(file.path.startswith("inner/") for file in inner.folder.files)


@pytest.mark.parametrize(
    "name", ["run_throughput", "run_step_time", "run_loss", "run_completeness", "run_nccl_calls"]
)
def test_without_runs_every_metric_is_unavailable(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.log").write_text("nothing of use\n")

    result = measure(tmp_path, name)

    assert (result.status, result.reason, result.value) == ("unavailable", "no_side_file", None)


@pytest.mark.shared
def test_recorded_runs(shared: Path) -> None:
    runs = {run.name: run for run in read_runs(discover(shared / "recorded"))}

    deepspeed = runs["deepspeed_2"]
    rate = throughput(deepspeed)
    assert rate is not None
    assert rate.tokens_per_s == 11853.221219497387
    assert completeness(deepspeed).state == "complete"
    assert completeness(deepspeed).missing == ("train.log",)
    losses = loss(runs["ddp_2"])
    assert losses is not None
    assert (losses.last_train, len(losses.curve)) == (5.7387309074401855, 6)
    assert runs["ddp_2"].world_size == 2


def test_a_selection_of_steps_does_not_touch_runs(tmp_path: Path) -> None:
    pair(tmp_path)
    view = view_of(tmp_path).with_options(steps=(1, 2))

    assert find("run_throughput").run(view).value == 29971.22824616126


@pytest.mark.shared
def test_the_published_capture_of_the_baseline(shared: Path, tmp_path: Path) -> None:
    run = put_run(tmp_path, document(BASELINE, COMMIT_A, grad_accum_steps=1))
    (run / "profiles").mkdir()
    text = (shared / "nsys" / "gpt2-deepspeed" / "nsys_stats_gn-0011.txt").read_bytes()
    (run / "profiles" / "nsys_stats_gn-0011.txt").write_bytes(text)

    details = measure(tmp_path, "run_nccl_calls").details

    assert (details["num_backward"], details["instances"]["AllReduce"]) == (14244, 42748)
    assert details["allreduce_per_backward"] == pytest.approx(3.00, abs=0.005)
    assert details["per_backward"]["AllGather"] == pytest.approx(14212 / 14244)


def test_any_damage_leaves_a_table(tmp_path: Path) -> None:
    pair(tmp_path)
    with_capture(tmp_path / "accum2_300", CAPTURE_A)
    (tmp_path / "accum2_300" / "training_steps.jsonl").write_text(steps_text(30))
    (tmp_path / "bucket200_300" / "train.log").write_text(TITAN)
    whole = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    chance = random.Random(3)

    for _ in range(25):
        for path, data in whole.items():
            cut = bytearray(data[: chance.randrange(len(data) + 1)])
            for _ in range(chance.randrange(4)):
                place = chance.randrange(len(cut) + 1)
                cut[place : place + 1] = bytes([chance.randrange(256)]) * 3
            path.write_bytes(bytes(cut))
        rows = run_table(discover(tmp_path))
        said = [text for row in rows for text in (*row.remarks, row.completeness.sentence)]
        assert {row.name for row in rows} == {"accum2_300", "bucket200_300"}
        assert not any("\n" in text for text in said)
