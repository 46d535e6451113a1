"""The known values against a second, simpler method: one array cell per nanosecond."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ccltui.demo import Cut, LateStart, Spec, Straggler, Truth, build
from ccltui.demo.kineto_writer import observe
from ccltui.demo.simulate import Activity, Schedule, simulate
from ccltui.demo.truth import together, total

QUICK = {
    "steps": 2,
    "layers": 2,
    "micro_batches": 2,
    "gemm_ns": 21_017,
    "attention_ns": 17_011,
    "elementwise_ns": 3_001,
    "grad_norm_ns": 10_007,
    "optimizer_ns": 40_009,
    "data_loading_ns": 30_013,
    "hidden": 256,
    "seq_len": 128,
    "jitter_ns": 1_009,
}
SPECS = {
    "tp": Spec.quiet(tp=2, pp=1, dp_shard=1, **QUICK),
    "pp": Spec.quiet(tp=1, pp=2, dp_shard=1, **QUICK),
    "dp": Spec.quiet(tp=1, pp=1, dp_shard=2, **QUICK),
    "dp without overlap": Spec.quiet(tp=1, pp=1, dp_shard=2, overlap_dp=False, **QUICK),
    "hybrid": Spec.quiet(tp=1, pp=1, dp_shard=2, dp_replicate=2, **QUICK),
    "free running": Spec.quiet(tp=1, pp=2, dp_shard=2, sync_each_step=False, **QUICK),
    "2023": Spec.quiet(tp=2, pp=1, dp_shard=1, layout="integer_us", **QUICK),
}


def truth_of(spec: Spec) -> Truth:
    return build(spec).truth


def cells(activities: list[Activity], origin_ns: int, length_ns: int) -> np.ndarray:
    covered = np.zeros(length_ns, bool)
    for item in activities:
        covered[item.start_ns - origin_ns : item.end_ns - origin_ns] = True
    return covered


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_every_measure_equals_counting_nanoseconds(spec: Spec) -> None:
    seen, truth = observe(simulate(spec)), truth_of(spec)

    for rank in truth.ranks:
        activities = list(seen.activities[rank.rank])
        origin_ns = min(item.start_ns for item in activities)
        length_ns = max(item.end_ns for item in activities) - origin_ns
        work = np.zeros(length_ns, bool)
        for step in {item.step for item in activities}:
            inside = [item for item in activities if item.step == step]
            first_ns = min(item.start_ns for item in inside) - origin_ns
            work[first_ns : max(item.end_ns for item in inside) - origin_ns] = True
        comm, comp, mem = (
            cells([item for item in activities if item.klass == klass], origin_ns, length_ns)
            for klass in ("comm", "comp", "mem")
        )

        assert rank.comm_ns == comm.sum()
        assert rank.comp_ns == comp.sum()
        assert rank.mem_ns == mem.sum()
        assert rank.overlap_ns == (comm & comp).sum()
        assert rank.exposed_comm_ns == (comm & ~comp).sum()
        assert rank.mem_only_ns == (mem & ~comm & ~comp).sum()
        # steps follow one another: all time from the first work to the last is measured
        assert rank.idle_ns == (~comm & ~comp & ~mem).sum()
        passing = cells(
            [item for item in activities if item.kind in ("send", "recv")], origin_ns, length_ns
        )
        useful = cells(
            [item for item in activities if item.kind not in ("send", "recv")],
            origin_ns,
            length_ns,
        )
        assert rank.bubble.idle_ns == (work & ~passing & ~useful).sum()
        assert rank.bubble.exposed_p2p_ns == (work & passing & ~useful).sum()
        moving = moving_cells(seen, rank.rank, origin_ns, length_ns)
        assert rank.bubble.transfer_ns == (work & moving & ~useful).sum()


def moving_cells(seen: Schedule, rank: int, origin_ns: int, length_ns: int) -> np.ndarray:
    """Of every p2p kernel the last part, as long as the shorter of the pair."""
    durations: dict[int, list[int]] = {}
    for activities in seen.activities:
        for item in activities:
            durations.setdefault(item.call, []).append(item.dur_ns)
    covered = np.zeros(length_ns, bool)
    for item in seen.activities[rank]:
        if item.kind in ("send", "recv"):
            end_ns = item.end_ns - origin_ns
            covered[end_ns - min(durations[item.call]) : end_ns] = True
    return covered


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_parts_of_a_window_add_up(spec: Spec) -> None:
    for rank in truth_of(spec).ranks:
        parts = (rank.comm_only_ns, rank.comp_only_ns, rank.overlap_ns, rank.mem_only_ns)
        assert sum(parts) + rank.idle_ns == joined_ns(rank.windows)
        assert rank.comm_only_ns == rank.exposed_comm_ns
        assert rank.comm_ns <= rank.comm_sum_ns
        assert sum(rank.calls_by_step.values()) == rank.calls


def joined_ns(windows: tuple[tuple[int, int], ...]) -> int:
    return total(together({"window": windows}), {"window"})


def test_waits_and_lag_of_an_all_reduce_with_a_late_rank() -> None:
    late = Straggler(rank=1, cause="compute", extra_ns=10_000_000)
    spec = Spec.quiet(
        tp=2,
        pp=1,
        dp_shard=1,
        steps=1,
        layers=1,
        micro_batches=1,
        gemm_ns=1_000_000,
        attention_ns=0,
        elementwise_ns=0,
        grad_norm_ns=0,
        optimizer_ns=0,
        stragglers=(late,),
    )

    first, *_, norm = truth_of(spec).collectives

    assert (first.type, first.description, first.step) == ("AllReduce", "mesh_tp", 10)
    assert first.late_ns == (0, 1_666_666)  # two of twelve products
    assert first.lag_ns == 1_666_666
    assert first.wait_ns == (1_666_666, 0)
    assert first.last == (1,)
    assert (norm.description, norm.lag_ns, norm.last) == ("default_pg", 0, (0, 1))


def test_clock_offsets_move_starts_but_no_duration() -> None:
    plain = truth_of(Spec.quiet(steps=1))
    ahead = truth_of(Spec.quiet(steps=1, clock_offsets_ns=(0, 2_500_000)))

    assert ahead.clock_offset_ns == {rank: 0 if rank < 4 else 2_500_000 for rank in range(8)}
    assert [call.dur_ns for call in ahead.collectives] == [
        call.dur_ns for call in plain.collectives
    ]
    assert [rank.overlap_ns for rank in ahead.ranks] == [rank.overlap_ns for rank in plain.ranks]
    start, moved = (
        next(call.start_ns for call in truth.collectives if call.dimension == "world")
        for truth in (plain, ahead)
    )
    assert [(b or 0) - (a or 0) for a, b in zip(start, moved, strict=True)] == [0] * 4 + [
        2_500_000
    ] * 4


def test_offsets_of_a_first_host_count_against_rank_0() -> None:
    truth = truth_of(Spec.quiet(steps=1, clock_offsets_ns=(3_000, 1_000)))

    assert truth.clock_offset_ns == {rank: 0 if rank < 4 else -2_000 for rank in range(8)}


def test_messages_and_wire_bytes_by_dimension() -> None:
    # one step, one layer a stage, one micro-batch; activations 2048 x 4096, two bytes each
    truth = truth_of(Spec.quiet(steps=1, layers=2, micro_batches=1))
    activation, parameters = 2048 * 4096 * 2, 12 * 4096**2 // 2 * 2

    assert truth.message_bytes == {
        "tp": 8 * 4 * activation,  # ranks x all-reduces
        "dp_shard": 8 * 2 * parameters,  # gathered and scattered once
        "pp": 4 * 2 * activation // 2,  # pairs x there and back, cut by TP
        "world": 8 * 8 * 4,
    }
    assert truth.wire_bytes == {
        "tp": 8 * 4 * activation,
        "dp_shard": 8 * 2 * parameters // 2,
        "pp": 4 * 2 * activation // 2,
        "world": 8 * 2 * 7 * 4,
    }


def test_calls_are_counted_by_rank_type_and_step() -> None:
    truth = truth_of(Spec.quiet(steps=2, layers=2, micro_batches=3))

    for rank in truth.ranks:
        assert rank.calls_by_type == {
            "AllGather": 2,
            "ReduceScatter": 2,
            "AllReduce": 2 * (3 * 4 + 1),
            "Send": 2 * 3,
            "Recv": 2 * 3,
        }
        assert rank.calls_by_step == {10: 21, 11: 21}


def test_names_alone_tell_less_about_the_type() -> None:
    nccl = truth_of(Spec.quiet(steps=1, metadata="names_only"))
    rccl = truth_of(Spec.quiet(steps=1, metadata="names_only", library="rccl"))

    assert set(nccl.calls_by_type) == {"AllGather", "AllReduce", "ReduceScatter", "SendRecv"}
    assert set(rccl.calls_by_type) == {"Generic"}


def test_missing_members_make_a_collective_incomplete() -> None:
    spec = Spec.quiet(
        tp=2,
        pp=1,
        dp_shard=1,
        steps=1,
        layers=1,
        micro_batches=1,
        late_starts=(LateStart(1, 2, 1),),
    )

    truth = truth_of(spec)

    assert [call.complete for call in truth.collectives] == [False, False, True, True, True]
    assert truth.collectives[0].dur_ns[1] is None
    assert truth.ranks[1].calls == 4  # the orphan counts as a call
    assert Counter(truth.ranks[1].calls_by_type) == {"AllReduce": 4}
    assert truth.ranks[1].step_ns[10] < truth.ranks[0].step_ns[10]


def test_what_a_cut_file_lost_is_not_in_the_truth() -> None:
    spec = Spec.quiet(tp=2, pp=1, dp_shard=1, steps=2, cuts=(Cut(rank=0, fraction=0.75),))

    truth = truth_of(spec)

    lost, whole = truth.ranks
    assert 0 < lost.calls < whole.calls
    assert sum(call.complete for call in truth.collectives) == lost.calls


def test_ideal_pipeline_comes_near_the_theory() -> None:
    # Four stages, four micro-batches: (4 - 1) / (4 + 4 - 1), with all else made negligible.
    # What a stage waits at the end of a step, it spends in the first receive of the next one.
    spec = Spec.quiet(
        tp=1,
        pp=4,
        dp_shard=1,
        steps=12,
        world_allreduce=False,
        grad_norm_ns=1_000,
        optimizer_ns=1_000,
        gemm_ns=5_000_000,
        network_bytes_per_ns=10_000,
        node_bytes_per_ns=10_000,
    )

    truth = truth_of(spec)

    assert truth.theoretical_bubble == 3 / 7
    assert truth.bubble_ratio == pytest.approx(3 / 7, abs=0.02)


def test_faults_are_described_in_sentences() -> None:
    assert truth_of(Spec(steps=4)).faults == (
        "rank 1 computes 2.4 ms longer in every step",
        "rank 6 waits 12 ms longer for its data in step 13",
        "the clock of demo-node-2 is 5 ms ahead",
    )
    assert truth_of(Spec(steps=4)).stragglers == (1,)


def test_sweep_by_hand() -> None:
    # K = [10,50) and [60,70), C = [40,80), M = [75,90), window [0,100)
    spent = together({"W": [(0, 100)], "K": [(10, 50), (60, 70)], "C": [(40, 80)], "M": [(75, 90)]})

    assert total(spent, {"K"}) == 50
    assert total(spent, {"C"}) == 40
    assert total(spent, {"C", "K"}) == 20
    assert total(spent, {"K"}, {"C"}) == 30
    assert total(spent, {"M"}, {"C", "K"}) == 10
    assert total(spent, {"W"}, {"C", "K", "M"}) == 20
