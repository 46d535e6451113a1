"""The simulated job obeys its own rules, and simple jobs have the times computed by hand."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest

from ccltui.demo import Spec, Straggler
from ccltui.demo.simulate import Activity, Schedule, simulate
from ccltui.demo.spec import SlowLink

SMALL = {"steps": 2, "micro_batches": 2, "layers": 2}
SHAPES = {
    "demo": Spec(steps=2),
    "tp": Spec.quiet(tp=4, pp=1, dp_shard=1, **SMALL),
    "sequence parallel": Spec.quiet(tp=2, pp=1, dp_shard=2, sequence_parallel=True, **SMALL),
    "pipeline of four": Spec.quiet(
        tp=1, pp=4, dp_shard=1, steps=2, micro_batches=6, layers=4, jitter_ns=900
    ),
    "gpipe": Spec.quiet(tp=1, pp=2, dp_shard=1, pipeline="gpipe", **SMALL),
    "hybrid sharding": Spec.quiet(tp=1, pp=1, dp_replicate=2, dp_shard=2, **SMALL),
    "experts": Spec.quiet(tp=1, pp=1, dp_shard=4, experts=True, **SMALL),
    "no overlap": Spec.quiet(tp=1, pp=1, dp_shard=2, overlap_dp=False, **SMALL),
    "no synchronisation": Spec.quiet(sync_each_step=False, **SMALL),
    "one rank": Spec.quiet(tp=1, pp=1, dp_shard=1, **SMALL),
}


@pytest.fixture(params=list(SHAPES.values()), ids=list(SHAPES))
def schedule(request: pytest.FixtureRequest) -> Schedule:
    spec: Spec = request.param
    return simulate(spec)


def of_call(schedule: Schedule) -> dict[int, dict[int, Activity]]:
    calls: dict[int, dict[int, Activity]] = {}
    for activities in schedule.activities:
        for activity in activities:
            if activity.call >= 0:
                calls.setdefault(activity.call, {})[activity.rank] = activity
    return calls


def test_a_call_ends_on_all_members_after_the_last_has_come(schedule: Schedule) -> None:
    calls = of_call(schedule)

    assert sorted(calls) == [call.index for call in schedule.calls]
    for call in schedule.calls:
        members = calls[call.index]
        assert set(members) == set(call.members)
        last_ns = max(member.start_ns for member in members.values())
        assert {member.end_ns for member in members.values()} == {last_ns + call.transfer_ns}


def test_a_stream_does_one_thing_after_the_other(schedule: Schedule) -> None:
    for activities in schedule.activities:
        in_order = sorted(activities, key=lambda item: (item.stream, item.start_ns))
        for _, stream in groupby(in_order, key=lambda item: item.stream):
            for earlier, later in pairwise(stream):
                assert earlier.end_ns <= later.start_ns


def test_nothing_runs_before_its_launch_and_no_host_does_two_things(schedule: Schedule) -> None:
    for activities in schedule.activities:
        for activity in activities:
            assert activity.host_start_ns < activity.launch_ns < activity.start_ns
            assert activity.launch_ns < activity.host_end_ns
            assert activity.end_ns > activity.start_ns
        for earlier, later in pairwise(activities):
            assert earlier.host_end_ns <= later.host_start_ns


def test_members_number_their_collectives_alike(schedule: Schedule) -> None:
    calls = of_call(schedule)
    for call in schedule.calls:
        if not call.is_p2p:
            assert len({member.seq for member in calls[call.index].values()}) == 1


def test_a_marker_holds_the_launches_of_its_step(schedule: Schedule) -> None:
    for activities, ranges in zip(schedule.activities, schedule.host, strict=True):
        markers = {item.step: item for item in ranges if item.kind == "step"}
        assert sorted(markers) == list(range(schedule.spec.steps))
        for activity in activities:
            marker = markers[activity.step]
            assert marker.start_ns <= activity.launch_ns < marker.end_ns


def order(schedule: Schedule, rank: int) -> str:
    """F and B of a rank's first step, one letter a micro-batch (the stage has one layer)."""
    letters = {"forward": "F", "backward": "B"}
    return "".join(
        letters[item.phase]
        for item in schedule.activities[rank]
        if item.kind == "attention" and item.step == 0
    )


def test_one_forward_one_backward_fills_as_deep_as_the_stages_behind() -> None:
    schedule = simulate(SHAPES["pipeline of four"])

    assert order(schedule, 0) == "FFFFBFBFBBBB"
    assert order(schedule, 1) == "FFFBFBFBFBBB"
    assert order(schedule, 3) == "FBFBFBFBFBFB"


def test_gpipe_goes_forward_first() -> None:
    assert order(simulate(SHAPES["gpipe"]), 0) == "FFBB"


def lags_ns(schedule: Schedule) -> list[int]:
    lags = []
    for members in of_call(schedule).values():
        starts = [member.start_ns for member in members.values()]
        lags.append(max(starts) - min(starts))
    return lags


UNIT = {
    # forward 4 + 3 units, backward 5 + 7, then the norm and the optimizer: 21 units in all
    "tp": 2,
    "pp": 1,
    "dp_shard": 1,
    "steps": 1,
    "layers": 1,
    "micro_batches": 1,
    "gemm_ns": 100_000,
    "attention_ns": 100_000,
    "elementwise_ns": 100_000,
    "grad_norm_ns": 100_000,
    "optimizer_ns": 100_000,
}


def test_a_slow_rank_is_late_by_its_share_of_what_it_computed() -> None:
    slow = Straggler(rank=1, cause="compute", extra_ns=21_000)

    schedule = simulate(Spec.quiet(**UNIT, stragglers=(slow,)))

    assert lags_ns(schedule) == [4_000, 3_000, 5_000, 7_000, 1_000]


def test_what_rounding_leaves_goes_to_the_last_kernel() -> None:
    slow = Straggler(rank=0, cause="compute", extra_ns=21_020)

    schedule = simulate(Spec.quiet(**UNIT, stragglers=(slow,)))

    assert lags_ns(schedule) == [4_000, 3_000, 5_002, 7_003, 1_000]
    optimizer = [item for item in schedule.activities[0] if item.kind == "optimizer"]
    assert [item.dur_ns for item in optimizer] == [101_015]


@pytest.mark.parametrize("cause", ["data_loading", "host"])
def test_a_stalled_rank_is_late_at_the_first_collective_of_the_step_only(cause: str) -> None:
    stall = Straggler(rank=1, cause=cause, extra_ns=3_000_000, steps=(1,))  # type: ignore[arg-type]
    spec = Spec.quiet(
        tp=2,
        pp=1,
        dp_shard=1,
        steps=2,
        layers=1,
        micro_batches=1,
        stragglers=(stall,),
        world_allreduce=False,
    )

    assert lags_ns(simulate(spec)) == [0, 0, 0, 0, 3_000_000, 0, 0, 0]


def test_a_slow_link_makes_no_rank_late() -> None:
    spec = Spec.quiet(tp=2, pp=1, dp_shard=1, steps=1, layers=1, micro_batches=1)
    slow = Spec.quiet(
        tp=2,
        pp=1,
        dp_shard=1,
        steps=1,
        layers=1,
        micro_batches=1,
        slow_links=(SlowLink("tp", 0, 70_000),),
    )

    before, after = simulate(spec), simulate(slow)

    assert set(lags_ns(after)) == {0}
    longer = [
        late.transfer_ns - early.transfer_ns
        for early, late in zip(before.calls, after.calls, strict=True)
    ]
    assert longer == [70_000, 70_000, 70_000, 70_000, 0]


def test_a_transfer_takes_latency_and_wire_bytes_over_the_link() -> None:
    # 2048 tokens x 4096 in BFloat16 = 16 MiB, all-reduced by two ranks: 16 MiB on the wire
    near = Spec.quiet(tp=2, pp=1, dp_shard=1, gpus_per_node=2, steps=1, micro_batches=1)
    far = Spec.quiet(tp=2, pp=1, dp_shard=1, gpus_per_node=1, steps=1, micro_batches=1)

    assert simulate(near).calls[0].transfer_ns == 11_250 + 16 * 2**20 // 200
    assert simulate(far).calls[0].transfer_ns == 11_250 + 16 * 2**20 // 25
