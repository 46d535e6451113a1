"""Every metric of a part of the ranks is partial, and names the part and what is missing."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from factories import FakeJob, card, job
from full_jobs import JOBS, RANKS, trained
from msgspec import structs

from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import Job
from ccltui.parsers.window import MissingRanks
from ccltui.report.json_document import result_dict

WORLD = 16
HERE = (0, 1, 2, 3, 9)
ABSENT = tuple(rank for rank in range(WORLD) if rank not in HERE)
RANGES = "4-8, 10-15"
OF_TRACES = [metric for metric in metrics().values() if metric.needs_traces]
EACH = pytest.mark.parametrize("metric", OF_TRACES, ids=lambda metric: metric.name)
DATA_LACKS = {"no_gpu_events", "no_collectives", "no_step_markers", "single_rank"}
"""Reasons of a refusal that ranks which are not here may have caused."""

# How a job comes to lack ranks: the world that files state, and ranks whose files are not read.
LACKS: dict[str, tuple[int | None, tuple[int, ...]]] = {
    "files state the world": (WORLD, ()),
    "a sample": (WORLD, ABSENT),
    "a sample of an unstated world": (None, ABSENT),
    "a sample of ranks beyond the stated world": (RANKS, ABSENT),
}
SENTENCES = {
    "files state the world": ("missing_ranks", f"5 of 16 ranks found; missing {RANGES}"),
    "a sample": ("sampled_ranks", f"5 of 16 ranks are read, not {RANGES}"),
}


@pytest.fixture(autouse=True)
def _other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run to compare with, which lacks the same ranks."""

    def opened(path: str | Path, **_: Any) -> Job:
        world, _unread = LACKS[Path(path).name]
        return job(*(_trace("training", rank, world) for rank in HERE), card=None)

    monkeypatch.setattr(run_compare, "open_job", opened)


def _trace(name: str, rank: int, world: int | None) -> RankTrace:
    """A rank of a job of `full_jobs`; rank 9 does what rank 0 does, in no group with it."""
    build, _ = JOBS[name]
    alike = build(rank if rank < RANKS else 0, 1.0)
    path = f"rank{rank}_trace.json"
    source = msgspec.structs.replace(alike.source, path=path, real_path=f"/data/{path}")
    return structs.replace(alike, rank=rank, label=str(rank), source=source, world_size=world)


@functools.cache  # all metrics ask one view: what they share is computed once
def _view(name: str, lack: str) -> View:
    world, unread = LACKS[lack]
    stated = card(**JOBS[name][1])
    whole: Any = job(*(_trace(name, rank, world) for rank in HERE), card=stated)
    part = structs.replace(whole, unread_ranks=unread)
    return View(part, ViewOptions(overrides={"against": f"/{lack}"}))


def _answer(metric: Metric, lack: str) -> Result:
    """The result of the first job that the metric answers, else that of the first."""
    results = [metric.run(_view(name, lack)) for name in JOBS]
    return next((one for one in results if one.value is not None), results[0])


@EACH
@pytest.mark.parametrize("lack", LACKS)
def test_a_number_of_five_of_sixteen_ranks_names_the_others(metric: Metric, lack: str) -> None:
    code, sentence = SENTENCES.get(lack, SENTENCES["a sample"])

    result = _answer(metric, lack)

    assert result.status == "partial", [reason.message for reason in result.reasons]
    printed = result_dict(result)["reasons"]
    assert any(one["code"] == code and sentence in one["message"] for one in printed), printed
    assert result.inputs["missing_ranks"] == list(ABSENT)


@EACH
@pytest.mark.parametrize("lack", LACKS)
def test_a_refusal_for_what_other_ranks_may_have_names_them(metric: Metric, lack: str) -> None:
    for name in JOBS:
        result = metric.run(_view(name, lack))

        if result.value is None and {one.code for one in result.reasons} & DATA_LACKS:
            texts = [reason.message for reason in result.reasons]
            assert any("5 of 16 ranks" in text and RANGES in text for text in texts), texts


def test_refusals_of_that_kind_occur() -> None:
    results = [m.run(_view("serving", "a sample")) for m in OF_TRACES]

    codes = {reason.code for one in results if one.value is None for reason in one.reasons}
    assert codes & DATA_LACKS


@EACH
def test_a_job_without_a_stated_world_lacks_no_rank(metric: Metric) -> None:
    view = View(job(*(structs.replace(trained(r), world_size=None) for r in range(RANKS))))

    codes = {reason.code for reason in metric.run(view).reasons if " ranks found" in reason.message}

    assert not codes


def test_ranks_asked_for_are_counted_and_not_the_others() -> None:
    view = _view("training", "a sample").with_options(ranks=frozenset({1, 2, 4, 5}))

    texts = [reason.message for reason in metrics()["coll_call_num"].run(view).reasons]

    assert any("2 of 4 ranks are read, not 4-5" in text for text in texts), texts


class _LargeJob(FakeJob, frozen=True):
    """A job of a world that is too large to list."""

    @property
    def missing_ranks(self) -> Any:
        present = {trace.rank for trace in self.ranks}
        return MissingRanks(self.world_size or 0, present, self.unread_ranks)


def test_a_sample_of_a_huge_stated_world_is_named_at_once() -> None:
    huge = 10**15
    traces = [structs.replace(trained(rank), world_size=huge) for rank in range(RANKS)]
    some: Any = _LargeJob(tuple(traces), unread_ranks=(4, 5))

    texts = [reason.message for reason in metrics()["coll_call_num"].run(View(some)).reasons]

    assert any(f"6 of {huge} ranks found; missing 6-{huge - 1}" in text for text in texts), texts
