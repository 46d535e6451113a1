"""Runs and Cluster: where there is no trace, and beside traces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from explorers import Settle, Start, listed, pane, pane_text
from runs_by_hand import BUCKET200 as EPOCH
from runs_by_hand import CAPTURE_B, document, pair, put_run, with_capture
from textual.pilot import Pilot

from ccltui.tui.app import Explorer
from ccltui.tui.engine.loader import run_load
from ccltui.tui.export import command_line, rows_of
from ccltui.tui.panes import runs_and_machines
from ccltui.tui.panes.runs_and_machines import RUNS as RUNS_PANE
from ccltui.tui.state.pane_states import CLUSTER, OVERVIEW, RANKS, RUNS

SIZES = [(80, 24), (120, 40), (200, 50)]
Compare = Callable[..., bool]
Open = Callable[..., Explorer]


def killed(folder: Path) -> Path:
    """A run that a time limit ended at step 37 of 80."""
    log = (
        "slurmstepd: error: *** JOB 5 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME "
        "LIMIT ***\n"
    )
    switches = {"NSYS": "0", "NCCL_LOGS": "1", "GPT2_EXTRA_ARGS": "--max_train_steps 80"}
    put_run(folder, None, complete=False, switches=switches, log=log)
    steps = [
        {"step": s, "loss": 10 - s / 10, "step_time_sec": 0.04 + s % 5 / 100, "tokens": 16384}
        for s in range(1, 38)
    ]
    text = "".join(json.dumps(step) + "\n" for step in steps)
    (folder / "training_steps.jsonl").write_text(text + '{"step": 38, "lo')
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: two alike, and one that was killed."""
    root = tmp_path / "runs"
    pair(root)
    killed(root / "killed")
    return root


BENCHMARK = """\
timestamp: 2026-01-01T10:00:00.000000
hostname: worker-3
total_time: 172.49 seconds
results:
  Inter-Node Network:
    Latency (ping-pong): 0.02 ms
    Bandwidth (ping-pong, 24 GPUs): 309.57 GB/s
    All-to-all bandwidth (24 GPUs): 6629.62 GB/s
  GPU 0:
    Memory bandwidth: 3960.35 GB/s
    Compute (FP32 matmul): 6.16 TFLOPS
  GPU 1:
    Memory bandwidth: 3979.42 GB/s
    Compute (FP32 matmul): 51.34 TFLOPS
  GPU 2:
    Memory bandwidth: 3980.88 GB/s
    Compute (FP32 matmul): 51.37 TFLOPS
  GPU 3:
    Memory bandwidth: 3981.07 GB/s
    Compute (FP32 matmul): 51.37 TFLOPS
  Inter-GPU Communication:
    All-reduce (24 GPUs): 200.34 GB/s
    All-to-all (24 GPUs): 56.68 GB/s
  CPU:
    Sorting (NumPy): 75.15 M elements/s
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A benchmark, a broken one, a log of NCCL and ibstat."""
    root = tmp_path / "cluster"
    root.mkdir()
    (root / "benchmark_1.yaml").write_text(BENCHMARK)
    (root / "benchmark_2.yaml").write_text("hostname: a\nresults:\n  CPU: {a: 1 b: 2}\n")
    (root / "nccl_rank_0.log").write_text(
        "n1:7:9 [0] NCCL INFO NCCL version 2.26.2+cuda12.8\n"
        "n1:7:9 [0] NCCL INFO Using network IB\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer\n"
        "n1:7:9 [0] NCCL WARN Call to connect returned \x1b[31mConnection refused\n"
    )
    (root / "ibstat.txt").write_text(
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 100\n"
    )
    return root


@pytest.fixture
def opened(start: Start) -> Open:
    """Explorers of real directories, in which nothing is computed from traces."""

    def make(path: Path, color: str = "256") -> Explorer:
        return start(run_load, color, str(path))

    return make


async def test_a_directory_of_runs_opens_in_runs(opened: Open, runs: Path) -> None:
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)

        assert pane(app) == RUNS
        rows = RUNS_PANE.rows(app.scene)
        assert rows is not None
        assert [row.name for row in rows] == ["accum2_300", "bucket200_300", "killed"]
        text = pane_text(app)
        assert "29,971" in text
        assert "77.41 !" in text  # six samples
        assert "x incomplete" in text
        assert "rest on 6 of 300 micro-steps" in text


async def test_a_profiled_run_shows_its_calls(opened: Open, tmp_path: Path) -> None:
    metrics = document(EPOCH, "ba034200094e")
    run = put_run(tmp_path / "nsys80", metrics, switches={"NSYS": "1", "NCCL_LOGS": "0"})
    with_capture(run, CAPTURE_B)
    app = opened(tmp_path)
    async with app.run_test(size=(200, 50)) as pilot:
        await listed(pilot)

        text = pane_text(app)
        assert "1.625" in text
        assert "nsys was recording: its throughput may be lower than without" in text


async def test_a_killed_run_says_what_is_missing(opened: Open, runs: Path) -> None:
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("j", "j")
        await pilot.pause()

        text = pane_text(app)
        assert "▶killed" in text
        assert "incomplete: step 37 of 80; missing: training_metrics.json" in text
        assert "DUE TO TIME" in text
        assert "line 38 is cut off" in text
        assert "█" in text  # the trend of its loss, from 0


async def test_machines_say_what_cannot_be(opened: Open, cluster: Path) -> None:
    app = opened(cluster)
    async with app.run_test(size=(160, 45)) as pilot:
        await listed(pilot)

        assert pane(app) == CLUSTER
        text = pane_text(app)
        assert "x problem" in text  # the broken benchmark
        rows = runs_and_machines.CLUSTER.rows(app.scene)
        assert rows is not None
        marks = {(row.section, row.what): row.mark for row in rows}
        assert marks["GPU 0", "Compute (FP32 matmul)"] == "outlier"
        assert marks["Inter-Node Network", "All-to-all bandwidth (24 GPUs)"] == "impossible"
        assert marks["network cards", "mlx5_0 port 1"] == "problem"
        warning = next(row for row in rows if row.what == "warning")
        assert "\x1b" not in warning.message


async def test_long_logs_are_read_by_another_process(opened: Open, runs: Path) -> None:
    log = runs / "accum2_300" / "train.log"
    log.write_text("step: 1  loss: 9.5\n" + "noise of a log\n" * 80_000 + "step: 9  loss: 3.5\n")
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(100):
            await pilot.pause(0.2)
            if RUNS_PANE.rows(app.scene):
                break

        (first, *_) = RUNS_PANE.rows(app.scene) or ()
        assert first.loss_curve == (9.5, 3.5)


async def test_leaving_ends_the_reading(opened: Open, runs: Path) -> None:
    log = runs / "accum2_300" / "train.log"
    log.write_text("noise of a log\n" * 80_000)
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        await pilot.press("q")

    assert app.return_value == 0


async def test_the_panes_are_only_offered_where_there_is_something(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("7")
        await pilot.pause()

        assert pane(app) == OVERVIEW
        assert app.scene.notice.startswith("no run here")
        await pilot.press("8")
        await pilot.pause()
        assert app.scene.notice.startswith("nothing about machines here")
        await pilot.press("shift+tab")
        await pilot.pause()
        assert pane(app) == RANKS  # the last pane that there is


async def test_rows_can_be_written_and_said_as_a_command(opened: Open, runs: Path) -> None:
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)

        (first, *_) = rows_of(app.scene)
        assert first["name"] == "accum2_300"
        assert first["tokens_per_s"] == 29971.22824616126
        assert (first["state"], first["missing"]) == ("complete", "")
        line = command_line(app.scene, app.options)
        assert line == f"ccltui {runs} --metric run_throughput"


async def test_a_directory_with_both_offers_both(opened: Open, runs: Path, cluster: Path) -> None:
    (runs / "ibstat.txt").write_text((cluster / "ibstat.txt").read_text())
    app = opened(runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("8")
        await listed(pilot)

        assert pane(app) == CLUSTER
        assert "mlx5_0 port 1" in pane_text(app)
        await pilot.press("tab")
        await pilot.pause()
        assert pane(app) == OVERVIEW


def after(*keys: str) -> Callable[[Pilot[int]], object]:
    """Wait for the rows, type, wait."""

    async def run(pilot: Pilot[int]) -> None:
        await listed(pilot)
        await pilot.press(*keys)
        await asyncio.sleep(0)
        await listed(pilot)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_picture_of_runs(
    snap_compare: Compare, opened: Open, runs: Path, size: tuple[int, int]
) -> None:
    assert snap_compare(opened(runs), terminal_size=size, run_before=after("j", "j"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_picture_of_machines(
    snap_compare: Compare, opened: Open, cluster: Path, size: tuple[int, int]
) -> None:
    assert snap_compare(opened(cluster), terminal_size=size, run_before=after("j", "j", "j"))


def test_picture_of_runs_without_colour(snap_compare: Compare, opened: Open, runs: Path) -> None:
    app = opened(runs, "never")

    assert snap_compare(app, terminal_size=(80, 24), run_before=after("j", "j"))
