"""Properties of the metrics that side files answer: every one of the registry has a writer here.

A writer leaves files of one experiment: ``slow`` times as slow, ``turned`` in another order, or
``twice``, with everything recorded a second time (of other requests, runs, hosts or ranks).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from inspector_lines import write_job
from runs_by_hand import BASELINE, CAPTURE_A, COMMIT_A, document, put_run, view_of, with_capture
from watchdog_logs import Said, log, waiting

from ccltui.metrics.registry import find, metrics
from ccltui.metrics.result import Result

IN_TRACES_TOO = {"findings", "throughput_tokens", "token_to_expert_assignment"}
NAMES = sorted(n for n, m in metrics().items() if not m.needs_traces and n not in IN_TRACES_TOO)

TTFTS = (0.010, 0.030, 0.020, 0.040, 0.025)
GAPS = ((0.002,), (0.004, 0.006), (), (0.006, 0.007, 0.005), (0.009,))


def requests(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    rows = list(zip(TTFTS, GAPS, strict=True)) * (2 if twice else 1)
    rows = rows[::-1] if turned else rows
    result = {
        "backend": "vllm",
        "completed": len(rows),
        "ttfts": [first * slow for first, _ in rows],
        "itls": [[gap * slow for gap in gaps] for _, gaps in rows],
        "output_lens": [len(gaps) + 1 for _, gaps in rows],
    }
    (folder / "a.json").write_text(json.dumps(result))


def run(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    """A run with results and without a mark of completion."""
    epoch = {
        key: value * slow if "time" in key else value / slow if "per_sec" in key else value
        for key, value in BASELINE.items()
    }
    written = document(epoch, COMMIT_A)
    if turned:
        written = {key: written[key] for key in reversed(written)}
    for name in ("one", "two") if twice else ("one",):
        put_run(folder / name, written, complete=False, log="step 1\n")


def killed(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    """A run that left no results; its speed is told nowhere."""
    lines = [f"step: {step}  loss: {8 - step}.5" for step in (1, 2, 3)]
    for name in ("one", "two") if twice else ("one",):
        log = "\n".join(reversed(lines) if turned else lines) + "\n" * int(slow)
        put_run(folder / name, None, complete=False, log=log)


def calls(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    rows = dict(reversed(CAPTURE_A.items())) if turned else CAPTURE_A
    wall = BASELINE["epoch_wall_time_sec"] * slow
    target = put_run(folder / "one", document({**BASELINE, "epoch_wall_time_sec": wall}, COMMIT_A))
    for host in ("node-13", "node-14") if twice else ("node-13",):
        with_capture(target, rows, host, capture=host)


RATES = (51.34, 51.37, 51.37, 51.34, 51.35, 51.36, 51.34, 6.16)


def benchmark(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    """Eight devices, one of which is slow; and a disk that reads faster than any does."""
    gpus = [
        f"  GPU {i}:\n    Compute (FP32 matmul): {rate / slow} TFLOPS\n"
        for i, rate in enumerate(RATES)
    ]
    network = (
        f"  Inter-Node Network:\n    All-to-all bandwidth (8 GPUs): {90_000 / slow} GB/s\n"
        f"  Inter-GPU Communication:\n    All-to-all (8 GPUs): {57 / slow} GB/s\n"
    )
    parts = [network, *gpus]
    text = "".join(reversed(parts) if turned else parts)
    for host in ("n1", "n2") if twice else ("n1",):
        head = f"timestamp: 2025-11-21T10:20:36\nhostname: {host}\nresults:\n"
        (folder / f"benchmark_{host}.yaml").write_text(head + text)


def nccl_tests(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    header = "#       size         count      type   redop    root     time   algbw   busbw\n"
    rows = [
        f"  {size}  {size // 4}  float  sum  -1  {time * slow}  {0.2 / slow:.4f}  "
        f"{rate / slow:.4f}  0  {time * slow}  {0.1 / slow:.4f}  {rate / slow / 2:.4f}  0\n"
        for size, time, rate in ((1024, 23.6, 0.06), (2048, 24.0, 0.28), (4096, 30.0, 0.24))
    ]
    text = "# Collective test starting: all_reduce_perf\n" + header
    text += "".join(reversed(rows) if turned else rows)
    for name in ("a", "b") if twice else ("a",):
        (folder / f"{name}.txt").write_text(text)


def nccl_logs(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    ranks = range(4 if twice else 2)
    for rank in reversed(ranks) if turned else ranks:
        lines = [
            f"n{rank}:1:1 [0] NCCL INFO NCCL version 2.26.2",
            f"n{rank}:1:1 [0] NCCL WARN waited {30 * slow:.0f} s",
            f"n{rank}:1:1 [0] NCCL WARN no 6",
        ]
        lines = [lines[0], *lines[:0:-1]] if turned else lines
        (folder / f"nccl_rank_{rank}.log").write_text("\n".join(lines) + "\n")


def snapshots(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    """Memory of two ranks, which no speed changes."""
    for rank, reserved in enumerate((600, 500)):
        segment = {"device": 0, "total_size": reserved, "allocated_size": 400, "blocks": []}
        segments = [segment, {**segment, "total_size": 100}]
        document = {"segments": segments[::-1] if turned else segments, "device_traces": []}
        for name in ("a", "b") if twice else ("a",):
            (folder / name).mkdir(exist_ok=True)
            path = folder / name / f"rank{rank}_memory_snapshot.pickle"
            path.write_bytes(pickle.dumps(document, protocol=4))


def inspected(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    for name in ("a", "b") if twice else ("a",):
        write_job(folder / name, slow=slow, turned=turned)


def hung(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    """Three ranks wait for the fourth, in the log of each host."""
    said = [*waiting([0, 1, 3], int(100 * slow)), Said(2, int(100 * slow) - 1, 1)]
    for name in ("a", "b") if twice else ("a",):
        text = log("2.8", said[::-1] if turned else said)
        (folder / f"{name}.log").write_text(text)


def logged(folder: Path, *, slow: float = 1, turned: bool = False, twice: bool = False) -> None:
    header = "Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)\n"
    rows = [
        f"{name}\n    64.0 MB  10  {ms * slow}  1.0\n"
        for name, ms in (("reduce", 3.5), ("gather", 9.0))
    ]
    for name in ("a", "b") if twice else ("a",):
        (folder / f"{name}.log").write_text(header + "".join(rows[::-1] if turned else rows))


WRITERS: Mapping[str, Callable[..., None]] = {
    "cluster_outliers": benchmark,
    "cluster_plausibility": benchmark,
    "comms_summary": logged,
    "duration_lag": inspected,
    "hang_verdict": hung,
    "inspector_busbw": inspected,
    "inspector_coverage": inspected,
    "memory_peaks": snapshots,
    "nccl_tests_busbw": nccl_tests,
    "nccl_transport": nccl_logs,
    "run_completeness": killed,
    "run_loss": run,
    "run_nccl_calls": calls,
    "run_step_time": run,
    "run_throughput": run,
    "tpot": requests,
    "ttft": requests,
}
COUNTS_TWICE = ("cluster_outliers", "cluster_plausibility", "nccl_transport", "run_completeness")
"""Metrics that count over all files; the others tell of one experiment, however many there are."""

UNITS_AT_HALF_SPEED = {"ms": 2.0, "GB/s": 0.5, "tokens/s": 0.5}
EACH = pytest.mark.parametrize("name", NAMES)


def measure(name: str, folder: Path, **how: Any) -> Result:
    folder.mkdir()
    WRITERS[name](folder, **how)
    result = find(name).run(view_of(folder))
    assert result.value is not None, [reason.message for reason in result.reasons]
    return result


def test_every_metric_of_side_files_has_a_writer() -> None:
    assert sorted(WRITERS) == NAMES


@EACH
def test_the_order_of_what_was_recorded_changes_nothing(tmp_path: Path, name: str) -> None:
    one, other = measure(name, tmp_path / "a"), measure(name, tmp_path / "b", turned=True)

    assert one.value
    assert (other.value, other.status) == (one.value, one.status)


@EACH
def test_half_the_speed_by_the_unit(tmp_path: Path, name: str) -> None:
    one, slow = measure(name, tmp_path / "a"), measure(name, tmp_path / "b", slow=2.0)

    assert one.value
    assert slow.value == pytest.approx(UNITS_AT_HALF_SPEED.get(one.unit, 1.0) * one.value)


@EACH
def test_everything_recorded_a_second_time(tmp_path: Path, name: str) -> None:
    one, two = measure(name, tmp_path / "a"), measure(name, tmp_path / "b", twice=True)

    assert one.value
    assert two.value == (2 if name in COUNTS_TWICE else 1) * one.value


@EACH
def test_files_of_something_else_change_nothing(tmp_path: Path, name: str) -> None:
    one = measure(name, tmp_path / "a")
    folder = tmp_path / "b"
    WRITERS[name](_with_strangers(folder))

    other = find(name).run(view_of(folder))

    assert (other.value, other.status, other.details) == (one.value, one.status, one.details)


def _with_strangers(folder: Path) -> Path:
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "README.md").write_text("# Nothing that is measured\n")
    (folder / "settings.json").write_text('{"seed": 3}')
    return folder
