"""The schedule of a synthetic job, and what its profilers see of it."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import pytest

from ccltui.demo import DEMO, Cut, LateStart, Spec, Straggler
from ccltui.demo.kineto_writer import BASE_NS, START_NS, HostClock, observe
from ccltui.demo.simulate import Activity, Schedule, simulate
from ccltui.demo.spec import SlowLink, lay_out

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


TINY = {"tp": 2, "pp": 1, "dp_shard": 1, "steps": 2, "layers": 1, "micro_batches": 1}


def test_a_clock_adds_its_offset() -> None:
    spec = Spec.quiet(clock_offsets_ns=(0, -7_003))

    assert HostClock(spec, 0).read(12_345) == START_NS + 12_345
    assert HostClock(spec, 1).read(12_345) == START_NS + 5_342


def test_a_drifting_clock_gains_in_proportion() -> None:
    spec = Spec.quiet(clock_drifts_ppb=(0, 20_000))

    assert HostClock(spec, 1).read(0) == START_NS
    assert HostClock(spec, 1).read(1_000_000_000) == START_NS + 1_000_020_000


def test_whole_microseconds_are_floored() -> None:
    spec = Spec.quiet(layout="integer_us", clock_offsets_ns=(0, 1_700))

    assert HostClock(spec, 0).read(1_999) == START_NS + 1_000
    assert HostClock(spec, 1).read(1_999) == START_NS + 3_000


def test_times_are_written_against_a_base_except_in_a_bare_list() -> None:
    relative = observe(simulate(Spec.quiet(**TINY)))
    bare = observe(simulate(Spec.quiet(**TINY, layout="bare_list")))

    assert relative.activities[0][0].start_ns > BASE_NS
    assert 1_000_000_000 < bare.activities[0][0].start_ns < 1_010_000_000


def test_a_late_profiler_misses_the_first_collectives_and_what_came_before() -> None:
    true = simulate(Spec.quiet(**TINY, late_starts=(LateStart(rank=1, missing=2),)))

    seen = observe(true)

    calls = [item for item in seen.activities[1] if item.klass == "comm"]
    assert len(calls) == 10 - 2  # 4 all-reduces and the norm in each of 2 steps
    assert len(seen.activities[0]) == len(true.activities[0])
    began_ns = calls[0].host_start_ns
    assert min(item.host_start_ns for item in seen.activities[1]) == began_ns
    markers = [item for item in seen.host[1] if item.kind == "step"]
    assert [item.step for item in markers] == [0, 1]
    assert markers[0].start_ns == began_ns


def test_orphans_stay_without_their_launch() -> None:
    late = LateStart(rank=1, missing=2, orphans=1)

    seen = observe(simulate(Spec.quiet(**TINY, late_starts=(late,))))

    orphans = [item for item in seen.activities[1] if item.orphan]
    assert [item.seq for item in orphans] == [102]
    assert sum(item.klass == "comm" for item in seen.activities[1]) == 9


def test_more_orphans_than_missing_collectives_cannot_be() -> None:
    true = simulate(Spec.quiet(**TINY, late_starts=(LateStart(0, 1, orphans=2),)))

    with pytest.raises(ValueError, match="rank 0 has 10 collectives"):
        observe(true)


def rank_sets(spec: Spec, dimension: str) -> list[tuple[int, ...]]:
    return [group.ranks for group in lay_out(spec).groups if group.dimension == dimension]


def test_tensor_parallel_ranks_are_neighbours_and_stages_are_far_apart() -> None:
    spec = Spec.quiet(tp=2, pp=2, dp_shard=2)

    assert rank_sets(spec, "world") == [(0, 1, 2, 3, 4, 5, 6, 7)]
    assert rank_sets(spec, "tp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert rank_sets(spec, "dp_shard") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert rank_sets(spec, "pp") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert rank_sets(spec, "dp_replicate") == []


def test_shards_lie_inside_replicas() -> None:
    spec = Spec.quiet(tp=1, pp=1, dp_replicate=2, dp_shard=2)

    assert rank_sets(spec, "dp_shard") == [(0, 1), (2, 3)]
    assert rank_sets(spec, "dp_replicate") == [(0, 2), (1, 3)]


def test_group_names_are_unique_in_the_job_or_repeat_as_labels_may() -> None:
    unique = lay_out(Spec.quiet()).groups
    repeated = lay_out(Spec.quiet(local_group_names=True)).groups

    assert [group.name for group in unique] == [str(number) for number in range(13)]
    assert {group.name for group in repeated if group.dimension == "tp"} == {"3"}
    assert {group.name for group in repeated} == {"0", "1", "2", "3"}


def test_communicator_ids_need_64_bits_without_sign() -> None:
    ids = {group.comms_id for group in lay_out(Spec.quiet()).groups}

    assert len(ids) == 13
    assert all(2**63 <= number < 2**64 for number in ids)


def test_hosts_are_filled_in_order() -> None:
    topology = lay_out(Spec.quiet(gpus_per_node=4))

    assert [topology.host_name(rank) for rank in (0, 3, 4, 7)] == [
        "demo-node-1",
        "demo-node-1",
        "demo-node-2",
        "demo-node-2",
    ]
    assert [topology.device_of(rank) for rank in (0, 3, 4, 7)] == [0, 3, 0, 3]
    assert topology.within_host((0, 3))
    assert not topology.within_host((3, 4))


def test_the_default_job_is_eight_ranks_on_two_hosts() -> None:
    assert (DEMO.world_size, DEMO.num_hosts, DEMO.steps) == (8, 2, 6)
    assert DEMO.global_batch == 4 * 1 * 2
    assert DEMO.clock_offsets_ns == (0, 5_000_000)


def test_the_last_host_need_not_be_full() -> None:
    spec = Spec.quiet(tp=3, pp=1, dp_shard=2, gpus_per_node=4)

    assert (spec.world_size, spec.num_hosts) == (6, 2)


def test_a_quiet_job_has_nothing_planted_unless_asked() -> None:
    late = Straggler(rank=1, cause="host", extra_ns=5)

    assert Spec.quiet().stragglers == ()
    assert Spec.quiet().jitter_ns == 0
    assert Spec.quiet(stragglers=(late,)).stragglers == (late,)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"tp": 0}, "tp must be at least 1, not 0"),
        ({"layers": 3}, "3 layers do not divide into 2 stages"),
        ({"gemm_ns": -1}, "gemm_ns must not be negative"),
        ({"layout": "xml"}, "layout is 'xml'; choose from native, metadata_last"),
        ({"layout": "old2021"}, "old2021 knows no collective metadata"),
        ({"experts": True, "dp_shard": 1}, "set dp_shard above 1"),
        ({"stragglers": (Straggler(8, "host", 1),)}, "names no rank of a job of 8"),
        ({"late_starts": (LateStart(-1, 1),)}, "names no rank of a job of 8"),
        ({"cuts": (Cut(9, 0.5),)}, "names no rank of a job of 8"),
        ({"clock_offsets_ns": (0, 1, 2)}, "more than the 2 hosts"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, Any], because: str) -> None:
    with pytest.raises(ValueError, match=because):
        Spec.quiet(**changes)
