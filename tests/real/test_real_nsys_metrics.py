"""Metrics of real files of nsys, against what others measured in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find, metrics
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

DDP53 = "nsys/ddp53/profiles/ddp53_profile.sqlite"
BEFORE = "nsys/nsys-ai/mfu_2gpu_before.sqlite"


def answer(name: str, path: Path) -> dict[str, Any]:
    return find(name).document_of(path)


def test_the_late_device_of_two(shared: Path) -> None:
    calls = answer("coll_call_num", shared / BEFORE)
    assert (calls["calls_by_type"]["SendRecv"], calls["total_calls"]) == (66, 66)
    assert calls["calls_per_rank"] == {"0": 33, "1": 33}

    overlap = answer("comm_comp_overlap", shared / BEFORE)
    assert [overlap["per_rank"][r]["comm_time_ms"] for r in "01"] == [17.172652, 8.2291]

    lag = answer("straggler_lag", shared / BEFORE)
    assert (lag["stragglers"], lag["num_collectives"]) == ([1], 33)
    assert lag["match"]["overlap_pass_ratio"] == 1.0
    assert lag["blame"]["1"]["last_count"] == 20
    # By starts on the node's one clock GPU 1 is last 22 times; two of them lie below the floor.
    assert lag["wait_us"]["0"] == pytest.approx(11_395.541)
    assert lag["lag_aligned"]["wait_us"] == {"0": 10_898.336, "1": 2_477.48}

    traffic = answer("traffic_distribution", shared / BEFORE)
    assert (traffic["reason"], traffic["total_bytes"]) == ("no_message_size", None)
    assert answer("iter_time", shared / BEFORE)["reason"] == "no_step_markers"


def test_overlap_of_a_real_run_is_what_another_tool_measured(shared: Path) -> None:
    split = answer("temporal_breakdown", shared / DDP53)["per_rank"]["0"]

    # nsys-ai on GPU 0: compute only 5.8, nccl only 197.1, overlap 11.9 ms.
    assert (split["comp_only_ms"], split["comm_only_ms"], split["overlap_ms"]) == (
        5.842171,
        197.10758,
        11.909144,
    )


def test_ranks_matched_by_a_real_communicator(shared: Path) -> None:
    lag = answer("straggler_lag", shared / DDP53)

    # nsys states in the file that not all NVTX events were collected.
    assert (lag["status"], lag["reason"]) == ("partial", "lost_events")
    assert (lag["num_collectives"], lag["stragglers"]) == (119, [1])
    # The ends of one of them, the second AllReduce, lie 186 us apart on the node's one clock.
    assert (lag["match"]["medium"], lag["match"]["low"]) == (118, 1)
    volume = answer("collective_volume", shared / DDP53)
    # Every parameter is broadcast once in float32 and reduced once, and eight small reductions.
    assert volume["by_type"]["Broadcast"]["message_bytes"] == 257_250_816
    assert volume["by_type"]["AllReduce"]["message_bytes"] == 257_250_816 + 5 * 24 + 3 * 4


@pytest.mark.parametrize("folder", ["nsys-ai", "ddp53", "paracodex"])
def test_every_metric_of_every_folder_answers_or_says_why_not(shared: Path, folder: str) -> None:
    view = View(open_job(shared / "nsys" / folder))

    results = {name: metric.run(view) for name, metric in metrics().items()}

    assert {n: r.reasons for n, r in results.items() if r.reason == "internal_error"} == {}
