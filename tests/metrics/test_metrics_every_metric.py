"""What holds for every metric of the registry: a new one cannot be left out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from factories import Event, job, kernel, rank_trace
from full_jobs import JOBS, RANKS, trained, view_of

from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import Job

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
