"""rank_imbalance: unequal computation, whatever the waits make of the totals."""

from __future__ import annotations

import itertools

import pytest
from factories import Event, allreduce, kernel, launch, rank_trace, step
from worked import cpu_only, measure

from ccltui.parsers.columns import RankTrace


def member(rank: int, computing_us: float) -> RankTrace:
    """Computes, and waits in a collective for the rest of 400 µs."""
    return rank_trace(
        rank,
        gpu=[kernel("gemm", 0, computing_us), allreduce(computing_us, 400 - computing_us)],
        world_size=4,
    )


def test_the_busiest_over_the_mean() -> None:
    result = measure(
        "rank_imbalance", *(member(rank, us) for rank, us in enumerate((100, 100, 300, 100)))
    )

    details = result.details
    assert (result.value, details["busiest_rank"]) == (2.0, "2")
    assert details["comp_time_ms"] == {
        "mean": 0.15,
        "min": 0.1,
        "max": 0.3,
        "spread": pytest.approx(0.2),
    }
    assert details["per_rank"]["0"]["of_mean_ratio"] == pytest.approx(2 / 3)
    assert any("no steps are marked" in warning for warning in result.warnings)


def test_ranks_in_any_order_and_at_any_speed() -> None:
    work = (100, 150, 300, 50)
    for order in itertools.permutations(range(4)):
        assert measure("rank_imbalance", *(member(rank, work[rank]) for rank in order)).value == 2.0
    slow = [rank_trace(rank, gpu=[kernel("gemm", 0, 7 * us)]) for rank, us in enumerate(work)]
    assert measure("rank_imbalance", *slow).value == 2.0


def stepped(rank: int, first_us: float, second_us: float) -> RankTrace:
    return rank_trace(
        rank,
        annotations=[step(1, 0, 500), step(2, 500, 500)],
        runtime=[launch(1, 10), launch(2, 510)],
        gpu=[
            Event("gemm", 20, first_us, correlation=1),
            Event("gemm", 520, second_us, correlation=2),
        ],
    )


def test_step_by_step() -> None:
    result = measure("rank_imbalance", stepped(0, 100, 300), stepped(1, 300, 100))

    assert result.value == 1.0
    assert result.details["per_step"] == {
        "1": {"imbalance_ratio": 1.5, "busiest_rank": "1"},
        "2": {"imbalance_ratio": 1.5, "busiest_rank": "0"},
    }
    assert result.warnings == ()


def test_what_was_not_recorded_for_the_same_steps_is_told() -> None:
    plain = [rank_trace(rank, gpu=[kernel("gemm", 0, 9)]) for rank in range(2)]
    marked = [stepped(0, 100, 300), rank_trace(1, gpu=[kernel("gemm", 0, 9)])]

    unmarked, uneven = measure("rank_imbalance", *plain), measure("rank_imbalance", *marked)

    assert [text for text in unmarked.warnings if "no steps are marked" in text]
    assert [text for text in uneven.warnings if "different steps" in text]


def test_what_it_needs() -> None:
    assert measure("rank_imbalance", cpu_only()).reason == "no_gpu_events"
    assert measure("rank_imbalance", member(0, 10)).reason == "single_rank"
    talking = [rank_trace(rank, gpu=[allreduce(0, 5)]) for rank in range(2)]
    assert measure("rank_imbalance", *talking).reason == "not_applicable"


def test_files_that_state_no_rank_are_said_to_be_taken_for_one_job() -> None:
    traces = [rank_trace(None, gpu=[kernel("k", 0, 10 + n)], label=f"{n}.json") for n in range(3)]

    several = measure("rank_imbalance", *traces)
    named = measure("rank_imbalance", rank_trace(0, gpu=[kernel("k", 0, 9)]), traces[0])

    (warning,) = (text for text in several.warnings if "count as" in text)
    assert warning == (
        "3 files do not state a rank (0.json, 1.json, 2.json): they count as ranks of one job; "
        "--rank-map can state their ranks"
    )
    assert not [text for text in named.warnings if "count as" in text]
