"""Execution traces beside real Kineto traces: two records of the same operators must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.model.flops import flops_of
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.execution_trace import read_execution_trace

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    ("folder", "name", "rank"),
    [
        ("traces/astra-sim/megatron-tp8", "megatron_et_{}.json.gz", 3),
        ("recorded/fsdp_4", "torch_et_{}.json.gz", 2),
        ("recorded/ddp_2", "torch_et_{}.json.gz", 1),
    ],
)
def test_both_tell_the_same_products(
    shared: Path, tmp_path: Path, folder: str, name: str, rank: int
) -> None:
    execution = read_execution_trace(shared / folder / name.format(rank), shown=name)
    job = open_job(shared / folder, cache_dir=tmp_path, jobs=1)

    details = (
        find("trace_tflops")
        .run(View(job, ViewOptions(span="trace", ranks=frozenset({rank}))))
        .details
    )

    counted = [flops_of(one.name, one.shapes) for one in execution.products]
    assert details["total_flops"] == sum(flops for flops in counted if flops is not None) > 0
    assert details["num_products"] == sum(flops is not None for flops in counted)


def test_collectives_of_megatron_get_operation_group_and_number(
    shared: Path, tmp_path: Path
) -> None:
    view = View(open_job(shared / "traces/astra-sim/megatron-tp8", cache_dir=tmp_path, jobs=1))

    details = find("coll_call_num").run(view).details

    assert details["total_calls"] == 672  # golden
    assert details["num_without_metadata"] == 0
    assert [(row["ranks"], row["type"]) for row in details["calls_by_group"]] == [
        (list(range(8)), "AllReduce")
    ]
    assert details["api_calls"] == 8 * 85  # one more, of a group of one rank
    traffic = find("traffic_distribution").run(view)
    assert traffic.details["bytes_coverage"] == 1.0


def test_steps_of_execution_traces_alone_give_a_throughput(shared: Path, tmp_path: Path) -> None:
    for path in (shared / "recorded/fsdp_4").glob("torch_et_*"):
        (tmp_path / path.name).symlink_to(path)
    overrides = {"batch_size": 8, "batch_size_scope": "global", "seq_len": 32}
    view = View(open_job(tmp_path, jobs=1), ViewOptions(overrides=overrides))

    result = find("throughput_tokens").run(view)

    assert (result.status, result.reason) == ("partial", "no_trace")
    assert (result.details["num_iterations"], result.details["total_tokens"]) == (3, 768)
    assert result.value == pytest.approx(768 / 6.071, rel=1e-6)
    assert "no node has a time" in result.basis["duration"]
    assert find("iter_time").run(view).reason == "no_trace"
