"""What mending a culprit saves, and when that is bounded or not told: simulated jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from planted_jobs import Planted, Run, planted_job

from ccltui.demo.planted import Damage, JobSpec, PlantedTruth, random_spec, write_planted
from ccltui.demo.planted.job_spec import Fault, Level
from ccltui.metrics.findings.replay.ladder import Ladder, ladder_of
from ccltui.metrics.findings.replay.savings import Savings, savings_of
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SLOW = JobSpec(
    dp=4,
    steps=5,
    micro_batches=2,
    layers=1,
    kernel_ns=300_000,
    transfer_ns=400_000,
    faults=(Fault("slow_worker", (1,), 1.6),),
    clock_offsets_ns=(0,),
    clock_drifts_ppb=(0,),
    seed=3,
)
GATHERED = replace(
    SLOW, family="fsdp", micro_batches=4, prefetch=False, overlap=False, gather="copy_engine"
)


def opened(spec: JobSpec, folder: Path) -> tuple[PlantedTruth, View]:
    truth = write_planted(folder / "job", spec).truth
    return truth, View(open_job(folder / "job", cache_dir=folder / "cache", jobs=1))


def verdict_on(view: View) -> Result:
    return find("verdict").run(view)


def what_if(view: View) -> Result:
    return find("what_if_no_straggler").run(view)


def codes(result: Result) -> list[str]:
    return [reason.code for reason in result.reasons]


def test_nothing_is_withheld_or_bounded_where_all_is_recorded(tmp_path: Path) -> None:
    truth, view = opened(SLOW, tmp_path)
    verdict, without = verdict_on(view), what_if(view)

    assert (verdict.status, without.status) == ("ok", "ok")
    assert verdict.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)
    assert verdict.details["saves_bounds_ms"] is None
    assert verdict.details["steps_left_out"] == []
    assert without.details["saved_ms"] == pytest.approx(truth.cost_ms + truth.jitter_ms, rel=0.05)


def test_kernels_that_a_file_lacks_bound_what_is_saved(tmp_path: Path) -> None:
    damaged = replace(SLOW, damage=(Damage("dropped", 1, share=0.06),))
    truth, view = opened(damaged, tmp_path)
    verdict, without = verdict_on(view), what_if(view)

    assert verdict.status == without.status == "partial"
    assert "damaged_trace" in codes(verdict)
    assert "damaged_trace" in codes(without)
    assert "that rank 1 launched are missing from its file" in str(verdict.reasons)
    assert verdict.details["saves_ms"] is verdict.details["saves_pct"] is None
    least, most = without.details["saved_bounds_ms"]
    assert least <= truth.cost_ms <= most < truth.step_ms
    assert without.value is None
    assert without.details["saved_ms"] is None
    assert {row["ideal_ms"] for row in without.details["per_step"]} == {None}


def test_copies_on_a_stream_of_their_own_hide_nothing_from_the_replay(tmp_path: Path) -> None:
    # the times between calls do not tell what waits for them, the positions of the program do
    truth, view = opened(GATHERED, tmp_path)
    result = what_if(view)

    assert result.status == "ok"
    saved = result.details["saved_ms"]
    assert saved == pytest.approx(truth.cost_ms + truth.jitter_ms, rel=0.1)


RING = Planted(dp=1, pp=4, ring=True, host_rows=True)
GRAPHS = Planted(dp=2, pp=2, in_graphs=True)
SAVED = Planted(dp=4, pp=2, host_rows=True)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize(
    "plan",
    [
        replace(RING, slow_ranks={2: 1.6}),
        replace(RING, dp=2, slow_ranks={2: 2.2}),
        RING,
        replace(GRAPHS, slow_ranks={1: 1.6}),
        replace(GRAPHS, dp=8, pp=1, slow_ranks={3: 1.2}),
        GRAPHS,
        replace(SAVED, pauses_us={(1, 3): 60_000.0}),  # rank 1 alone saves a checkpoint
        replace(SAVED, pp=1, pauses_us={(1, 3): 60_000.0}),
        replace(SAVED, pp=1, host_rows=False, pauses_us={(1, 3): 60_000.0}),
    ],
)
def test_rings_graphs_and_checkpoints_cost_what_they_do(plan: Planted, seed: int) -> None:
    plan = replace(plan, seed=seed)
    run = Run(plan)
    true = float(run.step_us.sum() / Run(plan.without()).step_us.sum())
    view = View(planted_job(plan, run))
    result = what_if(view)

    assert result.status == "ok"
    assert result.value == pytest.approx(true, abs=0.015)
    details = verdict_on(view).details
    culprit = details["culprit"]
    if plan.ring and plan.slow_ranks:  # the others wait for it in the sends behind their work too
        assert details["saves_ms"] == pytest.approx(result.details["saved_ms"], rel=0.02)
    slow = [*plan.slow_ranks, *(rank for rank, _ in plan.pauses_us)]
    assert (culprit["ranks"] if culprit else []) == [str(rank) for rank in slow]


def test_a_pass_that_ends_in_a_ring_is_sent_on_when_the_ring_has_ended(tmp_path: Path) -> None:
    # Beside the slow rank the send of its neighbour begins late because the ring ends late.
    spec = replace(
        SLOW,
        family="pp",
        dp=1,
        tp=2,
        pp=2,
        ring=True,
        same_stream=True,
        prefetch=False,
        batched=True,
        micro_batches=4,
    )
    truth, view = opened(spec, tmp_path)
    details = verdict_on(view).details

    assert details["culprit"]["ranks"] == ["1"]
    assert details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)


def test_steps_that_some_ranks_recorded_in_part_make_results_partial(tmp_path: Path) -> None:
    truth, view = opened(replace(SLOW, damage=(Damage("late", 2, 2),)), tmp_path)
    verdict, without = verdict_on(view), what_if(view)

    # of steps 10 and 11 the rank lacks calls
    assert verdict.details["steps_left_out"] == [10, 11]
    assert codes(verdict) == ["unmatched_collectives"]
    assert verdict.reasons[0] in without.reasons
    assert [row["step"] for row in without.details["per_step"]] == [12, 13, 14]
    assert verdict.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)


def test_a_rank_that_recorded_less_than_a_step_is_left_out(tmp_path: Path) -> None:
    # its window ends before the first call ends, and so before the first step
    _, view = opened(replace(SLOW, damage=(Damage("early", 3, 100),)), tmp_path)
    result = verdict_on(view)

    assert not view.facts.ranks["3"].marked_steps[0]
    assert result.status == "partial"
    assert "rank 3 is not compared: its recording contains no whole step" in str(result.reasons)
    assert result.details["num_ranks"] == 3
    assert result.details["num_steps"] > 1


def test_a_rank_that_has_no_like_bounds_what_is_saved_where_it_holds_others_up(
    tmp_path: Path,
) -> None:
    truth, view = opened(SLOW, tmp_path)
    ladder = ladder_of(view)
    slow, operations = ladder.job.labels.index("1"), ladder.job.operations
    mine = np.repeat(ladder.job.table.rank == slow, np.diff(operations.first))
    like, alone = Savings(ladder), Savings(ladder)
    alone.__dict__["_typical_segments"] = np.where(
        mine, operations.compute_ns, like._typical_segments
    )

    assert like.held_by([slow]) is None  # at the speed of its like the others take as long
    bounds = alone.held_by([slow])
    assert bounds is not None
    assert bounds[0] < 0.2e6 * truth.cost_ms
    assert bounds[1] >= 0.95e6 * truth.cost_ms


def test_questions_about_the_same_lines_share_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, view = opened(SLOW, tmp_path)
    found = savings_of(view)
    lines = found.lines_of([1])
    first = found.like_others(lines)
    monkeypatch.setattr(Ladder, "ends", None)

    assert savings_of(view).like_others(lines.copy()) is first


def inflated(ladder: Ladder, slow: int) -> Ladder:
    """The same with transfers as they look without the slow rank: even their last member waits."""
    table = ladder.job.table
    found = np.full(len(table.transfer_ns), np.iinfo(np.int64).max)
    others = (table.instance >= 0) & (table.rank[table.line] != slow)
    np.minimum.at(found, table.instance[others], table.dur_ns[others])
    changed = Ladder(ladder.job, ladder.host_needs)
    changed.__dict__["targets"] = ladder.targets
    changed.__dict__["recorded_transfer"] = np.where(
        np.arange(len(found)) % 2, found, table.transfer_ns
    ).astype(np.float64)
    changed.__dict__["delayed"] = ladder.delayed
    return changed


def test_transfers_that_hide_waits_bound_what_is_saved(tmp_path: Path) -> None:
    truth, view = opened(SLOW, tmp_path)
    ladder = ladder_of(view)
    slow = ladder.job.labels.index("1")

    mended = Savings(ladder).lines_of([slow])
    assert Savings(ladder).hidden_waits(mended) is None
    bounds = Savings(inflated(ladder, slow)).hidden_waits(mended)
    assert bounds is not None
    assert bounds[0] < 0.7e6 * truth.cost_ms
    assert bounds[1] == pytest.approx(1e6 * truth.cost_ms, rel=0.05)


@pytest.mark.parametrize("level", ["names", "full"])
def test_waits_for_copies_of_no_known_collective_are_not_all_of_the_host(
    level: Level, tmp_path: Path
) -> None:
    pause = Fault("data_loading", (1,), extra_ns=2_500_000, silent=True)
    spec = replace(GATHERED, micro_batches=2, faults=(pause,), level=level)
    truth, view = opened(spec, tmp_path)
    result = verdict_on(view)

    if level == "names":  # the copies may be of a collective in which all wait for one
        assert result.details["verdict"] == "inconclusive"
        assert "copy data to each other outside of recorded collectives" in result.details["why"]
        assert result.details["saves_ms"] is None
        return
    assert result.details["verdict"] == "host"
    assert result.details["saves_bounds_ms"] is None
    assert result.details["culprit"]["ranks"] == ["1"]  # launches tell which host was last
    assert result.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_balanced_micro_batches_vary_as_much_as_passes_do_on_their_own(
    seed: int, tmp_path: Path
) -> None:
    spec = replace(
        SLOW,
        dp=8,
        steps=8,
        micro_batches=4,
        jitter=0.025,
        faults=(Fault("uneven_microbatches", factor=0.35),),
        seed=seed,
    )
    truth, view = opened(spec, tmp_path)
    details = verdict_on(view).details

    assert details["verdict"] == "uneven_microbatches"
    assert details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.1)


def test_balanced_micro_batches_by_names_of_kernels_alone(tmp_path: Path) -> None:
    # Two kernels of each pass come before the first that its name tells.
    truth, view = opened(random_spec(870081, varied=True), tmp_path)
    details = verdict_on(view).details

    assert details["verdict"] == "uneven_microbatches"
    assert details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)


def test_what_is_saved_is_a_bound_where_hosts_are_as_slow_as_devices(tmp_path: Path) -> None:
    spec = replace(SLOW, kernel_ns=49_000, transfer_ns=67_000, host_op_ns=52_000)
    truth, view = opened(replace(spec, micro_batches=4, host_sync=False), tmp_path)
    result = verdict_on(view)

    assert result.details["verdict"] == "slow_worker"
    assert codes(result) == ["host_bound"]
    # Hosts limit the step as soon as the slow worker does not.
    ruled_out = {one["class"] for one in result.details["ruled_out"]}
    assert ruled_out
    assert "host" not in ruled_out
    assert result.details["saves_bounds_ms"] == [0.0, result.details["saves_ms"]]
    assert truth.cost_ms <= 1.1 * result.details["saves_ms"]
    without = what_if(view)
    assert codes(without) == ["host_bound"]
    assert without.value is without.details["saved_ms"] is None
    assert without.details["saved_bounds_ms"][0] == 0.0


@pytest.mark.parametrize("slow", [(0,), (0, 1)])
def test_what_is_typical_is_told_where_half_of_the_ranks_are_slow(
    slow: tuple[int, ...], tmp_path: Path
) -> None:
    # the lower median would be the shorter of two ranks, and the longer of the two fast ones
    faults = tuple(Fault("slow_worker", (rank,), 1.2) for rank in slow)
    spec = replace(SLOW, dp=2 * len(slow), jitter=0.03, faults=faults)
    truth, view = opened(spec, tmp_path)
    saved = what_if(view).details["saved_ms"]

    whole = truth.step_ms - truth.clean_step_ms + truth.jitter_ms
    assert saved == pytest.approx(whole, rel=0.1)


def test_without_markers_the_slowdown_is_that_of_the_period_of_calls(tmp_path: Path) -> None:
    truth, view = opened(replace(SLOW, level="no_host"), tmp_path)
    result = what_if(view)

    assert result.status == "ok"
    assert result.basis["step"].startswith("not marked: ")
    whole = truth.step_ms / (truth.step_ms - truth.cost_ms - truth.jitter_ms)
    assert result.value == pytest.approx(whole, rel=0.02)
    assert result.details["equalised_slowdown"] is None
    assert any("steps are not marked" in text for text in result.warnings)


def test_a_rank_without_a_file_bounds_what_is_saved(tmp_path: Path) -> None:
    truth, view = opened(replace(SLOW, damage=(Damage("missing", 1),)), tmp_path)
    result = what_if(view)

    assert result.status == "partial"
    assert result.value is result.details["saved_ms"] is None
    least, most = result.details["saved_bounds_ms"]
    assert least <= truth.cost_ms <= most < truth.step_ms
    assert "rank 1 is not recorded, and the others may wait for it" in str(result.reasons)


def test_copies_from_a_slow_rank_bound_what_mending_it_saves(tmp_path: Path) -> None:
    spec = replace(GATHERED, dp=2, layers=2, micro_batches=6, same_stream=True, overlap=True)
    slow = Fault("slow_worker", (0,), 2.0)
    truth, view = opened(replace(spec, faults=(slow,), kernel_ns=168_000), tmp_path)
    details = verdict_on(view).details

    assert details["culprit"]["ranks"] == ["0"]
    assert details["saves_ms"] is None
    least, most = details["saves_bounds_ms"]
    assert least <= truth.cost_ms <= most


def test_the_basis_tells_that_steps_are_not_marked(tmp_path: Path) -> None:
    marked = verdict_on(opened(SLOW, tmp_path / "marked")[1])
    bare = verdict_on(opened(replace(SLOW, level="no_host"), tmp_path / "bare")[1])

    assert marked.basis["step"].startswith("from the end of the previous step")
    assert bare.basis["step"].startswith("not marked: ")


def test_hosts_of_unknown_needs_hold_nobody_up(tmp_path: Path) -> None:
    ladder = Ladder(ladder_of(opened(SLOW, tmp_path)[1]).job)

    assert (ladder.host_need_ns == 0).all()
    assert (ladder.need_without_ns([1]) == 0).all()
    assert ladder.typical_need_ns.shape == (ladder.job.num_steps,)


def test_a_send_behind_a_reduction_on_its_stream_waits_for_it_in_the_replay(tmp_path: Path) -> None:
    truth, view = opened(random_spec(240519), tmp_path)
    result = verdict_on(view)

    assert result.details["culprit"]["ranks"] == ["0"]
    assert result.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)


def test_copies_that_begin_late_for_all_are_the_delay_of_one_host(tmp_path: Path) -> None:
    truth, view = opened(random_spec(230336), tmp_path)
    result = verdict_on(view)

    assert result.details["culprit"]["ranks"] == ["1"]
    assert result.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.05)


def test_waits_for_copies_save_no_more_than_the_slow_rank_computes_longer(tmp_path: Path) -> None:
    # Devices idle for copies twice as long as the rank is slow: most of that is the copies' own.
    truth, view = opened(random_spec(3038, condition="clean", level="full"), tmp_path)
    least, most = verdict_on(view).details["saves_bounds_ms"]
    first = find("findings").run(view).details["findings"][0]

    assert least <= truth.cost_ms <= most < 1.15 * truth.cost_ms
    assert first["where"]["ranks"] == ["3"]
    assert first["cost_ms"] == pytest.approx(most)
    assert "up to" in first["text"]


def test_a_rank_that_is_slow_now_and_then_costs_what_mending_it_saves(tmp_path: Path) -> None:
    # Others wait for it longer: some of that they would wait for each other.
    truth, view = opened(random_spec(3077, condition="clean", level="full"), tmp_path)
    first = find("findings").run(view).details["findings"][0]

    assert (first["class"], first["where"]["ranks"]) == ("occasional_worker", ["11"])
    assert first["cost_ms"] == first["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.02)


def test_a_late_host_saves_what_others_wait_and_up_to_what_it_costs(tmp_path: Path) -> None:
    truth, view = opened(random_spec(3080, condition="clean", level="full"), tmp_path)
    first = find("findings").run(view).details["findings"][0]

    assert (first["class"], first["where"]["ranks"]) == ("waiting_for_rank", ["0"])
    least, most = first["saves_bounds_ms"]
    assert first["saves_ms"] == least == first["cost_ms"]
    assert most == pytest.approx(truth.cost_ms, rel=0.02)


def test_sends_that_wait_for_a_slow_receiver_are_of_the_step_that_feeds_them(
    tmp_path: Path,
) -> None:
    # Without markers a step ends with a call: sends that queue up behind it begin in the next one.
    truth, view = opened(random_spec(790246, varied=True), tmp_path)
    result = verdict_on(view)

    assert result.details["culprit"]["ranks"] == ["6"]
    assert result.details["saves_ms"] == pytest.approx(truth.cost_ms, rel=0.02)


@pytest.mark.parametrize(
    "seed",
    [
        781309,  # a pipeline
        781819,  # with experts, which a device waits for between two kernels of its host
    ],
)
def test_work_that_a_stage_takes_over_fills_the_time_it_waits_for_its_host(
    seed: int, tmp_path: Path
) -> None:
    # The hosts of the first stage launch no faster than its devices work.
    truth, view = opened(random_spec(seed, varied=True), tmp_path)
    result = verdict_on(view)

    assert result.details["verdict"] == "heavy_stage"
    assert result.details["saves_ms"] == pytest.approx(truth.faults[0].shared_ms, rel=0.07)


@pytest.mark.parametrize("seed", [781503, 781546])
def test_ranks_that_wait_for_a_slow_one_in_no_kernel_have_no_late_host(
    seed: int, tmp_path: Path
) -> None:
    truth, view = opened(random_spec(seed, varied=True), tmp_path)
    details = verdict_on(view).details

    assert details["culprit"]["ranks"] == [str(rank) for rank in truth.faults[0].ranks]
    share = details["saves_ms"] / details["ladder_ms"][-1]
    assert share == pytest.approx(truth.cost_share, rel=0.05)


@pytest.mark.parametrize(
    "seed",
    [
        781340,  # one host pauses in two steps
        781363,  # in all steps, and in the first one all later stages begin with what it sends
    ],
)
def test_what_a_pause_of_one_host_costs_in_an_interleaved_pipeline(
    seed: int, tmp_path: Path
) -> None:
    # Transfers end during the pause, and the host does not wait for them.
    truth, view = opened(random_spec(seed, varied=True), tmp_path)
    result = verdict_on(view)

    assert result.details["culprit"]["ranks"] == ["0"]
    lasting = sum(truth.faults[0].step_costs_ms) / truth.steps
    assert result.details["saves_ms"] == pytest.approx(lasting, rel=0.02)


@pytest.mark.parametrize("seed", [781069, 781177, 790270])
def test_passes_that_are_not_told_apart_bound_what_sharing_work_out_saves(
    seed: int, tmp_path: Path
) -> None:
    truth, view = opened(random_spec(seed, varied=True), tmp_path)
    details = verdict_on(view).details

    assert details["verdict"] == "heavy_stage"
    least, most = (one / details["ladder_ms"][-1] for one in details["saves_bounds_ms"])
    shared_ms = truth.faults[0].shared_ms
    assert shared_ms is not None
    assert least <= shared_ms / truth.step_ms <= most


def test_a_step_without_its_slow_rank_is_no_shorter_than_the_others(tmp_path: Path) -> None:
    # Hosts hold up all devices in the other steps; in the slow ones the waits for the rank hide it.
    truth, view = opened(random_spec(781906, varied=True), tmp_path)
    details = verdict_on(view).details

    assert details["verdict"] == "occasional_worker"
    whole = details["saves_ms"] * details["num_steps"]
    assert whole == pytest.approx(truth.cost_ms * truth.steps, rel=0.1)
