"""The verdict where no file names a communicator, a peer or a size: simulated jobs, read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ccltui.demo.planted import JobSpec, random_spec, write_planted
from ccltui.demo.planted.job_spec import Damage, Fault, Level
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

BASE = JobSpec(
    steps=5,
    micro_batches=4,
    layers=1,
    gpus_per_node=4,
    level="names",
    clock_offsets_ns=(0, 31_000_000, -12_000_000, 4_000_000),
    clock_drifts_ppb=(0, 9_000, -4_000, 0),
    seed=11,
)


def view_of(spec: JobSpec, folder: Path) -> View:
    write_planted(folder / "job", spec)
    return View(open_job(folder / "job", cache_dir=folder / "cache", jobs=1))


def verdict_of(spec: JobSpec, folder: Path) -> Result:
    return find("verdict").run(view_of(spec, folder))


def slow(*ranks: int, factor: float = 1.7) -> tuple[Fault, ...]:
    return (Fault("slow_worker", ranks, factor),)


PIPELINE = replace(BASE, family="pp", dp=2, pp=2)
SLOW = {
    "a mesh of two dimensions": (replace(BASE, family="tp", dp=4, tp=2, faults=slow(5)), "5"),
    "a pipeline": (replace(PIPELINE, faults=slow(2)), "2"),
    "a pipeline without host rows": (replace(PIPELINE, level="no_host", faults=slow(1)), "1"),
    "a pipeline of tensor-parallel groups": (replace(PIPELINE, tp=2, faults=slow(6)), "6"),
    "interleaved chunks": (replace(PIPELINE, pp=4, chunks=2, faults=slow(3)), "3"),
    "gathers by the copy engine": (
        replace(BASE, family="fsdp", dp=8, gather="copy_engine", faults=slow(6)),
        "6",
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_worker_is_named_with_nothing_but_the_names_of_kernels(
    name: str, tmp_path: Path
) -> None:
    spec, rank = SLOW[name]
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "slow_worker", found["why"]
    assert found["culprit"]["ranks"] == [rank]
    assert found["confidence"] in ("low", "medium")  # who belongs together is inferred


def test_transfers_of_inferred_pairs_are_sent_by_the_rank_that_does_not_wait(
    tmp_path: Path,
) -> None:
    spec = replace(PIPELINE, pp=4)
    view = view_of(spec, tmp_path)
    pairs = set(zip(view.pairs.sender.tolist(), view.pairs.receiver.tolist(), strict=True))

    forward = {(rank, rank + 2) for rank in range(6)}
    assert pairs == forward | {(receiver, sender) for sender, receiver in forward}
    assert len(view.pairs) == 12 * spec.micro_batches * spec.steps


def test_all_communicators_of_one_set_of_ranks_share_a_slow_link(tmp_path: Path) -> None:
    # gathers and reductions of a shard are on two streams: two communicators as far as is known
    fault = Fault("slow_group", (0, 2, 4, 6), 6.0)
    spec = replace(BASE, family="fsdp", dp=4, tp=2, gpus_per_node=8, faults=(fault,))
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "slow_link", found["why"]
    assert found["culprit"]["ranks"] == ["0", "2", "4", "6"]


def test_ranks_that_nothing_connects_are_not_compared(tmp_path: Path) -> None:
    # all communicators on one stream: what connects the pairs is not told from the pairs
    spec = replace(BASE, family="tp", dp=4, tp=2, same_stream=True, faults=slow(4))
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] in ("inconclusive", "slow_worker")
    assert found["verdict"] == "slow_worker" or found["culprit"] is None


def test_stages_that_are_all_of_one_host_are_a_slow_node(tmp_path: Path) -> None:
    fault = Fault("slow_node", (4, 5, 6, 7), 1.4)
    spec = replace(BASE, family="pp", dp=2, pp=4, level="full", faults=(fault,))
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "slow_node", found["why"]
    assert found["culprit"]["host"] == "node-01"
    assert found["confidence"] != "high"  # two heavy stages would look the same


def test_one_heavy_stage_of_a_host_is_no_slow_node(tmp_path: Path) -> None:
    fault = Fault("heavy_stage", (4, 5), 1.6, stage=2)
    spec = replace(BASE, family="pp", dp=2, pp=4, level="full", faults=(fault,))
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "heavy_stage", found["why"]
    assert found["culprit"]["stage"] == 2


def test_hosts_that_all_hold_their_devices_up_do_not_hide_a_slow_step(tmp_path: Path) -> None:
    fault = Fault("occasional_worker", (3,), 2.1, steps=(3,))
    spec = replace(
        BASE, family="dp", dp=8, level="full", kernel_ns=60_000, host_op_ns=75_000, faults=(fault,)
    )
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "occasional_worker", found["why"]
    assert found["culprit"]["ranks"] == ["3"]


@pytest.mark.parametrize("level", ["full", "names", "no_host"])
def test_a_window_that_begins_late_adds_nothing_to_its_first_step(
    level: Level, tmp_path: Path
) -> None:
    spec = replace(
        BASE,
        family="dp",
        dp=4,
        level=level,
        host_sync=False,
        damage=(Damage("late", 0, 3),),
        faults=slow(2),
    )
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "slow_worker", found["why"]
    assert found["culprit"]["ranks"] == ["2"]


def test_a_rank_without_a_file_is_a_candidate_where_the_others_wait_together(
    tmp_path: Path,
) -> None:
    spec = replace(
        BASE, family="dp", dp=4, level="full", damage=(Damage("missing", 2),), faults=slow(2)
    )
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "inconclusive"
    assert found["culprit"] is None
    (candidate,) = [one for one in found["also"] if one["culprit"]]
    assert candidate["culprit"]["ranks"] == ["2"]
    assert candidate["culprit"]["recorded"] is False
    assert "rank 2 is not recorded" in candidate["why"]
    assert candidate["saves_ms"] > 0


@pytest.mark.parametrize(("steps", "most"), [((3,), "medium"), ((1, 3), "high")])
def test_a_worker_that_was_slow_in_one_step_only_is_never_sure(
    steps: tuple[int, ...], most: str, tmp_path: Path
) -> None:
    fault = Fault("occasional_worker", (3,), 2.3, steps=steps)
    found = verdict_of(
        replace(BASE, family="dp", dp=4, level="full", faults=(fault,)), tmp_path
    ).details

    assert found["verdict"] == "occasional_worker", found["why"]
    assert found["culprit"]["ranks"] == ["3"]
    assert found["confidence"] == most


def test_passes_of_different_sizes_are_no_long_sequences(tmp_path: Path) -> None:
    # ragged windows of a sharded job: its first pass of each step has fewer kernels than the others
    found = verdict_of(random_spec(67270), tmp_path).details

    assert found["verdict"] != "uneven_microbatches"


def test_copies_behind_the_last_collective_of_the_recording_clear_nobody(tmp_path: Path) -> None:
    # no step follows that they could delay, so that no replay of collectives has them
    fault = Fault("checkpoint", (0,), extra_ns=20_000_000, steps=(4,), silent=True)
    spec = replace(BASE, family="dp", dp=4, level="full", kernel_ns=200_000, faults=(fault,))
    found = verdict_of(spec, tmp_path).details

    assert found["verdict"] == "inconclusive"
    assert found["culprit"] is None
    assert "rank 0" in found["why"]
    assert "after its last collective" in found["why"]


def test_buckets_of_one_size_are_not_taken_for_steps(tmp_path: Path) -> None:
    # without sizes all reductions look alike: the kernels between them repeat after a step
    fault = Fault("allocation", (), extra_ns=6_000_000)
    spec = replace(
        BASE,
        family="dp",
        dp=4,
        level="no_host",
        layers=3,
        steps=9,
        micro_batches=2,
        same_stream=True,
        kernel_ns=270_000,
        faults=(fault,),
    )
    found = verdict_of(spec, tmp_path).details

    assert found["num_steps"] == 8  # one less: they lie between calls
    assert found["verdict"] == "host", found["why"]
    assert found["saves_ms"] == pytest.approx(6.0, rel=0.1)


def test_no_time_is_saved_where_ranks_that_may_wait_for_each_other_are_not_told(
    tmp_path: Path,
) -> None:
    # replayed apart, the sets of ranks would seem to gain nothing
    view = view_of(random_spec(210164), tmp_path)
    verdict, saved = (find(name).run(view) for name in ("verdict", "what_if_no_straggler"))

    assert verdict.details["verdict"] == "inconclusive"
    assert (saved.status, saved.reason) == ("unavailable", "unmatched_collectives")
    assert saved.reasons[0].message == verdict.details["why"]


@pytest.mark.parametrize(
    ("seed", "kind", "ranks", "cost_ms"),
    [
        (90118, "slow_worker", ["0"], 9.27),  # one call of the job, two of pairs on one stream
        (210630, "slow_link", ["2", "3"], 3.74),  # pairs in step, of which one is slow
        (210694, "slow_link", ["1", "5", "9", "13"], 14.84),  # and calls that wait for these
    ],
)
def test_communicators_of_one_stream_are_told_apart(
    seed: int, kind: str, ranks: list[str], cost_ms: float, tmp_path: Path
) -> None:
    details = find("verdict").run(view_of(random_spec(seed), tmp_path)).details

    assert (details["verdict"], details["culprit"]["ranks"]) == (kind, ranks)
    assert details["saves_ms"] == pytest.approx(cost_ms, rel=0.05)


def test_nobody_is_cleared_where_ranks_wait_in_calls_that_are_matched_to_none(
    tmp_path: Path,
) -> None:
    """Calls in CUDA graphs name no group: what a replica waits there for another is in no rung."""
    spec = replace(
        PIPELINE,
        level="full",
        schedule="gpipe",
        graphs=True,
        same_stream=True,
        host_op_ns=7_000,
        transfer_ns=540_000,
        kernel_ns=300_000,
    )
    even = verdict_of(spec, tmp_path / "even").details
    link = Fault("slow_pair", (1, 3), 18.0)
    slow_link = verdict_of(replace(spec, faults=(link,)), tmp_path / "slow").details

    assert even["verdict"] == "no_straggler", even["why"]
    assert slow_link["verdict"] == "inconclusive"
    assert "no reliable match" in slow_link["why"]
