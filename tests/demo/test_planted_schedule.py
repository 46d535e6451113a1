"""Times of simulated jobs against closed forms, and rules that every schedule keeps."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Literal

import pytest
from msgspec.structs import replace

from ccltui.demo.event_graph import LATENCY_NS, DeadlockError, Graph, Host, Op, evaluate
from ccltui.demo.planted import Fault, JobSpec, random_spec
from ccltui.demo.planted.planted_job import StepTimes, known_truth
from ccltui.demo.planted.tape import Call, RankOp
from ccltui.demo.planted.training_steps import run_job, step_time_ns

FORWARD = 4.85  # kernels of a layer, in kernels of average size
QUIET = JobSpec(jitter=0.0, transfer_ns=2_000, world_norm=False, steps=3, host_op_ns=1_000)


def time_ns(spec: JobSpec) -> float:
    return step_time_ns(run_job(spec)[0])


def pass_ns(spec: JobSpec) -> float:
    """A forward and a backward pass of a chunk; a backward kernel takes twice as long."""
    return 3 * FORWARD * spec.kernel_ns * spec.layers


def test_a_slow_worker_costs_what_it_computes_longer() -> None:
    spec = replace(QUIET, dp=4)
    slow = replace(spec, faults=(Fault("slow_worker", (2,), 1.5),))

    cost = time_ns(slow) - time_ns(spec)

    assert cost == pytest.approx(0.5 * spec.micro_batches * pass_ns(spec), rel=0.01)


def test_an_occasional_worker_costs_its_steps_alone() -> None:
    spec = replace(QUIET, dp=4, steps=4)
    slow = replace(spec, faults=(Fault("occasional_worker", (1,), 2.0, steps=(2,)),))

    cost = time_ns(slow) - time_ns(spec)

    assert cost == pytest.approx(spec.micro_batches * pass_ns(spec) / 4, rel=0.01)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("prefetch", [True, False])
def test_a_pipeline_is_filled_and_drained_once(
    schedule: Literal["1f1b", "gpipe"], prefetch: bool
) -> None:
    few = replace(
        QUIET, family="pp", dp=1, pp=4, micro_batches=4, schedule=schedule, prefetch=prefetch
    )
    many = replace(few, micro_batches=12)

    grown = time_ns(many) - time_ns(few)
    tail = time_ns(few) - (4 + 4 - 1) * pass_ns(few)

    assert grown == pytest.approx(8 * pass_ns(few), rel=0.01)
    assert 0 < tail < 0.2 * pass_ns(few) + 1_500_000  # input, norm, optimizer, launches


def test_model_chunks_shorten_the_bubble() -> None:
    plain = replace(QUIET, family="pp", dp=1, pp=4, micro_batches=8, layers=2)
    interleaved = replace(plain, chunks=2, layers=1)

    saved = time_ns(plain) - time_ns(interleaved)

    # Fill and drain take the passes of 3 stages; with two chunks those of half the size.
    assert saved == pytest.approx(3 * pass_ns(plain) / 2, rel=0.1)


def test_prefetched_gathers_are_hidden() -> None:
    spec = replace(QUIET, family="fsdp", dp=4, transfer_ns=800_000)

    late = time_ns(replace(spec, prefetch=False)) - time_ns(spec)

    gathers = 2 * spec.layers * spec.micro_batches
    assert late == pytest.approx(gathers * spec.transfer_ns, rel=0.15)


def test_a_slow_link_delays_nobody_but_costs_time() -> None:
    spec = replace(QUIET, family="pp", dp=4, pp=2, overlap=False, transfer_ns=400_000)
    slow = replace(spec, faults=(Fault("slow_group", (0, 1, 2, 3), 5.0),))

    job, _ = run_job(slow)

    cost = step_time_ns(job) - time_ns(spec)
    assert cost == pytest.approx(4 * spec.layers * 400_000, rel=0.05)


def test_a_forward_pause_is_of_the_main_thread_alone() -> None:
    pause = Fault("garbage_collection", (1,), extra_ns=30_000_000)
    _, tapes = run_job(replace(QUIET, faults=(pause,)))

    collected = [event for event in tapes[1].spans if event.kind == pause.kind]

    assert len(collected) == QUIET.steps
    assert not any(event.backward for event in collected)
    assert not any(event.kind == pause.kind for event in tapes[0].spans)


def test_work_of_micro_batches_is_one_on_average_and_shared_by_stages() -> None:
    spec = replace(QUIET, family="pp", dp=2, pp=2, faults=(Fault("uneven_microbatches", (), 0.5),))
    even = time_ns(spec.without_faults())
    job, tapes = run_job(spec)

    def busy(rank: int) -> int:
        return sum(op.dur_ns for op in tapes[rank].ops if op.call is None)

    assert sum(busy(rank) for rank in range(4)) == pytest.approx(
        sum(busy_of(spec.without_faults())), rel=0.01
    )
    assert busy(0) == pytest.approx(busy(2), rel=0.02)  # the same micro-batches, next stage
    assert step_time_ns(job) > 1.02 * even


def busy_of(spec: JobSpec) -> list[int]:
    _, tapes = run_job(spec)
    return [sum(op.dur_ns for op in tape.ops if op.call is None) for tape in tapes]


def test_a_broadcast_waits_for_its_sender_alone() -> None:
    spec = replace(QUIET, broadcast_buffers=True, host_sync=False, transfer_ns=400_000)
    slow = replace(spec, faults=(Fault("data_loading", (2,), extra_ns=40_000_000),))
    job, _ = run_job(slow)

    sent = [call for call in job.calls.values() if call.operation == "broadcast"]

    assert len(sent) == spec.steps
    for call in sent:
        assert call.members[0].end_ns < call.members[2].start_ns


@pytest.mark.parametrize(
    ("seed", "varied"), [*((n, False) for n in range(12)), *((n, True) for n in range(20))]
)
def test_every_schedule_keeps_the_order_of_streams_and_calls(seed: int, varied: bool) -> None:
    job, tapes = run_job(replace(random_spec(seed, varied=varied), steps=4, faults=()))

    for tape in tapes:
        streams: dict[int, list[RankOp]] = defaultdict(list)
        for op in tape.ops:
            assert op.start_ns >= op.launched_ns + LATENCY_NS
            assert all(op.start_ns >= other.end_ns for other in op.after)
            streams[op.stream].append(op)
        for ops in streams.values():
            for one, other in itertools.pairwise(ops):
                assert other.start_ns >= one.end_ns
    for call in job.calls.values():
        assert set(call.members) == set(call.ranks)
        if call.meeting == "all":
            last = max(member.start_ns for member in call.members.values())
            assert all(member.end_ns >= last + call.transfer_ns for member in call.members.values())


@pytest.mark.parametrize("stages", [2, 4])
def test_a_batch_sends_and_receives_while_passes_take_turns(stages: int) -> None:
    spec = replace(QUIET, family="pp", dp=1, pp=stages, prefetch=False)
    single, batched = (run_job(replace(spec, batched=one))[0] for one in (False, True))

    kinds = [Counter(call.operation for call in job.calls.values()) for job in (single, batched)]

    both = spec.steps * sum(spec.micro_batches - (stages - 1 - low) for low in range(stages - 1))
    assert kinds[1]["batch"] == both
    assert kinds[0]["send"] == kinds[1]["send"] + 2 * both
    # Who sends waits for the receive too, which costs nothing where all passes are alike.
    assert step_time_ns(batched) == pytest.approx(step_time_ns(single), rel=0.02)


def test_a_rank_of_a_ring_waits_for_the_one_before_it_alone() -> None:
    spec = replace(QUIET, family="tp", dp=1, tp=4, ring=True, host_sync=False)
    job, _ = run_job(replace(spec, faults=(Fault("slow_worker", (2,), 1.5),)))
    first = next(call for call in job.calls.values() if call.meeting == "previous")

    late = first.members[2].start_ns

    assert {rank for rank in first.ranks if first.members[rank].end_ns >= late} == {2, 3}


def test_a_slow_network_prolongs_transfers_between_hosts_alone() -> None:
    spec = replace(QUIET, family="tp", dp=2, tp=2, gpus_per_node=2)
    slow = replace(spec, faults=(Fault("slow_network", (), 5.0),))
    before, after = (run_job(one)[0] for one in (spec, slow))

    longer = {
        key
        for key, call in before.calls.items()
        if after.calls[key].transfer_ns > 4 * call.transfer_ns
    }

    assert {before.calls[key].label for key in longer} == {"dp"}


def test_ranks_that_alternate_are_slow_in_turn() -> None:
    spec = replace(QUIET, dp=4, steps=4)
    slow = replace(spec, faults=(Fault("alternating", (1, 3), 1.5),))

    cost = time_ns(slow) - time_ns(spec)

    assert cost == pytest.approx(0.5 * spec.micro_batches * pass_ns(spec), rel=0.02)
    assert known_truth(slow, StepTimes.of(run_job(slow)[0])).verdict == "occasional_worker"


def test_operations_that_wait_for_each_other_are_reported() -> None:
    graph: Graph[int] = Graph()
    calls = [Call(n, "allreduce", (0, 1), (0, 1), "dp", 10, 1, "all", 0) for n in (0, 1)]
    for rank in (0, 1):
        host = Host(graph, 0)
        for call in calls if rank == 0 else calls[::-1]:
            op: RankOp = Op(rank, "allreduce", 20, 0, 0)
            op.call, call.members[rank] = call, op
            host.add(op, 0)
            host.queue(op, ())

    with pytest.raises(DeadlockError, match="never end"):
        evaluate(graph)


def test_the_costs_of_a_fault_in_single_steps_add_up_to_its_cost() -> None:
    spec = replace(
        QUIET, dp=2, steps=4, faults=(Fault("occasional_worker", (1,), 2.0, steps=(2,)),)
    )

    (fault,) = known_truth(spec, StepTimes.of(run_job(spec)[0])).faults

    assert sum(fault.step_costs_ms) == pytest.approx(spec.steps * fault.cost_ms)
    assert fault.step_costs_ms[:2] == (0.0, 0.0)
    assert fault.step_costs_ms[2] == pytest.approx(spec.steps * fault.cost_ms, rel=0.01)
