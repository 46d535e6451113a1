"""The verdict on planted jobs: class, culprit, cost, and when nobody is named."""

from __future__ import annotations

from typing import Any

import pytest
from factories import allreduce, job, kernel, rank_trace, step, world
from msgspec.structs import replace
from planted_jobs import Planted, Run, _draws, planted_job

from ccltui.metrics.findings.replay.job_facts import JobFacts
from ccltui.metrics.findings.replay.ladder import Ladder, ladder_of
from ccltui.metrics.findings.replay.savings import savings_of
from ccltui.metrics.findings.replay.verdict_rules import Rules
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import Note, RankTrace

FAULTS: dict[str, tuple[Planted, str, dict[str, Any]]] = {
    "a slow worker of a pipeline": (
        Planted(dp=4, pp=4, micro_batches=16, slow_ranks={11: 2.2}),
        "slow_worker",
        {"ranks": ["11"]},
    ),
    "a slow worker without a pipeline": (
        Planted(dp=4, micro_batches=2, slow_ranks={2: 1.5}),
        "slow_worker",
        {"ranks": ["2"]},
    ),
    "a slow rank of a tensor-parallel group": (
        Planted(dp=2, pp=2, tp=2, micro_batches=4, slow_ranks={5: 1.5}),
        "slow_worker",
        {"ranks": ["5"]},
    ),
    "a worker that is slow in two steps": (
        Planted(dp=4, pp=2, slow_ranks={6: 1.8}, slow_steps=(1, 4)),
        "occasional_worker",
        {"ranks": ["6"], "steps": [1, 4]},
    ),
    "a heavy last stage": (
        Planted(dp=2, pp=4, micro_batches=4, stage_weights={3: (2.0, 1.6)}),
        "heavy_stage",
        {"stage": 3, "ranks": ["6", "7"]},
    ),
    "a heavy stage of a GPipe schedule": (
        Planted(dp=2, pp=4, schedule="gpipe", stage_weights={1: (1.6, 1.6)}),
        "heavy_stage",
        {"stage": 1, "ranks": ["2", "3"]},
    ),
    "a slow pair": (
        Planted(dp=4, pp=4, slow_pair=(0, 4), link_factor=30),
        "slow_link",
        {"pair": ["0", "4"]},
    ),
    "a slow group": (
        Planted(dp=4, pp=2, slow_group=0, link_factor=10),
        "slow_link",
        {"ranks": ["0", "1", "2", "3"], "group": "dp 0-3"},
    ),
    "a slow node": (
        Planted(dp=8, micro_batches=2, slow_ranks=dict.fromkeys(range(4, 8), 1.4)),
        "slow_node",
        {"host": "node-1", "ranks": ["4", "5", "6", "7"]},
    ),
    "pauses of one host": (
        Planted(dp=4, pp=2, pauses_us={(3, 1): 20_000, (3, 3): 15_000, (3, 4): 20_000}),
        "host",
        {"ranks": ["3"]},
    ),
    "transfers alone": (
        Planted(dp=2, pp=4, slow_ranks={3: 1.6}, world_norm=False, reduces=False),
        "slow_worker",
        {"ranks": ["3"]},
    ),
}


def verdict_of(plan: Planted, **overrides: object) -> Result:
    return find("verdict").run(View(planted_job(plan), ViewOptions(overrides=overrides)))


@pytest.mark.parametrize("name", FAULTS)
def test_the_class_and_the_culprit_of_a_planted_fault(name: str) -> None:
    plan, kind, culprit = FAULTS[name]

    found = verdict_of(plan)

    details = found.details
    assert found.status == "ok"
    assert details["verdict"] == kind
    assert {key: details["culprit"][key] for key in culprit} == culprit
    assert sum(details["shares"].values()) == pytest.approx(1, abs=1e-9)
    assert details["ruled_out"]
    # What costs a hundredth of a step is not ruled out.
    rungs = {"heavy_stage": "stage", "slow_worker": "worker", "slow_link": "communication"}
    for one in details["ruled_out"]:
        if one["class"] in rungs:
            assert details["shares"][rungs[one["class"]]] * details["loss_pct"] < 1


@pytest.mark.parametrize("name", [name for name in FAULTS if "stage" not in name])
def test_the_loss_is_that_of_the_job_without_the_fault(name: str) -> None:
    plan, _, _ = FAULTS[name]

    details = verdict_of(plan).details

    planted = (Run(plan).step_us.mean() - Run(plan.without()).step_us.mean()) / 1000
    assert details["loss_ms"] == pytest.approx(planted, rel=0.1)
    assert details["ladder_ms"][6] - details["ladder_ms"][0] == pytest.approx(details["loss_ms"])


def test_a_heavy_stage_costs_what_sharing_its_work_out_saves() -> None:
    plan, _, _ = FAULTS["a heavy last stage"]
    shared = replace(plan, stage_weights=dict.fromkeys(range(4), (1.25, 1.15)))

    details = verdict_of(plan).details

    planted = (Run(plan).step_us.mean() - Run(shared).step_us.mean()) / 1000
    assert details["loss_ms"] == pytest.approx(planted, rel=0.1)


@pytest.mark.parametrize("stage", [1, 3])
def test_setting_a_heavy_stage_back_gives_its_surplus_to_all(stage: int) -> None:
    light = {0: (0.9, 0.9)}
    plan = Planted(dp=2, pp=4, micro_batches=8, stage_weights={**light, stage: (2.0, 2.0)})
    shared = dict.fromkeys(range(1, 4), (1.25, 1.25)) | {0: (1.15, 1.15)}

    details = verdict_of(plan).details

    saved = Run(plan).step_us.mean() - Run(replace(plan, stage_weights=shared)).step_us.mean()
    assert details["culprit"]["stage"] == stage
    assert details["saves_ms"] == pytest.approx(saved / 1000, rel=0.05)


def everywhere(pause_us: float, *, ranks: int, steps: int = 6) -> dict[tuple[int, int], float]:
    return {(rank, step): pause_us for rank in range(ranks) for step in range(steps)}


def test_pauses_that_all_hosts_have_alike_hide_no_slow_worker() -> None:
    plan = Planted(dp=4, slow_ranks={2: 1.2}, pauses_us=everywhere(5_000, ranks=4))
    without = replace(plan, slow_ranks={})

    details = verdict_of(plan).details

    saved = Run(plan).step_us.mean() - Run(without).step_us.mean()
    assert details["verdict"] == "slow_worker"
    assert details["culprit"]["ranks"] == ["2"]
    assert details["saves_ms"] == pytest.approx(saved / 1000, rel=0.1)
    (host,) = [item for item in details["also"] if item["rung"] == "host"]
    assert host["culprit"] is None
    # The pause before the first step is not recorded: it is taken to be that of the others.
    assert host["saves_ms"] == pytest.approx(5, rel=0.02)


def test_a_slow_device_that_hides_the_pauses_of_its_host_saves_less() -> None:
    others = {key: 3_000.0 for key in everywhere(0, ranks=4) if key[0] != 2}
    plan = Planted(dp=4, slow_ranks={2: 1.4}, pauses_us=others)
    healed = replace(plan, slow_ranks={}, pauses_us=everywhere(3_000, ranks=4))

    details = verdict_of(plan).details

    least = details["shares"]["worker"] * details["loss_ms"]
    saved = (Run(plan).step_us.mean() - Run(healed).step_us.mean()) / 1000
    assert details["culprit"]["ranks"] == ["2"]
    assert details["saves_ms"] == pytest.approx(saved, rel=0.1)
    assert saved < 0.9 * least


def test_a_longer_pass_in_place_of_pauses_is_no_slow_worker() -> None:
    others = {key: 2_000.0 for key in everywhere(0, ranks=4) if key[0] != 2}

    details = verdict_of(Planted(dp=4, slow_ranks={2: 1.11}, pauses_us=others)).details

    assert details["verdict"] != "slow_worker"
    assert details["culprit"] is None


def test_pauses_of_all_hosts_alone_are_nobodys_fault() -> None:
    details = verdict_of(Planted(dp=4, pauses_us=everywhere(8_000, ranks=4))).details

    assert details["verdict"] == "host"
    assert details["culprit"] is None
    assert "all ranks" in details["why"]


def test_the_first_stage_is_not_blamed_for_pauses_that_the_others_hide() -> None:
    pauses = everywhere(2_000, ranks=4)

    details = verdict_of(Planted(dp=1, pp=4, pauses_us=pauses)).details

    assert details["verdict"] == "inconclusive"
    assert details["culprit"] is None
    assert details["why"].endswith("so their hosts may be as slow")


def test_a_rank_of_a_slow_pair_is_not_blamed_for_pauses_of_its_whole_stage() -> None:
    pauses = {(rank, step): 8_000.0 for rank in (0, 1) for step in range(6)}
    plan = Planted(dp=2, pp=2, slow_pair=(0, 2), link_factor=10, pauses_us=pauses, prefetch=False)

    details = verdict_of(plan).details

    saved = Run(plan).step_us.mean() - Run(replace(plan, slow_pair=None)).step_us.mean()
    assert details["verdict"] == "slow_link"
    assert details["culprit"]["pair"] == ["0", "2"]
    assert details["saves_ms"] == pytest.approx(saved / 1000, rel=0.02)
    assert [one["culprit"] for one in details["also"]] == [None]  # the pauses are nobody's alone


def test_a_stage_of_one_rank_is_named_where_its_host_pauses_in_one_step() -> None:
    details = verdict_of(Planted(dp=1, pp=4, pauses_us={(0, 2): 30_000})).details

    assert (details["verdict"], details["culprit"]["ranks"]) == ("host", ["0"])


def test_a_rank_that_is_slow_in_all_of_few_steps_is_no_occasional_worker() -> None:
    plan = Planted(dp=4, pp=2, micro_batches=2, steps=2, jitter=0.02, slow_ranks={2: 1.1}, seed=0)

    details = verdict_of(plan).details

    assert (details["verdict"], details["confidence"]) == ("slow_worker", "low")
    assert details["culprit"]["ranks"] == ["2"]
    assert details["culprit"]["steps"] is None
    assert details["culprit"]["factor"] == pytest.approx(1.1, abs=0.05)


def rules_on(view: View, lost: dict[str, tuple[int, int]] | None = None) -> Rules:
    """The rules, with ranks that lack records."""
    savings = savings_of(view)
    facts = JobFacts(view, savings.ladder.job)
    facts.__dict__["lost"] = lost or {}
    return Rules(savings, facts)


@pytest.mark.parametrize("lost", [False, True])
def test_that_nobody_is_slow_is_not_sure_where_records_are_lost(lost: bool) -> None:
    view = View(planted_job(Planted(dp=4)))

    found = rules_on(view, {"1": (1, 2)} if lost else {}).verdict()

    assert found.conclusion.verdict == "no_straggler"
    assert found.confidence == ("low" if lost else "high")


@pytest.mark.parametrize(
    ("lost", "confidence"), [((), "medium"), (("3",), "low"), (("0",), "medium")]
)
def test_idle_time_of_a_rank_that_lacks_records_may_be_what_it_lacks(
    lost: tuple[str, ...], confidence: str
) -> None:
    plan, _, _ = FAULTS["pauses of one host"]
    view = View(planted_job(plan))

    found = rules_on(view, dict.fromkeys(lost, (1, 2))).verdict()

    assert (found.conclusion.verdict, found.confidence) == ("host", confidence)


def test_how_much_is_saved_is_part_of_what_is_sure() -> None:
    plan, _, _ = FAULTS["a slow worker of a pipeline"]
    view = View(planted_job(plan))
    assert rules_on(view).verdict().confidence == "high"

    ladder = ladder_of(view)
    ladder.__dict__["typical_need_ns"] = 0.9 * ladder.delayed

    assert rules_on(view).verdict().confidence == "medium"


def test_the_one_host_that_pauses_longer_than_all_others_is_named() -> None:
    pauses = everywhere(3_000, ranks=4)
    plan = Planted(dp=4, pauses_us={**pauses, **{(1, step): 8_000 for step in range(6)}})
    without = replace(plan, pauses_us=pauses)

    details = verdict_of(plan).details

    saved = Run(plan).step_us.mean() - Run(without).step_us.mean()
    assert details["verdict"] == "host"
    assert details["culprit"]["ranks"] == ["1"]
    assert details["saves_ms"] == pytest.approx(saved / 1000, rel=0.1)


def test_sequences_of_different_length_are_nobodys_fault() -> None:
    details = verdict_of(Planted(dp=8, pp=2, sequence_sigma=0.5)).details

    assert (details["verdict"], details["confidence"]) == ("uneven_microbatches", "high")
    assert details["culprit"] is None
    assert details["evidence"]["r_FB"] > 0.9
    assert details["evidence"]["r_stages"] > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_balancing_micro_batches_leaves_their_mean_work(seed: int) -> None:
    plan = Planted(dp=4, sequence_sigma=0.4, named=True, seed=seed)
    mean = float(_draws(plan)["length"].mean())
    forward, backward = 1000 * (0.6 + 0.4 * mean), 2000 * (0.5 + 0.5 * mean)
    even = replace(plan, sequence_sigma=0.0, forward_us=forward, backward_us=backward)

    details = verdict_of(plan).details

    saved = Run(plan).step_us.mean() - Run(even).step_us.mean()
    assert details["verdict"] == "uneven_microbatches"
    assert details["saves_ms"] == pytest.approx(saved / 1000, rel=0.1)


@pytest.mark.parametrize("jitter", [0.01, 0.08])
@pytest.mark.parametrize("pp", [1, 2])
def test_jitter_names_nobody(jitter: float, pp: int) -> None:
    details = verdict_of(Planted(dp=4, pp=pp, jitter=jitter, seed=3)).details

    assert details["culprit"] is None
    assert details["verdict"] in ("no_straggler", "random")
    assert details["verdict"] == "no_straggler" or details["confidence"] != "high"


def test_the_threshold_of_materiality_is_an_option() -> None:
    plan = Planted(dp=4, micro_batches=2, slow_ranks={2: 1.5})

    assert verdict_of(plan, materiality_pct=50).details["verdict"] == "no_straggler"
    assert verdict_of(plan, materiality_pct="2").details["verdict"] == "slow_worker"
    assert verdict_of(plan, materiality_pct="much").reason == "card_invalid"


def test_one_step_is_never_more_than_low() -> None:
    details = verdict_of(Planted(dp=4, steps=1, micro_batches=2, slow_ranks={2: 2.0})).details

    assert details["verdict"] != "inconclusive"
    assert details["confidence"] == "low"
    assert any("more steps" in text for text in details["next"])


@pytest.mark.parametrize("marked", [True, False])
def test_times_are_of_the_window_where_nothing_divides_it(marked: bool) -> None:
    plan = Planted(dp=4, steps=1, micro_batches=2, slow_ranks={2: 2.0}, marked=marked)

    details = verdict_of(plan).details

    assert details["period"] == ("a step" if marked else "the window")
    assert details["why"].endswith("in all steps" if marked else "in the window")


@pytest.mark.parametrize("changes", [{"host_rows": True}, {"named": True}, {"marked": False}])
def test_the_class_does_not_depend_on_what_else_is_recorded(changes: dict[str, Any]) -> None:
    plan = replace(Planted(dp=4, micro_batches=4, slow_ranks={2: 1.6}), **changes)

    details = verdict_of(plan).details

    assert details["verdict"] == "slow_worker"
    assert details["culprit"]["ranks"] == ["2"]


def test_two_faults_of_one_size_are_inconclusive() -> None:
    plan = Planted(dp=4, pp=2, slow_ranks={1: 1.25}, slow_group=1, link_factor=10)

    details = verdict_of(plan).details

    assert details["verdict"] == "inconclusive"
    assert details["confidence"] is None
    assert "communication" in details["why"]
    assert "worker" in details["why"]
    listed = {item["rung"]: item for item in details["also"]}
    assert set(listed) == {"worker", "communication"}
    assert listed["worker"]["verdict"] == "slow_worker"
    assert listed["worker"]["culprit"]["ranks"] == ["1"]
    assert listed["communication"]["verdict"] == "slow_link"
    assert all(item["saves_ms"] > 0 for item in listed.values())


def test_ranks_of_different_programs_are_not_compared() -> None:
    groups = (world(2),)
    gpu = [
        [kernel("gemm", 100 * i + 10, 40 + 30 * rank, 7) for i in range(3)]
        + [allreduce(100 * i + 90 - 30 * k, 9) for i in range(3) for k in range(1 + rank)]
        for rank in range(2)
    ]
    marks = [step(i, 100 * i, 100) for i in range(3)]
    traces = [rank_trace(r, gpu=gpu[r], annotations=marks, groups=groups) for r in range(2)]

    details = find("verdict").run(View(job(*traces))).details

    assert details["verdict"] in (None, "inconclusive")
    assert details["culprit"] is None


def test_errors_of_a_replay_bound_what_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Planted(dp=4, pp=2, slow_ranks={1: 1.5})
    saved = verdict_of(plan).details["saves_ms"]
    monkeypatch.setattr(Ladder, "invalid", lambda _: "dependencies are wrong")
    monkeypatch.setattr(Ladder, "error_ns", 1e6)

    result = verdict_of(plan)

    details = result.details
    assert (details["culprit"]["ranks"], details["confidence"]) == (["1"], "low")
    assert details["saves_ms"] is None
    assert details["saves_bounds_ms"] == pytest.approx([saved - 1, saved + 1])
    assert result.status == "partial"
    assert "of a step are saved: dependencies are wrong" in result.reasons[0].message


def test_an_invalid_replay_states_costs_and_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ladder, "refuted", lambda _: "dependencies are wrong")

    details = verdict_of(Planted(dp=4, pp=2, slow_ranks={1: 1.5})).details

    (one,) = details["also"]
    assert details["verdict"] == one["verdict"] == "inconclusive"
    assert (one["rung"], one["culprit"]) == ("worker", None)
    assert one["saves_ms"] == pytest.approx(details["shares"]["worker"] * details["loss_ms"])


def test_a_single_rank_is_refused() -> None:
    trace = rank_trace(0, gpu=[kernel("gemm", 0, 10)], annotations=[step(1, 0, 10)])

    assert find("verdict").run(View(job(trace))).reason == "single_rank"


def only_collectives(rank: int) -> RankTrace:
    """Collectives that are far apart, nothing between them, and no step markers."""
    calls = [allreduce(1_000 * k + (5 if rank == 2 else 0), 50) for k in range(40)]
    return rank_trace(rank, gpu=calls, groups=[world(4)])


def test_without_computing_nobody_is_accused_of_what_lies_between_collectives() -> None:
    found = find("verdict").run(View(job(*(only_collectives(rank) for rank in range(4)))))

    assert (found.details["verdict"], found.details["confidence"]) == ("inconclusive", None)
    assert "no device work other than collectives is recorded" in found.details["why"]


def test_a_file_that_was_filtered_accuses_nobody() -> None:
    ranks = planted_job(Planted(dp=4, micro_batches=2, slow_ranks={2: 1.5})).ranks
    note = Note("text_filtered", "the rows were filtered by grep gemm")
    cut = [replace(trace, notes=(*trace.notes, note)) for trace in ranks]

    found = find("verdict").run(View(job(*cut)))

    assert found.details["verdict"] == "inconclusive"
    assert "it was filtered" in found.details["why"]


@pytest.mark.parametrize("slow", [{}, {1: 1.5}])
def test_ranks_without_collectives_are_judged_too(slow: dict[int, float]) -> None:
    plan = Planted(dp=2, micro_batches=2, world_norm=False, reduces=False, slow_ranks=slow)

    found = verdict_of(plan)

    assert found.status in {"ok", "partial"}
    assert found.details["num_ranks"] == 2
