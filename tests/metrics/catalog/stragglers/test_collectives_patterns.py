"""Patterns of lateness, imbalance of ranks, and what to fix first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, measure, worked_example

from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

NUM_STEPS = 8
PERIOD_US = 1000


def patterns(late_us: Mapping[int, Mapping[int, float]], *, marked: bool = True) -> object:
    """Patterns of a job of three ranks: ``late_us`` by rank and step, one collective a step."""
    traces = [
        rank_trace(
            rank,
            gpu=[
                allreduce(
                    number * PERIOD_US + late_us.get(rank, {}).get(number, 0),
                    400 - late_us.get(rank, {}).get(number, 0),
                    Coll("allreduce", 64, 64, seq=number),
                )
                for number in range(NUM_STEPS)
            ],
            annotations=[step(n, n * PERIOD_US - 10, 900) for n in range(NUM_STEPS)]
            if marked
            else [],
            groups=[world(3)],
            world_size=3,
        )
        for rank in range(3)
    ]
    return straggler_lag.run(View(job(*traces))).details["patterns"]


@pytest.mark.parametrize("marked", [True, False])
def test_late_in_every_step_is_persistent(marked: bool) -> None:
    assert patterns({1: dict.fromkeys(range(8), 50)}, marked=marked) == {"1": "persistent"}


@pytest.mark.parametrize("marked", [True, False])
def test_late_once_is_transient(marked: bool) -> None:
    assert patterns({1: {5: 300}}, marked=marked) == {"1": "transient"}


def test_late_now_and_then_is_recurring() -> None:
    assert patterns({1: {1: 100, 4: 100, 6: 100}}) == {"1": "recurring"}


def test_a_stall_beside_a_slow_rank_is_told_apart() -> None:
    late = {1: dict.fromkeys(range(8), 50.0), 2: {3: 350.0}}

    assert patterns(late) == {"1": "persistent", "2": "transient"}


def test_nobody_late_has_no_pattern() -> None:
    assert patterns({}) == {}


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


def late(rank: int, late_us: int) -> RankTrace:
    """One step: computes 100 us (and what it is late), then a collective that ends at 400."""
    begin = 100 + late_us
    coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7)
    return rank_trace(
        rank,
        annotations=[step(1, 0, 400)],
        runtime=[launch(1, 0), launch(2, 1)],
        gpu=[
            Event("gemm", 0, begin, correlation=1),
            Event(allreduce(0, 1).name, begin, 400 - begin, 20, coll, correlation=2),
        ],
        groups=[world(2)],
        world_size=2,
    )


def test_waiting_is_told_from_transfer() -> None:
    result = measure("fix_first", late(0, 0), late(1, 240))

    waiting, transfer = result.details["losses"]
    assert (waiting["kind"], waiting["what"]) == ("straggler", "1")
    assert waiting["lost_ms"] == 0.12  # rank 0 waited from 100 to 340, rank 1 not at all
    assert waiting["share"] == 240 / 800
    assert waiting["sentence"] == (
        "120 us per rank, 30 % of the time: the others wait for rank 1, which comes late"
    )
    assert waiting["evidence"] == {
        "rank": "1",
        "time_us": 340.0,
        "group": "default_pg 0,1",
        "group_number": 0,
        "index": 0,
    }
    assert (transfer["kind"], transfer["what"]) == (
        "communication",
        "AllReduce of default_pg 0,1",
    )
    assert transfer["lost_ms"] == 0.06  # [340, 400) on both
    assert result.value == result.details["lost_ratio"] == 0.45


def test_worked_example_adds_up() -> None:
    details = measure("fix_first", worked_example()).details

    found = {(row["kind"], row["what"]): row["lost_ms"] for row in details["losses"]}
    # K = [10,50) + [60,70), C = [40,80), M = [75,90) in [0,100)
    assert found == {
        ("communication", "AllReduce"): 0.015,  # [50,60) + [70,75)
        ("copies", "copies"): 0.015,  # [75,90)
        ("idle", "unknown"): 0.02,  # [0,10) + [90,100)
    }
    assert details["lost_ratio"] == 0.5
    assert details["lost_ms"] == 0.05


def test_idle_time_has_its_cause_and_its_longest_gap() -> None:
    trace = rank_trace(
        0,
        runtime=[launch(1, 0), launch(2, 150), launch(3, 195)],
        gpu=[
            Event("gemm", 0, 100, correlation=1),
            Event("gemm", 200, 100, correlation=2),
            Event("gemm", 305, 100, correlation=3),
        ],
    )

    idle, start, between = measure("fix_first", trace).details["losses"]
    # tied at 50: by name
    assert (idle["what"], start["what"]) == ("host_other", "launch_latency")
    assert idle["lost_ms"] == start["lost_ms"] == 0.05
    assert idle["evidence"] == {"rank": "0", "time_us": 100.0, "length_us": 50.0}
    assert (between["what"], between["lost_ms"]) == ("between_kernels", 0.005)
    assert between["evidence"] == {"rank": "0", "time_us": 300.0, "length_us": 5.0}


def test_nothing_is_lost_where_everything_computes() -> None:
    result = measure("fix_first", rank_trace(0, gpu=[kernel("gemm", 0, 10)]))

    assert (result.value, result.details["losses"]) == (0.0, [])


def test_without_a_device_it_says_so() -> None:
    assert measure("fix_first", cpu_only()).reason == "no_gpu_events"


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=12
)


@given(EVENTS, EVENTS)
def test_losses_add_up_to_what_is_not_computed(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    def made(rank: int, events: list[tuple[int, int, int]]) -> RankTrace:
        gpu = [kernel("gemm", 0, 1)]
        for kind, start, dur in events:
            coll = Coll("allreduce", 8, 8, "Float", 0, 2)
            gpu.append(
                kernel("gemm", start, dur)
                if kind == 0
                else copy(start, dur, 9)
                if kind == 1
                else allreduce(start, dur, coll)
                if kind == 2
                else allreduce(start, dur, stream=21)
            )
        return rank_trace(rank, gpu=gpu, groups=[world(2)], world_size=2)

    ranks = made(0, one), made(1, other)
    details = measure("fix_first", *ranks).details
    computing = measure("temporal_breakdown", *ranks).details["comp_ratio"]

    assert details["lost_ratio"] == pytest.approx(1 - computing)
    assert sum(row["share"] for row in details["losses"]) == pytest.approx(details["lost_ratio"])
