"""traffic_window: slack between bursts of different dimensions."""

from __future__ import annotations

import itertools

import pytest
from factories import Coll, Event, allreduce, rank_trace, step, world
from worked import cpu_only, measure

from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

GROUPS = [
    ProcessGroup("1", "mesh_tp", (0, 1), 2),
    ProcessGroup("2", "mesh_dp_shard", (0, 2), 2),
    ProcessGroup("3", "whatever", (0, 3), 2),
]
TP, DP, UNKNOWN = 0, 1, 2


def call(group: int, start_us: float, dur_us: float) -> Event:
    coll = Coll("allreduce", 8, 8, "Float", group=group)
    return allreduce(start_us, dur_us, coll, stream=20 + group)


def rank(*calls: Event, number: int = 0, **more: object) -> RankTrace:
    return rank_trace(number, gpu=calls, groups=GROUPS, world_size=4, **more)  # type: ignore[arg-type]


def example() -> RankTrace:
    """tp [0,30) with a gap of 5, dp [50,100), tp [95,110), tp [200,220), dp [300,310)."""
    return rank(
        call(TP, 0, 10),
        call(TP, 15, 15),
        call(DP, 50, 50),
        call(TP, 95, 15),
        call(TP, 200, 20),
        call(DP, 300, 10),
    )


def test_windows_between_dimensions() -> None:
    result = measure("traffic_window", example())

    details = result.details
    assert details["windows"] == {
        "dp->tp": {
            "count": 1,
            "total_us": 0.0,
            "min_us": -5.0,
            "p50_us": -5.0,
            "p95_us": -5.0,
            "max_us": -5.0,
            "overlaps": 1,
        },
        "tp->dp": {
            "count": 2,
            "total_us": 100.0,
            "min_us": 20.0,
            "p50_us": 50.0,
            "p95_us": 80.0,
            "max_us": 80.0,
            "overlaps": 0,
        },
    }
    assert result.value == 20.0
    assert details["idle_gaps"] == {
        "dp": {"count": 1, "total_us": 200.0, "p50_us": 200.0},
        "tp": {"count": 2, "total_us": 155.0, "p50_us": 77.5},
    }
    assert details["num_bursts"] == {"dp": 2, "tp": 3}
    assert (details["mode"], details["merge_us"], details["num_windows"]) == (
        "process_group",
        10.0,
        3,
    )
    assert details["per_rank"]["0"]["windows"] == details["windows"]


def test_the_threshold_is_an_option() -> None:
    narrow = measure("traffic_window", example(), overrides={"merge_us": "1"}).details
    wide = measure("traffic_window", example(), overrides={"merge_us": "100"}).details

    assert narrow["num_bursts"]["tp"] == 4
    assert wide["num_bursts"]["tp"] == 1
    assert measure("traffic_window", example(), overrides={"merge_us": "x"}).reason == (
        "card_invalid"
    )


def test_unknown_traffic_is_listed_and_not_guessed() -> None:
    result = measure(
        "traffic_window",
        rank(call(TP, 0, 10), call(UNKNOWN, 50, 10), call(DP, 100, 10), call(TP, 150, 10)),
    )

    assert set(result.details["windows"]) == {"tp->unknown", "unknown->dp", "dp->tp"}
    assert (result.value, result.details["num_windows"]) == (40.0, 1)


def test_no_window_reaches_over_the_end_of_a_step() -> None:
    trace = rank(
        call(TP, 10, 10),
        call(DP, 30, 10),
        call(TP, 110, 10),
        call(DP, 150, 10),
        annotations=[step(1, 0, 100), step(2, 100, 100)],
    )

    details = measure("traffic_window", trace).details

    assert set(details["windows"]) == {"tp->dp"}
    assert details["windows"]["tp->dp"]["total_us"] == 40.0
    assert details["idle_gaps"]["tp"]["count"] == 0


def test_ranks_in_any_order_and_windows() -> None:
    ranks = [
        rank(call(TP, 0, 10), call(DP, 30, 10)),
        rank(call(TP, 0, 10), call(DP, 40, 10), number=1),
    ]
    found = [
        measure("traffic_window", *order).details["windows"]
        for order in itertools.permutations(ranks)
    ]

    assert found[0] == found[1]
    assert found[0]["tp->dp"]["count"] == 2
    cut = measure("traffic_window", ranks[0], window=Window(5_000, 35_000)).details
    assert cut["windows"]["tp->dp"]["total_us"] == 20.0


@pytest.mark.parametrize("scale", [2, 10])
def test_a_slower_machine_has_longer_windows(scale: int) -> None:
    def trace(factor: int) -> RankTrace:
        return rank(call(TP, 0, 10 * factor), call(DP, 30 * factor, 10 * factor))

    assert measure("traffic_window", trace(scale)).value == scale * 20.0


def test_what_it_needs() -> None:
    assert measure("traffic_window", cpu_only()).reason == "no_collectives"
    one = measure("traffic_window", rank(call(TP, 0, 10)))
    assert (one.reason, "tp" in one.reasons[0].message) == ("not_applicable", True)
    apart = rank(call(TP, 0, 1), call(UNKNOWN, 50, 1), call(DP, 99, 1))
    assert measure("traffic_window", apart).reason == "not_applicable"
    ungrouped = rank_trace(0, gpu=[allreduce(0, 5)], groups=[world(2)])
    assert measure("traffic_window", ungrouped).reason == "not_applicable"
