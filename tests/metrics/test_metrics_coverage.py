"""Numbers over fewer ranks than are there are never ok, and name the others with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

MATCHED = ("straggler_lag", "straggler_cause", "wait_vs_transfer", "blame_chain")
CALLS = 6


def metric(details: Mapping[str, Any], *, lists_measured: bool = True) -> Metric:
    """One that has these details, whatever the view."""

    def compute(view: View) -> Result:
        return answer(found, view, {"value": 1, **details}, source=None)

    found = Metric(
        name="made",
        unit="1",
        definition="Made.",
        needs=(),
        keys=("value", *details),
        headline="value",
        compute=compute,
        lists_measured=lists_measured,
    )
    return found


def busy(rank: int, start_us: float = 0.0) -> RankTrace:
    return rank_trace(rank, gpu=[kernel("gemm", start_us, 5)])


def view_of(*ranks: RankTrace, **options: Any) -> View:
    return View(job(*ranks), ViewOptions(**options))


def test_a_rank_that_is_not_in_the_table_makes_it_partial() -> None:
    result = metric({"per_rank": {"0": 1, "2": 3}}).run(view_of(busy(0), busy(1), busy(2)))

    assert (result.status, result.value) == ("partial", 1)
    assert [(one.code, one.message, one.rank) for one in result.reasons] == [
        (
            "no_step_markers",
            "rank 1 is not measured: it has no step in the measured time",
            "1",
        )
    ]


def test_a_row_without_a_value_is_not_measured() -> None:
    result = metric({"per_rank": {"0": 1, "1": None}}).run(view_of(busy(0), busy(1)))

    assert [one.rank for one in result.reasons] == ["1"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            rank_trace(1, cpu_ops=[Event("aten::mm", 0, 1, 1)]),
            ("no_gpu_events", "rank 1 is not measured: it has no event of a device"),
        ),
        (
            busy(1, start_us=900),
            ("window_empty", "rank 1 is not measured: it has no event in the measured time"),
        ),
        (
            rank_trace(1, gpu=[kernel("gemm", 0, 5)], annotations=[step(1, 0, 9)]),
            ("missing_ranks", "rank 1 is not measured: it has no data for this metric"),
        ),
    ],
)
def test_the_reason_is_the_true_one(other: RankTrace, expected: tuple[str, str]) -> None:
    view = view_of(busy(0), other, window=Window(0, 100_000), raw_clocks=True)

    result = metric({"per_rank": {"0": 1}}).run(view)

    assert [(one.code, one.message) for one in result.reasons] == [expected]


def test_where_only_their_number_is_told_that_is_said() -> None:
    view = view_of(busy(0), busy(1), busy(2))

    assert metric({"num_ranks": 3}).run(view).status == "ok"
    result = metric({"num_ranks": 2}).run(view)
    assert (result.status, result.reasons[0].message) == ("partial", "2 of 3 ranks are measured")


def test_a_table_of_ranks_with_something_to_say_leaves_none_out() -> None:
    view = view_of(busy(0), busy(1))

    assert metric({"per_rank": {"0": 1}}, lists_measured=False).run(view).status == "ok"


def test_ranks_that_were_selected_are_what_was_asked_for_and_said() -> None:
    view = view_of(busy(0), busy(1), busy(2), ranks=frozenset({0, 2}))

    result = metric({"per_rank": {"0": 1, "2": 1}}).run(view)

    assert (result.status, result.basis["ranks"]) == ("ok", "2 of 3, as selected")


def rank_of(rank: int, group: ProcessGroup, first: int = 0) -> RankTrace:
    """Collectives every 100 us from the ``first`` on, the rank late by its number."""
    calls = [
        allreduce(100 * k + rank, 50 - rank, Coll(in_elems=8, out_elems=8, seq=k))
        for k in range(first, CALLS)
    ]
    return rank_trace(rank, gpu=calls, groups=[group], world_size=4)


@pytest.mark.parametrize("name", MATCHED)
def test_a_rank_that_shares_no_group_makes_matched_metrics_partial(name: str) -> None:
    apart = ProcessGroup("1", "tp", (3, 4), 2, "cuda:nccl")
    ranks = [rank_of(rank, world(3)) for rank in range(3)]

    result = find(name).run(view_of(*ranks, rank_of(3, apart)))

    assert result.status == "partial"
    assert [(one.message, one.rank) for one in result.reasons] == [
        ("rank 3 is left out: it is in no group with another of the ranks that are here", "3")
    ]


def test_a_rank_without_a_collective_in_the_window_is_named() -> None:
    pairs = [ProcessGroup("0", "dp", (0, 1), 2, "nccl"), ProcessGroup("0", "dp", (2, 3), 2, "nccl")]
    early = [rank_of(rank, pairs[0]) for rank in (0, 1)]
    late = [rank_of(rank, pairs[1], first=4) for rank in (2, 3)]
    view = view_of(*early, *late, window=Window(0, 250_000), raw_clocks=True)

    result = find("straggler_lag").run(view)

    assert (result.status, result.details["num_ranks"]) == ("partial", 2)
    assert [one.message for one in result.reasons] == [
        f"rank {rank} is left out: none of its collectives lies in the selection" for rank in (2, 3)
    ]
