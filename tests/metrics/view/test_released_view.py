"""Results do not depend on what was freed between metrics, nor on how many targets are split."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.scale_jobs import write_job
from ccltui.commands import measure as measure_module
from ccltui.commands.loading import LoadOptions
from ccltui.commands.measure import Measured, choose_metrics, measure
from ccltui.metrics.findings.causes import segments
from ccltui.metrics.model import rank_facts
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.job import open_job


@pytest.fixture
def job(tmp_path: Path) -> tuple[Path, Path]:
    """Directories of the traces and of the store of sixteen ranks, in groups of eight."""
    write_job(tmp_path / "traces", tmp_path / "store", 16, 100, "eights")
    return tmp_path / "traces", tmp_path / "store"


def documents(measured: Measured) -> list[object]:
    return [
        (metric.name, result.status, result.value, repr(result.details), result.reasons)
        for metric, result in measured.results
    ]


def measured(job: tuple[Path, Path], memory_bytes: int | None) -> Measured:
    loading = LoadOptions(str(job[0]), cache_dir=job[1], memory_bytes=memory_bytes)
    return measure(choose_metrics(["all"]), loading, ViewOptions())


def test_results_are_those_of_a_view_that_frees_nothing(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[View] = []
    release = View.release

    def counted(view: View) -> None:
        released.append(view)
        release(view)

    monkeypatch.setattr(View, "release", counted)

    every = measured(job, None)
    assert not released
    freed = measured(job, 1)
    assert len(released) == len(freed.results)
    assert documents(freed) == documents(every)


def test_nothing_is_freed_below_the_limit(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_module, "resident_memory", lambda: 100)
    monkeypatch.setattr(View, "release", lambda _: pytest.fail("freed"))

    measured(job, 100)


def test_intervals_of_ranks_are_gone_and_matches_stay(job: tuple[Path, Path]) -> None:
    view = View(open_job(job[0], cache_dir=job[1]))
    matches = view.matches
    rank = view.ranks[0]
    assert len(rank.comm)

    view.release()

    assert "busy" not in rank.facts.__dict__
    assert view.ranks[0] is not rank
    assert view.matches is matches


def test_targets_split_in_parts_give_the_same_causes(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = choose_metrics(["straggler_cause"])[0]
    whole = metric.run(View(open_job(job[0], cache_dir=job[1])))
    monkeypatch.setattr(segments, "_MAX_CELLS", 16)  # one or two targets at a time
    parts = metric.run(View(open_job(job[0], cache_dir=job[1])))

    assert whole.status == "ok"
    assert repr(parts.details) == repr(whole.details)


def test_a_rank_is_given_back_to_the_kernel_again_only_after_it_was_used(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View(open_job(job[0], cache_dir=job[1]))
    rank = view.ranks[0]
    assert rank.comm.total_ns
    given_back: list[str] = []
    monkeypatch.setattr(rank_facts, "release", lambda trace: given_back.append(trace.label))

    rank.forget_intervals()
    rank.forget_intervals()
    assert given_back == [rank.label]
    assert "comm" not in rank.__dict__

    assert len(rank.trace.group("gpu").name)
    rank.forget_intervals()
    assert given_back == [rank.label] * 2
