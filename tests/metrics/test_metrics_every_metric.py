"""What holds for every metric of the registry: a new one cannot be left out."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
from factories import Event, job, kernel, rank_trace
from full_jobs import JOBS, RANKS, trained, view_of
from worked import cpu_only

from metrics import run_compare
from metrics.registry import Metric, metrics
from metrics.view import View, ViewOptions
from parsers.job import Job
from parsers.window import Window

EVERY = pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
OF_TRACES = [metric for metric in metrics().values() if metric.needs_traces]
EACH_OF_TRACES = pytest.mark.parametrize("metric", OF_TRACES, ids=lambda metric: metric.name)


@pytest.fixture(autouse=True)
def _other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run to compare with: one rank's steps as long, the job's in another order."""

    def opened(path: str | Path, **_: Any) -> Job:
        scale = float(Path(path).name)
        return job(*(trained(rank, scale) for rank in range(RANKS)), card=None)

    monkeypatch.setattr(run_compare, "open_job", opened)


def answering(metric: Metric) -> str:
    """Name of the first job that the metric answers."""
    return next((n for n in JOBS if metric.run(view_of(n)).value is not None), "training")


@EACH_OF_TRACES
def test_a_job_answers_it(metric: Metric) -> None:
    """Else the properties below would hold of nothing."""
    result = metric.run(view_of(answering(metric)))

    assert result.value is not None, [reason.message for reason in result.reasons]
    assert set(result.details) == set(metric.keys)


@EVERY
def test_ranks_in_any_order(metric: Metric) -> None:
    name = answering(metric)
    orders = [tuple(range(RANKS)), *list(itertools.permutations(range(RANKS)))[7::8]]
    found = [metric.run(view_of(name, ranks=order)) for order in orders]

    assert len({result.value for result in found}) == 1
    assert len({result.status for result in found}) == 1


RATES = ("GB/s", "tokens/s", "TFLOPS")


@EVERY
def test_a_job_twice_as_slow_has_the_same_shares(metric: Metric) -> None:
    """Shares and counts stay; times double, rates halve. MFU is a rate in disguise."""
    name = answering(metric)
    one, slow = metric.run(view_of(name)), metric.run(view_of(name, scale=2.0))

    assert one.status == slow.status
    if one.value is None or slow.value is None:
        assert one.reason == slow.reason
    elif metric.unit in ("ms", "us"):
        assert slow.value == pytest.approx(2 * one.value, abs=1e-6)
    elif metric.unit in RATES or metric.name in ("mfu", "link_utilization"):
        assert slow.value == pytest.approx(one.value / 2)
    else:
        assert slow.value == pytest.approx(one.value)


SUMS: dict[str, tuple[str, ...]] = {
    "coll_call_num": ("total_calls",),
    "comm_comp_overlap": (
        *("comm_time_ms", "comp_time_ms", "overlap_time_ms", "exposed_comm_ms", "mem_time_ms"),
        *("idle_ms", "window_ms", "comm_sum_ms", "comp_sum_ms", "num_comm_kernels"),
    ),
    "traffic_distribution": ("total_bytes", "tp_bytes", "ep_bytes", "total_comm_calls"),
    "straggler_lag": ("num_collectives",),
    "collective_volume": ("total_message_bytes", "total_wire_bytes", "num_collectives"),
    "communication_fraction": ("comm_time_ms", "busy_ms"),
    "dominant_kernel": ("kernel_time_ms",),
    "exposed_communication": ("exposed_comm_ms", "comm_time_ms"),
    "gpu_busy": ("busy_ms", "useful_busy_ms", "window_ms"),
    "idle_causes": ("idle_ms",),
    "idle_ratio": ("idle_ms", "window_ms"),
    "kernel_categories": ("work_time_ms",),
    "memory_transfer": ("uncovered_mem_ms", "mem_time_ms", "num_copies", "total_bytes"),
    "moe_fraction": ("moe_ms", "expert_comm_ms", "kernel_time_ms"),
    "network_utilization": ("wire_bytes",),
    "temporal_breakdown": (
        *("window_ms", "idle_ms", "comp_only_ms", "comm_only_ms", "overlap_ms"),
        *("mem_only_ms", "other_comm_ms"),
    ),
    "trace_tflops": ("total_flops", "num_products"),
    "alltoall_imbalance": (),
    "busbw": ("num_collectives",),
    "node_locality": (),
}
"""Keys whose values of two windows that make up the job add up to that of the whole job."""

NO_SUMS: dict[str, str] = {
    "blame_chain": "chains reach back beyond the start of a window",
    "clock_offsets": "clocks are told from the whole job",
    "collective_mismatches": "counts what the whole job matches",
    "critical_path": "a path of its own for each window",
    "fix_first": "an estimate over steps",
    "hockney": "a fit",
    "iter_time": "steps belong to a window whole",
    "launch_bound": "a window cuts gaps in two",
    "link_utilization": "a mean",
    "mfu": "a mean over steps",
    "pipeline_bubble": "a share; of stages that wait for one another",
    "rank_imbalance": "a maximum over ranks",
    "run_compare": "a mean over steps",
    "sm": "means weighted by time",
    "step_variability": "needs three steps",
    "straggler_cause": "causes begin before the window",
    "trace_proxy_latency": "medians",
    "traffic_window": "slack between bursts",
    "wait_vs_transfer": "a mean over instances",
    "what_if_no_straggler": "a replay of whole steps",
}


@functools.cache
def halved(name: str) -> list[View]:
    """A whole job, and its two halves: the edge is in a kernel of the second step."""
    whole, edge = view_of(name).with_options(span="trace"), 1_310_000
    windows = (Window(None, edge), Window(edge, None))
    return [whole, *(whole.with_options(window=window) for window in windows)]


@EACH_OF_TRACES
def test_windows_add_up(metric: Metric) -> None:
    assert (metric.name in SUMS) != (metric.name in NO_SUMS), (
        "say whether windows add up, or why not"
    )
    of_whole, *of_parts = (metric.run(view).details for view in halved(answering(metric)))

    for key in SUMS.get(metric.name, ()):
        assert of_whole[key] == pytest.approx(sum(part[key] or 0 for part in of_parts)), key


def test_no_metric_is_listed_that_is_gone() -> None:
    assert {*SUMS, *NO_SUMS} == {metric.name for metric in OF_TRACES}


WITHOUT: dict[str, tuple[View, set[str]]] = {
    "GPU kernels": (View(job(cpu_only(0), cpu_only(1))), {"no_gpu_events", "no_collectives"}),
    "device events": (View(job(cpu_only(0))), {"no_gpu_events"}),
    "step markers": (
        View(
            job(*(rank_trace(r, gpu=[kernel("gemm", 0, 9)]) for r in range(2))),
            ViewOptions(overrides={"against": "/1.0"}),
        ),
        {"no_step_markers", "not_applicable", "no_collectives"},
    ),
    "workload card": (View(job(*(trained(rank) for rank in range(RANKS)))), {"no_card"}),
    "collectives": (
        View(job(*(rank_trace(r, gpu=[kernel("gemm", 0, 9)]) for r in range(2)))),
        {"no_collectives", "not_applicable"},
    ),
    "2 ranks": (View(job(trained(0))), {"single_rank", "unmatched_collectives", "no_collectives"}),
}
"""What a metric may need, by how its words begin: a job without it, and the reasons to expect."""

ANSWERED_WITHOUT = {
    ("communication_fraction", "collectives"),
    ("network_utilization", "collectives"),  # no collective is no traffic: a real zero
    ("clock_offsets", "collectives"),  # ranks of one host share a clock
}


@pytest.mark.parametrize(
    ("metric", "need"),
    [
        pytest.param(metric, need, id=f"{metric.name}-{need}")
        for metric in OF_TRACES
        for need in WITHOUT
        if any(text.startswith(need) and ", or" not in text for text in metric.needs)
        and (metric.name, need) not in ANSWERED_WITHOUT
    ],
)
def test_without_what_it_needs_it_says_what_is_missing(metric: Metric, need: str) -> None:
    view, codes = WITHOUT[need]
    result = metric.run(view)

    if need == "2 ranks" and "of one rank: a lower bound" in " ".join(metric.needs):
        assert result.status == "partial"
        return
    assert (result.status, result.value) == ("unavailable", None)
    assert result.reason in codes
    assert all(value is None for value in result.details.values())


HOSTILE = {
    "no rank": job(kinds=()),
    "no event": job(rank_trace(0)),
    "two marks": job(rank_trace(0, gpu=[kernel("k", 0, 0)], annotations=[Event("x", 0, 0, 1)])),
    "one kernel without length": job(rank_trace(0, gpu=[kernel("k", 5, 0)], world_size=4096)),
    "two of one rank": job(trained(1), rank_trace(1, gpu=[kernel("k", 0, 1)], label="1 (b)")),
}


@functools.cache
def odd_views(name: str) -> list[View]:
    options = (ViewOptions(), ViewOptions(span="trace"), ViewOptions(steps=(7, 9)))
    return [View(HOSTILE[name], one) for one in options]


@EVERY
@pytest.mark.parametrize("name", HOSTILE)
def test_odd_jobs_are_refused_or_answered_never_broken(metric: Metric, name: str) -> None:
    for view in odd_views(name):
        result = metric.run(view)

        assert result.reason != "internal_error", result.reasons[0].message
        assert (result.value is None) <= (result.status != "ok")
        assert result.reasons or result.status == "ok"
