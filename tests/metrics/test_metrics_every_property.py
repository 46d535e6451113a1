"""Properties of every metric of the registry, down to the last key: a new one is held to them.

Each metric of traces is computed of a job that it answers: with ranks in another order, slowed
down, cut in two, looked at through a window that holds all of it, and beside a copy of itself.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories import card, job
from full_jobs import JOBS, RANKS, trained, view_of
from msgspec import structs
from msgspec.structs import replace
from what_holds import (
    ADDS,
    BETWEEN,
    DOUBLES,
    NO_SUMS,
    NOT_DOUBLED,
    PARTS,
    is_number,
    is_share,
    is_summed,
    kind_of,
    leaves,
)

from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import Job
from ccltui.parsers.window import Window

SIDE_FILES_ONLY = {name for name, metric in metrics().items() if not metric.needs_traces} - {
    "throughput_tokens",
    "token_to_expert_assignment",
}
OF_TRACES = [metric for name, metric in metrics().items() if name not in SIDE_FILES_ONLY]
EACH = pytest.mark.parametrize("metric", OF_TRACES, ids=lambda metric: metric.name)


@pytest.fixture(autouse=True)
def _other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str | Path, **_: Any) -> Job:
        return job(*(trained(rank, float(Path(path).name)) for rank in range(RANKS)))

    monkeypatch.setattr(run_compare, "open_job", opened)


def answering(metric: Metric) -> str:
    """Name of the first job that the metric answers; a metric that none answers fails."""
    for name in JOBS:
        if metric.run(view_of(name)).value is not None:
            return name
    pytest.fail(f"no job of full_jobs answers {metric.name}: add to one what it needs")


@EACH
def test_ranks_in_any_order_give_the_same_document(metric: Metric) -> None:
    name = answering(metric)
    orders = [*list(itertools.permutations(range(RANKS)))[7::8], (3, 2, 1, 0)]
    one, *others = (
        _unordered(metric.run(view_of(name, ranks=order))) for order in ((0, 1, 2, 3), *orders)
    )

    for other in others:
        assert other == one


def _unordered(result: Result) -> dict[str, Any]:
    document = copy.deepcopy(result.to_document())
    for key in ("files", "ranks"):  # in the order of the job
        document["inputs"][key] = sorted(document["inputs"][key])
    return document


@EACH
def test_a_job_four_times_as_slow_by_the_unit_of_every_number(metric: Metric) -> None:
    name = answering(metric)
    one, slow = metric.run(view_of(name)), metric.run(view_of(name, scale=4.0))
    before, after = dict(leaves(one.details)), dict(leaves(slow.details))

    assert one.status == slow.status
    assert before.keys() == after.keys()
    factor = {"time": 4, "rate": 0.25, "same": 1}
    numbers = {path: value for path, value in before.items() if is_number(value)}
    assert any(numbers.values())
    for path, value in numbers.items():
        expected = factor[kind_of(metric.name, path)] * _number(value)
        assert after[path] == pytest.approx(expected, rel=1e-6, abs=1e-9), path


@EACH
def test_a_window_that_holds_everything_changes_nothing(metric: Metric) -> None:
    view = view_of(answering(metric))
    windows = (Window(0, None), Window(None, 10**12), Window(0, 10**12))

    for span in ("steps", "trace"):
        whole = view.with_options(span=span)
        found = metric.run(whole).details
        for window in windows:
            assert metric.run(whole.with_options(window=window)).details == found


EDGES_NS = (450_000, 1_000_000, 1_310_000)
"""In the first step, between two steps, and in kernels of the second step."""


@functools.cache
def cut(name: str) -> list[tuple[View, View, View]]:
    """A whole job and its two parts, for each edge."""
    whole = view_of(name).with_options(span="trace")
    windows = [(Window(None, edge), Window(edge, None)) for edge in EDGES_NS]
    return [(whole, *(whole.with_options(window=w) for w in pair)) for pair in windows]  # type: ignore[misc]


@pytest.mark.parametrize("name", [m.name for m in OF_TRACES if m.needs_traces])
def test_two_windows_add_up(name: str) -> None:
    assert (name in ADDS) != (name in NO_SUMS), "say what of it adds up over windows, or why not"
    metric = metrics()[name]
    for views in cut(answering(metric)):
        whole, *parts = (dict(leaves(metric.run(view).details)) for view in views)
        for pattern in ADDS.get(name, ()):
            paths = [p for p in whole if is_number(whole[p]) and fnmatchcase(p, pattern)]
            assert paths, f"{pattern} names nothing"
            for path in paths:
                total = math.fsum(_number(part.get(path)) for part in parts)
                assert total == pytest.approx(whole[path]), path
        assert not ADDS.get(name) or any(whole.get(key) for key in whole)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@pytest.mark.parametrize("name", BETWEEN)
def test_a_mean_of_the_whole_lies_between_those_of_its_parts(name: str) -> None:
    metric = metrics()[name]
    for views in cut(answering(metric)):
        whole, *parts = (metric.run(view).value for view in views)
        known = [part for part in parts if part is not None]
        assert whole is not None
        assert known
        assert min(known) * (1 - 1e-9) <= whole <= max(known) * (1 + 1e-9)


def beside_itself(name: str) -> View:
    """The job and a copy of it on other ranks, in groups of their own; the batch is doubled."""
    build, stated = JOBS[name]
    ranks = [build(rank, 1.0) for rank in range(RANKS)]
    both = [replace(trace, world_size=2 * RANKS) for trace in (*ranks, *map(_moved, ranks))]
    batch = stated["batch_size"]
    assert isinstance(batch, int)
    doubled = {**stated, "batch_size": 2 * batch, "total_count": 2 * RANKS, "dp_replicate": 2}
    return View(job(*both, card=card(**doubled)), view_of(name).options)


def _moved(trace: RankTrace) -> RankTrace:
    assert trace.rank is not None
    number = trace.rank + RANKS
    groups = tuple(
        structs.replace(group, ranks=tuple(rank + RANKS for rank in group.ranks))
        for group in trace.process_groups
    )
    path = f"rank{number}_trace.json"
    source = structs.replace(trace.source, path=path, real_path=f"/data/{path}")
    calls = trace.collective_args
    peers = {
        name: np.where(peer >= 0, peer + RANKS, peer)
        for name, peer in (("src", calls.src), ("dst", calls.dst))
    }
    return replace(
        trace,
        rank=number,
        label=str(number),
        process_groups=groups,
        source=source,
        collective_args=dataclasses.replace(calls, **peers),
    )


@EACH
def test_two_copies_of_a_job_side_by_side(metric: Metric) -> None:
    if metric.name in NOT_DOUBLED:
        return
    name = answering(metric)
    one, two = metric.run(view_of(name)), metric.run(beside_itself(name))

    assert one.status == two.status
    for key, value in one.details.items():
        if is_number(value) and f"{metric.name}.{key}" not in NOT_DOUBLED:
            times = 2 if key in DOUBLES.get(metric.name, ()) else 1
            assert two.details[key] == pytest.approx(times * _number(value)), key
    both = dict(leaves(two.details))
    for path, value in leaves(one.details):
        if is_number(value) and any(fnmatchcase(path, pattern) for pattern in PARTS):
            times = 2 if is_summed(metric.name, path) else 1
            assert both[path] == pytest.approx(times * _number(value)), path


@EACH
def test_shares_are_shares(metric: Metric) -> None:
    for name in JOBS:
        for path, value in leaves(metric.run(view_of(name)).details):
            if is_share(path) and is_number(value):
                assert 0 <= _number(value) <= 1 + 1e-9, path


def test_every_name_in_the_tables_is_a_metric() -> None:
    of_traces = {metric.name for metric in OF_TRACES if metric.needs_traces}

    assert {*ADDS, *NO_SUMS} == of_traces
    assert {*BETWEEN, *DOUBLES} <= {metric.name for metric in OF_TRACES}
    assert {name.partition(".")[0] for name in NOT_DOUBLED} <= set(metrics())
