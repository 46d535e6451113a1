"""straggler_lag: numbers of known answer, refusals, and what a view selects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

STARTS_US = (1000, 1400, 1900, 2600, 3700, 4100)
"""Six collectives, two in each of three steps, at irregular times."""
STEPS = (step(4, 900, 900), step(5, 1850, 1000), step(6, 3600, 1000))


def coll(seq: int, op: str = "allreduce", **changes: Any) -> Coll:
    return Coll(op, 1024, 1024, group=0, group_size=3, seq=seq, **changes)


def late_rank(
    rank: int | None, late_us: float, *, op: str = "allreduce", sequence: bool = True, **more: Any
) -> RankTrace:
    """A rank of three that joins every collective ``late_us`` late; all of them last 200 µs."""
    gpu = [
        allreduce(start + late_us, 200 - late_us, coll(seq if sequence else -1, op))
        for seq, start in enumerate(STARTS_US)
    ]
    given: dict[str, Any] = {
        "gpu": gpu,
        "annotations": STEPS,
        "groups": [world(3)],
        "world_size": 3,
        **more,
    }
    return rank_trace(rank, **given)


def lag(*ranks: RankTrace, **options: Any) -> Result:
    return straggler_lag.run(View(job(*ranks), ViewOptions(**options)))


def three(**more: Any) -> list[RankTrace]:
    return [late_rank(0, 0, **more), late_rank(1, 20, **more), late_rank(2, 80, **more)]


def test_every_number_of_a_job_whose_third_rank_is_80_us_late() -> None:
    result = lag(*three())

    details = result.details
    assert (result.status, result.value, result.unit) == ("ok", 80.0, "us")
    assert [details[f"{key}_lag_us"] for key in ("mean", "p50", "p95", "min", "max")] == [80.0] * 5
    assert (details["num_collectives"], details["num_ranks"]) == (6, 3)
    assert details["wait_us"] == {"0": 480.0, "1": 360.0, "2": 0.0}
    # both wait 60 us beyond the arrival of rank 1, which is late itself; and nothing computes
    assert details["blame"]["2"] == {
        "due_wait_us": 720.0,
        "last_count": 6,
        "last_share": 1.0,
        "blamed_share": 1.0,
        "caused_wait_us": 840.0,
    }
    assert details["blame"]["0"]["last_count"] == details["blame"]["0"]["caused_wait_us"] == 0
    assert (details["stragglers"], details["persistent"]) == ([2], True)
    assert details["lag_aligned"]["mean_lag_us"] == 80.0
    assert details["lag_aligned"]["uncertainty_us"] == 0.0
    assert details["lag_aligned"]["wait_us"] == {"0": 480.0, "1": 360.0, "2": 0.0}
    assert (details["floor_us"], details["ties"]) == (10.0, 0)
    assert details["per_rank_end_times_us"] == {"0": 3300.0, "1": 3300.0, "2": 3300.0}
    assert result.source == "kernel"
    assert result.basis["lag"] == "clock_free"
    assert result.basis["matching"] == "group and sequence number"


def test_lag_against_the_step_time() -> None:
    details = lag(*three()).details

    assert details["normalized_lag"] == pytest.approx(80 / ((900 + 1000 + 1000) / 3))
    assert details["lag_fraction_of_step"] == pytest.approx(480 / 2900)
    assert details["per_step"][0] == {
        "step": 4,
        "num_collectives": 2,
        "lag_us": 160.0,
        "mean_lag_us": 80.0,
        "max_lag_us": 80.0,
        "last": {"2": 2},
        "step_time_us": 900.0,
        "lag_fraction": pytest.approx(160 / 900),
    }
    assert [row["step"] for row in details["per_step"]] == [4, 5, 6]


def test_how_it_was_matched_and_what_each_group_says() -> None:
    details = lag(*three()).details

    assert details["match"] == {
        "level": 2,
        "levels": {"2": 6},
        "high": 6,
        "medium": 0,
        "low": 0,
        "mismatched": 0,
        "incomplete": 0,
        "overlap_pass_ratio": 1.0,
    }
    (row,) = details["by_group"]
    assert row["group"] == "default_pg 0-2"
    assert (row["num_collectives"], row["last"], row["ties"]) == (6, {"2": 6}, 0)


def test_a_clock_5_ms_off_changes_nothing_but_its_offset() -> None:
    still = lag(*three()).details
    moved = lag(late_rank(0, 0), late_rank(1, 20, shift_us=5000), late_rank(2, 80)).details

    assert moved["clock"]["1"]["offset_us"] == 5000.0
    same = [key for key in straggler_lag.keys if key not in ("clock", "lag_aligned", "per_step")]
    assert {key: moved[key] for key in same} == {key: still[key] for key in same}
    assert moved["lag_aligned"] == still["lag_aligned"]


def test_raw_clocks_leave_the_starts_as_they_are() -> None:
    ranks = [late_rank(0, 0), late_rank(1, 20, shift_us=5000), late_rank(2, 80)]

    result = lag(*ranks, raw_clocks=True)

    assert result.details["mean_lag_us"] == 80.0
    assert result.details["lag_aligned"]["mean_lag_us"] == 5020.0
    assert result.basis["clock"] == "raw clocks"


def test_lags_below_the_floor_count_but_blame_nobody() -> None:
    details = lag(late_rank(0, 0), late_rank(1, 5), late_rank(2, 9)).details

    assert details["mean_lag_us"] == 9.0
    assert (details["stragglers"], details["persistent"], details["ties"]) == ([], False, 6)
    assert sum(row["last_count"] for row in details["blame"].values()) == 0


def test_a_rank_that_is_late_only_in_the_beginning_is_not_persistent() -> None:
    late = (80, 80, 80, 80, 0, 0)
    other = (0, 0, 0, 0, 60, 60)
    gpu = {
        rank: [
            allreduce(start + delay[seq], 200 - delay[seq], coll(seq))
            for seq, start in enumerate(STARTS_US)
        ]
        for rank, delay in enumerate(((0,) * 6, other, late))
    }
    ranks = [
        rank_trace(rank, gpu=events, groups=[world(3)], world_size=3)
        for rank, events in gpu.items()
    ]

    details = lag(*ranks).details

    assert details["stragglers"] == [2]
    assert details["persistent"] is False


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 6),
        ({"steps": (5, 6)}, 4),
        ({"window": Window(None, 1_000_000)}, 2),  # from the first event, at 900 µs
        ({"window": Window(1_000_000, None)}, 4),
        ({"window": Window(500_000, 1_000_000)}, 1),
        ({"group": "default_pg"}, 6),
        ({"group": "world"}, 6),
    ],
)
def test_a_view_selects_collectives(options: dict[str, Any], count: int) -> None:
    result = lag(*three(), **options)

    assert result.details["num_collectives"] == count
    assert result.value == 80.0


def test_adjacent_windows_share_no_collective() -> None:
    cut = 510_000  # rank 0 has joined the second collective, rank 2 has not
    before = lag(*three(), window=Window(None, cut)).details["num_collectives"]
    after = lag(*three(), window=Window(cut, None)).details["num_collectives"]

    assert (before, after) == (2, 4)


def test_chosen_ranks_are_compared_among_themselves() -> None:
    result = lag(*three(), ranks=frozenset({0, 1}))

    assert result.value == 20.0
    assert result.details["stragglers"] == [1]
    assert sorted(result.details["blame"]) == ["0", "1"]


def test_without_steps_the_lag_is_not_normalised() -> None:
    result = lag(*three(annotations=()))

    assert result.value == 80.0
    assert result.details["normalized_lag"] is None
    assert result.details["lag_fraction_of_step"] is None
    assert result.details["per_step"] == []
    assert any("no step" in text for text in result.warnings)


def test_ranks_of_two_groups_are_judged_in_their_own() -> None:
    late = {0: 0, 1: 30, 2: 90, 3: 0}
    pairs = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    ranks = [
        rank_trace(
            rank,
            gpu=[
                allreduce(start + late[rank], 200 - late[rank], Coll("allreduce", 64, 64, seq=seq))
                for seq, start in enumerate(STARTS_US[:3])
            ],
            groups=[ProcessGroup("1", "mesh_tp", pairs[rank], 2)],
            world_size=4,
        )
        for rank in range(4)
    ]

    details = lag(*ranks).details

    assert (details["mean_lag_us"], details["num_collectives"]) == (60.0, 6)
    assert details["stragglers"] == [
        2
    ]  # rank 1 causes a quarter of the waiting: no more than chance
    assert details["blame"]["1"]["due_wait_us"] == 90.0
    assert details["blame"]["1"]["last_share"] == 1.0  # of its own group's
    assert details["blame"]["1"]["blamed_share"] == 0.5  # of all
    assert [row["dim"] for row in details["by_group"]] == ["tp", "tp"]


def test_a_single_rank_is_refused() -> None:
    result = lag(late_rank(0, 0))

    assert (result.status, result.reason, result.value) == ("unavailable", "single_rank", None)
    assert result.reasons[0].message == (
        "1 of 3 ranks found; a comparison of ranks needs at least two"
    )
    assert all(result.details[key] is None for key in straggler_lag.keys)


def test_files_without_a_rank_are_named_in_the_refusal() -> None:
    none = lag(late_rank(None, 0), late_rank(None, 20, label="b"))

    assert none.reasons[0].message == (
        "0 of 3 ranks found; a comparison of ranks needs at least two; "
        "2 files do not state a rank, which --rank-map can give"
    )


def test_a_share_of_no_blame_is_null() -> None:
    details = lag(late_rank(0, 0), late_rank(1, 5), late_rank(2, 3)).details

    assert (details["ties"], details["stragglers"]) == (6, [])
    for row in details["blame"].values():
        assert (row["last_count"], row["last_share"], row["blamed_share"]) == (0, None, None)


def test_no_collectives_is_refused() -> None:
    ranks = [rank_trace(r, gpu=[kernel("gemm", 0, 10)]) for r in range(2)]

    assert lag(*ranks).reason == "no_collectives"


def test_point_to_point_and_broadcast_alone_are_refused() -> None:
    broadcast = lag(*three(op="broadcast"))
    sends = [
        rank_trace(r, gpu=[allreduce(0, 10, Coll("send", 8, 8, dst=1 - r))], groups=[world(2)])
        for r in range(2)
    ]

    assert broadcast.reason == "no_collectives"
    assert lag(*sends).reason == "no_collectives"


def test_a_window_without_collectives_is_refused() -> None:
    assert lag(*three(), window=Window(None, 1_000)).reason == "window_empty"


def test_disjoint_groups_are_refused() -> None:
    ranks = [
        rank_trace(r, gpu=[allreduce(0, 10, Coll())], groups=[ProcessGroup("0", "", (r,), 1)])
        for r in range(2)
    ]

    assert lag(*ranks).reason == "unmatched_collectives"


def test_collectives_that_all_disagree_are_refused() -> None:
    ranks = [
        rank_trace(
            r,
            gpu=[allreduce(0, 10, Coll("allreduce", 8 + r, 8 + r, group=0))],
            groups=[world(2)],
        )
        for r in range(2)
    ]

    result = lag(*ranks)

    assert result.reason == "unmatched_collectives"
    assert "0 incomplete, 1 mismatched" in result.reasons[0].message


def test_missing_ranks_make_it_partial() -> None:
    result = lag(late_rank(0, 0), late_rank(2, 80))

    assert (result.status, result.value) == ("partial", 80.0)
    assert [reason.code for reason in result.reasons] == ["missing_ranks"]


def test_sendrecv_kernels_without_metadata_are_partial_and_low() -> None:
    name = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"
    ranks = [
        rank_trace(r, gpu=[kernel(name, s + 50 * r, 200 - 50 * r, 20) for s in STARTS_US])
        for r in range(2)
    ]

    result = lag(*ranks)

    assert (result.status, result.reason) == ("partial", "unmatched_collectives")
    assert result.details["match"]["low"] == 6
    assert result.value == 50.0


def test_two_files_of_one_rank_take_no_part() -> None:
    conflict = [late_rank(2, 80, label="2 (a.json)"), late_rank(2, 90, label="2 (b.json)")]

    result = lag(late_rank(0, 0), late_rank(1, 20), *conflict)

    assert result.value == 20.0
    assert result.status == "partial"
    assert "rank_conflict" in {reason.code for reason in result.reasons}


def test_a_file_of_unknown_rank_takes_no_part() -> None:
    result = lag(*three(), late_rank(None, 99, label="x"))

    assert result.value == 80.0
    assert result.status == "partial"
    assert any("its rank is unknown" in reason.message for reason in result.reasons)


def test_a_rank_without_collectives_is_named() -> None:
    silent = rank_trace(2, gpu=[kernel("gemm", 1000, 10)], groups=[world(3)], world_size=3)

    result = lag(late_rank(0, 0), late_rank(1, 20), silent)

    assert (result.status, result.value) == ("partial", 20.0)
    assert [(r.code, r.rank) for r in result.reasons] == [("no_collectives", "2")]


def gloo(starts_us: Sequence[float], late_us: float) -> dict[str, Any]:
    calls = [
        Event("c10d::allreduce_", s - 30, 20, 1, Coll("", 64, dtype="float")) for s in starts_us
    ]
    work = [
        Event("gloo:all_reduce", s + late_us, 200 - late_us, 2, Coll("", 64, dtype="float"))
        for s in starts_us
    ]
    return {"cpu_ops": calls, "annotations": [*work, *STEPS]}


def test_gloo_on_the_cpu_is_measured_by_its_annotations() -> None:
    ranks = [rank_trace(r, **gloo(STARTS_US, 70 * r)) for r in range(2)]

    result = lag(*ranks)

    assert (result.value, result.source) == (70.0, "annotation")
    assert any("CPU-only" in text for text in result.warnings)


def test_other_cpu_only_traces_are_refused() -> None:
    launches = [Event("c10d::allreduce_", s, 20, 1, Coll("", 64, dtype="float")) for s in STARTS_US]
    with_calls = [rank_trace(r, cpu_ops=launches) for r in range(2)]
    without = [rank_trace(r, cpu_ops=[Event("aten::mm", 0, 5, 1)]) for r in range(2)]

    assert lag(*with_calls).reason == "no_gpu_events"
    assert lag(*without).reason == "no_gpu_events"


def test_details_are_the_documented_keys_and_plain_json() -> None:
    result = lag(*three())

    assert set(result.details) == set(straggler_lag.keys)
    assert json.loads(json.dumps(result.to_document(), allow_nan=False)) == result.to_document()


def test_one_file_without_a_rank_is_not_called_no_rank() -> None:
    none = lag(late_rank(None, 0, world_size=None, groups=[]))

    assert none.reasons[0].message == (
        "a comparison of ranks needs at least two; "
        "one file does not state a rank, which --rank-map can give"
    )
