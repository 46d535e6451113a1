"""What holds for every metric of the registry: a new one cannot be left out."""

from __future__ import annotations

import functools
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
