"""Verdicts of several requests judged together equal those of each request alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccltui.demo import Spec, Straggler, write_job
from ccltui.demo.spec import Cause
from ccltui.metrics.catalog.stragglers.blame_chain import blame_chain
from ccltui.metrics.catalog.stragglers.straggler_cause import straggler_cause
from ccltui.metrics.findings.causes import activity, chain, segments
from ccltui.metrics.findings.causes.cause_search import Causes, VerdictRequest, Verdicts, job_causes
from ccltui.metrics.findings.causes.chain import Search, run_searches
from ccltui.metrics.findings.causes.segments import FirstLook, Segments, explain
from ccltui.metrics.findings.rank_time.partition import partition
from ccltui.metrics.metric import Metric, expect
from ccltui.metrics.view import job_view
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job


@pytest.fixture(scope="module")
def causes(tmp_path_factory: pytest.TempPathFactory) -> Causes:
    directory = tmp_path_factory.mktemp("job")
    late = Straggler(1, "compute", 2_000_000, None)
    write_job(directory, Spec.quiet(tp=2, dp_shard=2, steps=3, layers=2, stragglers=(late,)))
    return job_causes(View(open_job(directory)))


@pytest.fixture(scope="module")
def late_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen ranks, of which rank 1 runs more kernels; columns go beside it."""
    directory = tmp_path_factory.mktemp("late") / "job"
    late = Straggler(1, "more_kernels", 2_000_000, None)
    write_job(directory, Spec.quiet(tp=4, steps=4, stragglers=(late,)))
    return directory


def opened(directory: Path) -> View:
    return View(open_job(directory, cache_dir=directory.parent / "columns"))


def everything(causes: Causes) -> list[VerdictRequest]:
    """Requests for single instances, and one for all instances of each group."""
    found = []
    for number, group in enumerate(causes.arrivals.groups):
        rows = np.flatnonzero(group.eligible)
        found += [causes.request(number, rows[at : at + 1]) for at in range(0, len(rows), 9)]
        found.append(causes.request(number, rows))
    return found


def columns(found: Verdicts) -> list[list[object]]:
    """Every column of the verdicts, NaN as text."""
    main = (found.cause, found.share, found.confidence, found.has_stage_peer)
    ns = (found.segments.extra_kernels_ns, found.segments.parts_ns, found.targets.time_ns)
    return [np.asarray(one).astype(str).tolist() for one in (*main, *ns)]


def one_request(request: VerdictRequest) -> Search[Verdicts]:
    return (yield request)


@pytest.mark.parametrize("together", [1, 3, 5000])
def test_joint_verdicts_equal_those_of_single_requests(
    causes: Causes, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(chain, "_MAX_TOGETHER", together)
    requests = everything(causes)
    assert len({one.labels for one in requests}) > 2

    found = run_searches(causes, [one_request(one) for one in requests])

    for request, verdicts in zip(requests, found, strict=True):
        alone = causes.judge(request)
        assert columns(verdicts) == columns(alone)


def test_no_more_are_judged_at_once_than_are_compared_by_name(
    causes: Causes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    judge = Causes.judge

    def counted(self: Causes, request: VerdictRequest) -> Verdicts:
        sizes.append(len(request.targets))
        return judge(self, request)

    monkeypatch.setattr(Causes, "judge", counted)
    monkeypatch.setattr(chain, "_MAX_TOGETHER", 3)
    group = causes.arrivals.groups[0]
    rows = np.flatnonzero(group.eligible)[:6]
    requests = [causes.request(0, some) for some in (rows[:2], rows[2:3], rows, rows[:1])]

    run_searches(causes, [one_request(one) for one in requests])

    assert sizes == [3, 6, 1]


def test_searches_of_any_length_return_in_their_order(causes: Causes) -> None:
    request = causes.request(0, np.flatnonzero(causes.arrivals.groups[0].eligible)[:1])

    def search(steps: int) -> Search[int]:
        for _ in range(steps):
            verdicts = yield request
            assert len(verdicts) == 1
        return steps

    assert run_searches(causes, [search(steps) for steps in (2, 0, 3, 1)]) == [2, 0, 3, 1]
    assert run_searches(causes, list[Search[int]]()) == []


def test_the_worst_are_judged_by_name_however_many_are_late(
    monkeypatch: pytest.MonkeyPatch, late_job: Path
) -> None:
    monkeypatch.setattr(segments, "MAX_COMPARED", 2)
    monkeypatch.setattr(chain, "_MAX_TOGETHER", 2)

    def causes_of_worst(*before: Metric) -> list[str]:
        view = opened(late_job)
        for metric in before:
            metric.run(view)
        return [row["cause"] for row in straggler_cause.run(view).details["worst"]]

    alone = causes_of_worst()
    assert "more_kernels" in alone
    assert "compute" not in alone
    assert causes_of_worst(blame_chain) == alone


def test_arrivals_that_another_metric_will_ask_for_are_judged_at_once(
    monkeypatch: pytest.MonkeyPatch, late_job: Path
) -> None:
    metrics = (blame_chain, straggler_cause)
    usual = [metric.run(opened(late_job)) for metric in metrics]
    judge, judged = Causes.judge, []

    def counted(causes: Causes, request: VerdictRequest) -> Verdicts:
        judged.append(request)
        return judge(causes, request)

    monkeypatch.setattr(job_view, "_MANY_ROWS", 1)
    view = opened(late_job)
    expect(view, metrics)
    monkeypatch.setattr(Causes, "judge", counted)
    blame_chain.run(view)
    before = len(judged)

    assert [metric.run(view) for metric in metrics] == usual
    assert len(judged) == before


def test_arrivals_that_were_judged_are_not_judged_again(
    causes: Causes, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = causes.arrivals.groups[0]
    rows = np.flatnonzero(group.eligible)
    judged = causes.verdicts(0, rows[:4])
    monkeypatch.setattr(Causes, "judge", lambda *_: pytest.fail("judged again"))

    known = causes.known_verdicts(0, rows[1:3])
    assert known is not None
    assert columns(known) == columns(judged.take(np.array([1, 2])))
    assert causes.known_verdicts(0, rows[3:5]) is None


def test_a_large_job_has_the_same_causes_and_keeps_few_intervals(
    monkeypatch: pytest.MonkeyPatch, late_job: Path
) -> None:
    def found(most: int) -> tuple[object, View]:
        monkeypatch.setattr(job_view, "_MANY_ROWS", most)
        view = opened(late_job)
        causes = [one.run(view).details for one in (straggler_cause, blame_chain)]
        fresh = opened(late_job)
        return (causes, partition(fresh)), fresh

    usual, large = found(1 << 22), found(0)

    assert large[0] == usual[0]
    kept = {name for rank in large[1].ranks for name in (*vars(rank), *vars(rank.facts))}
    assert not kept & {"comm", "comp", "occupied", "device_work", "in_operators"}
    searched = job_causes(large[1])
    activities = [searched.activity(one.label) for one in large[1].ranks]
    assert any("compute" in vars(one) for one in activities)
    for one in activities:
        assert not vars(one).keys() & {"work", "network", "group_kinds", "idle", "copies"}
        assert not vars(one.host).keys() & {"operations", "disjoint", "long_gaps"}


@pytest.mark.parametrize("cause", ["compute", "operator", "host", "copies", "data_loading"])
def test_one_pass_explains_late_arrivals_like_the_sets_of_all_that_ranks_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause
) -> None:
    late = (Straggler(1, cause, 2_000_000, None), Straggler(2, "more_kernels", 900_000, (1,)))
    small = Spec.quiet(tp=2, dp_shard=2, steps=3, layers=2, micro_batches=2, stragglers=late)
    write_job(tmp_path, small)

    in_one_pass = explained(tmp_path)
    for module in (activity, segments):
        monkeypatch.setattr(module, "available", lambda: False)

    assert in_one_pass == explained(tmp_path)


@pytest.mark.parametrize(
    ("cause", "wide"), [("operator", False), ("host", True), ("copies", False)]
)
def test_few_late_arrivals_at_a_time_are_explained_like_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause, wide: bool
) -> None:
    late = Straggler(1, cause, 2_000_000, None)
    write_job(tmp_path, Spec.quiet(tp=2, dp_shard=2, steps=3, layers=2, stragglers=(late,)))
    whole = explained(tmp_path)
    first_look = segments.first_look

    def counted(*of_job: Any) -> FirstLook:
        found = first_look(*of_job)
        sizes = {one.dtype.itemsize for one in found.times.values() if one.any()}
        assert sizes <= {8 if wide else 4}
        return found

    monkeypatch.setattr(segments, "first_look", counted)
    monkeypatch.setattr(segments, "_MAX_CELLS", 16)
    monkeypatch.setattr(segments, "_MOST_NS", -1 if wide else segments._MOST_NS)

    assert explained(tmp_path) == whole


def explained(directory: Path) -> list[list[list[object]]]:
    """Segments of all requests of a job."""
    searched = job_causes(View(open_job(directory)))
    return [
        parts_of(
            explain(
                searched.points(request.labels),
                request.targets,
                [searched.activity(label) for label in request.labels],
            )
        )
        for request in everything(searched)
    ]


def parts_of(found: Segments) -> list[list[object]]:
    """Every column of segments, NaN as text."""
    start = (found.start.since, found.start.punctual, found.start.triggers, found.start.carried_ns)
    parts = (found.parts_ns, found.compute_ns, found.peer_compute_ns, found.extra_kernels_ns)
    return [np.asarray(one).astype(str).tolist() for one in (*start, *parts, found.elements_ratio)]
