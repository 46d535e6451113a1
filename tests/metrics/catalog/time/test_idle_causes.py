"""idle_causes: idle time divided among what the host did and what the device waited for."""

from __future__ import annotations

import itertools

import pytest
from factories import Event, job, kernel, launch, rank_trace, step
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure

from ccltui.draw.palette import IDLE_INKS
from ccltui.metrics.findings.causes.activity import host_cause
from ccltui.metrics.findings.rank_time.idle_causes import CAUSES, all_idle_times
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def example(rank: int = 0) -> RankTrace:
    """Work ends at 100 and the host launches the next at 190; four kinds of gaps follow."""
    return rank_trace(
        rank,
        annotations=[Event("enumerate(DataLoader)#_Iter.__next__", 90, 30, 1)],
        runtime=[
            launch(1, 0),
            Event("cudaStreamSynchronize", 110, 25, 1),
            Event("cudaMalloc", 130, 20, 1),
            launch(2, 190),
            launch(3, 192),
            launch(4, 194),
        ],
        cpu_ops=[Event("aten::mm", 145, 25, 1)],
        gpu=[
            Event("a", 10, 90, correlation=1),
            Event("b", 200, 100, correlation=2),  # gap 100: host 90, launch latency 10
            Event("c", 305, 95, correlation=3),  # gap 5, launched in time
            Event("d", 440, 10, correlation=4),  # gap 40, launched in time
            kernel("e", 453, 7),  # gap 3, no launch record
        ],
    )


def test_every_cause() -> None:
    result = measure("idle_causes", example())

    found = {cause: row["ms"] for cause, row in result.details["by_cause"].items()}
    assert found == {
        "data_loading": 0.02,  # [100,120)
        "checkpoint": 0.0,
        "garbage_collection": 0.0,
        "compilation": 0.0,
        "allocation": 0.02,  # [130,150)
        "synchronisation": 0.01,  # [120,130), what of it is neither data loading nor allocation
        "operators": 0.02,  # [150,170)
        "between_markers": 0.0,  # no steps are marked
        "host_other": 0.02,  # [170,190)
        "launch_latency": 0.01,
        "between_kernels": 0.005,
        "dependency": 0.04,
        "unknown": 0.003,
    }
    assert result.value == 0.09
    assert result.details["idle_ms"] == pytest.approx(0.148)
    assert result.details["host_late_ratio_of_idle"] == pytest.approx(90 / 148)


def test_when_each_cause_was() -> None:
    (rank,) = View(job(example())).ranks

    found = {
        cause: list(zip((t.start_ns // 1000).tolist(), (t.end_ns // 1000).tolist(), strict=True))
        for cause, t in all_idle_times(rank).items()
    }

    assert found["data_loading"] == [(100, 120)]
    assert found["allocation"] == [(130, 150)]
    assert found["synchronisation"] == [(120, 130)]
    assert found["operators"] == [(150, 170)]
    assert found["host_other"] == [(170, 190)]
    assert found["launch_latency"] == [(190, 200)]
    assert found["between_kernels"] == [(300, 305)]
    assert found["dependency"] == [(400, 440)]
    assert found["unknown"] == [(450, 453)]


def test_every_cause_has_a_colour_and_events_of_the_host_their_cause() -> None:
    assert tuple(IDLE_INKS) == CAUSES
    assert host_cause("runtime", "cudaDeviceSynchronize") == "synchronisation"
    assert host_cause("runtime", "cudaLaunchKernel") is None
    assert host_cause("cpu_ops", "cudaDeviceSynchronize") is None


def test_between_steps_the_host_has_causes_like_elsewhere() -> None:
    """Steps [0,100) and [150,300): the host loads data [140,170) and launches at 200."""
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 150, 150)],
        cpu_ops=[Event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 140, 30, 1)],
        runtime=[launch(1, 10), launch(2, 200)],
        gpu=[Event("a", 20, 40, correlation=1), Event("b", 210, 50, correlation=2)],
    )

    found = measure("idle_causes", trace).details["by_cause"]
    assert {cause: row["ms"] for cause, row in found.items() if row["ms"]} == {
        "data_loading": 0.03,  # [140,170), as an operator: old files have no annotations
        "between_markers": 0.04,  # [100,140)
        "host_other": 0.07,  # [60,100) and [170,200), inside the markers
        "launch_latency": 0.01,  # [200,210)
    }
    losses = measure("fix_first", trace).details["losses"]
    assert [one["what"] for one in losses] == [
        "host_other",
        "between_markers",
        "data_loading",
        "launch_latency",
    ]


def test_windows_add_up() -> None:
    whole = measure("idle_causes", example()).details["by_cause"]
    parts = [
        measure("idle_causes", example(), window=Window(a, b)).details["by_cause"]
        for a, b in itertools.pairwise([None, 115_000, 195_000, 420_000, None])
    ]

    for cause in CAUSES:
        assert sum(part[cause]["ms"] for part in parts) == pytest.approx(whole[cause]["ms"])


@st.composite
def traces(draw: st.DrawFn) -> RankTrace:
    work, launches = [], []
    for number in range(draw(st.integers(1, 20))):
        start, dur = draw(st.integers(0, 500)), draw(st.integers(0, 60))
        known = draw(st.booleans())
        work.append(Event("k", start, dur, draw(st.sampled_from((7, 8))), correlation=number))
        if known:
            launches.append(launch(number, draw(st.integers(0, 500))))
    host = [
        Event(draw(st.sampled_from(("aten::mm", "aten::add"))), draw(st.integers(0, 500)), 20, 1)
        for _ in range(draw(st.integers(0, 5)))
    ]
    return rank_trace(0, gpu=work, runtime=[launch(999, 0), *launches], cpu_ops=host)


@given(traces())
def test_the_causes_are_all_of_the_idle_time(trace: RankTrace) -> None:
    causes, idle = measure("idle_causes", trace), measure("idle_ratio", trace)

    if causes.status == "unavailable":
        assert causes.reason in ("not_applicable", "window_empty")
        return
    parts = [row["ms"] for row in causes.details["by_cause"].values()]
    assert all(part >= 0 for part in parts)
    assert round(sum(parts) * 1e6) == round(idle.details["idle_ms"] * 1e6)


def test_what_it_needs() -> None:
    assert measure("idle_causes", cpu_only()).reason == "no_gpu_events"
    assert measure("idle_causes", rank_trace(0, gpu=[kernel("a", 0, 1)])).reason == (
        "not_applicable"
    )
