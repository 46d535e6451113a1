"""Marks of answers against planted truth, and the rates that are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from bench import __main__ as command
from bench.verdicts import rates
from bench.verdicts.answers import Answer, answers_of
from bench.verdicts.goals import goals
from bench.verdicts.marks import marked
from bench.verdicts.quantiles import nearest, wilson
from bench.verdicts.scored_job import Scored, score
from ccltui.demo.planted import Damage, Fault, JobSpec
from ccltui.demo.planted.planted_job import FaultTruth, PlantedTruth

SPEC = JobSpec(dp=4)
SLOW = FaultTruth("slow_worker", "slow_worker", (2,), None, None, None, None, None, 1.5, 20.0, 20.0)
LINK = replace(SLOW, verdict="slow_link", cause="slow_group", ranks=(0, 1), group=(0, 1))
RANKS = (0, 1, 2, 3)
TRUTH = PlantedTruth("slow_worker", 5, 100.0, 80.0, 0.5, 1.5, (SLOW,), RANKS, RANKS, ())
QUIET = replace(TRUTH, verdict="no_straggler", clean_step_ms=100.0, faults=())
LINKED = replace(TRUTH, verdict="slow_link", faults=(LINK,))


def verdict(name: str, *ranks: str, **more: object) -> Answer:
    return Answer("ok", verdict=name, ranks=ranks, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "truth", "mark", "class_mark"),
    [
        (verdict("slow_worker", "2"), TRUTH, "right", "right"),
        (verdict("slow_worker", "1"), TRUTH, "wrong", "right"),
        (verdict("slow_worker", "1", "2"), TRUTH, "wrong", "right"),
        (verdict("slow_node", "2"), TRUTH, "wrong", "wrong"),
        (verdict("no_straggler"), TRUTH, "wrong", "wrong"),
        (verdict("inconclusive"), TRUTH, "abstained", "abstained"),
        (Answer("unavailable", "no_collectives"), TRUTH, "abstained", "abstained"),
        (verdict("no_straggler"), QUIET, "quiet", "quiet"),
        (verdict("random"), QUIET, "quiet", "quiet"),
        (verdict("slow_worker", "2"), QUIET, "wrong", "wrong"),
        (verdict("slow_link", "1", "0"), LINKED, "right", "right"),
        (verdict("slow_link", "2", "3"), LINKED, "wrong", "right"),
        (verdict("random"), TRUTH, "wrong", "wrong"),
        (verdict("random"), replace(TRUTH, jitter_ms=25.0), "quiet", "quiet"),
        (verdict("host"), QUIET, "wrong", "wrong"),
        (verdict("host"), replace(QUIET, host_ms=3.0), "quiet", "quiet"),
        (verdict("host", "1"), replace(QUIET, host_ms=3.0), "wrong", "wrong"),
        (verdict("host"), replace(TRUTH, host_ms=3.0), "wrong", "wrong"),
    ],
)
def test_a_verdict_is_right_in_class_and_culprit(
    answer: Answer, truth: PlantedTruth, mark: str, class_mark: str
) -> None:
    found = marked(SPEC, truth, "verdict", answer)

    assert (found.mark, found.class_mark) == (mark, class_mark)


def test_a_pause_before_the_first_work_is_in_no_file() -> None:
    pause = replace(SLOW, verdict="host", cause="data_loading", cost_ms=4.0)
    once, always = (replace(pause, step_costs_ms=(20.0, *[one] * 4)) for one in (0.0, 4.0))

    marks = [
        marked(SPEC, replace(TRUTH, faults=(fault,)), "verdict", verdict("no_straggler")).mark
        for fault in (once, always, replace(once, steps=(10,)))
    ]

    assert marks == ["quiet", "wrong", "wrong"]
    named = verdict("host", "2")
    assert marked(SPEC, replace(TRUTH, faults=(once,)), "verdict", named).mark == "right"


def test_of_a_slow_node_those_are_named_that_have_a_file() -> None:
    node = replace(SLOW, verdict="slow_node", ranks=(2, 3), host="node-1")
    truth = replace(TRUTH, verdict="slow_node", faults=(node,), recorded=(0, 1, 2))

    assert marked(SPEC, truth, "verdict", verdict("slow_node", "2")).mark == "right"
    assert marked(SPEC, truth, "verdict", verdict("slow_node", "1", "2")).mark == "wrong"
    whole = replace(truth, recorded=RANKS)
    assert marked(SPEC, whole, "verdict", verdict("slow_node", "2")).mark == "wrong"


def test_of_ranks_that_are_slow_in_turn_those_are_named_that_have_a_file() -> None:
    turns = replace(SLOW, verdict="occasional_worker", cause="alternating", ranks=(2, 3))
    truth = replace(TRUTH, verdict="occasional_worker", faults=(turns,), recorded=(0, 1, 2))

    assert marked(SPEC, truth, "verdict", verdict("occasional_worker", "2")).mark == "right"
    whole = replace(truth, recorded=RANKS)
    assert marked(SPEC, whole, "verdict", verdict("occasional_worker", "2")).mark == "wrong"


def test_the_rank_of_a_decoy_that_costs_time_is_no_wrong_name() -> None:
    spec = replace(SPEC, faults=(Fault("decoy", (1,), 2.0),))
    costly = replace(SLOW, verdict="no_straggler", cause="decoy", ranks=(), cost_ms=4.0)
    free = replace(costly, cost_ms=0.1)

    for decoy, name, mark, innocent in (
        (costly, "1", "abstained", False),
        (costly, "2", "wrong", True),
        (free, "1", "wrong", True),
    ):
        found = marked(
            spec, replace(QUIET, faults=(decoy,)), "verdict", verdict("host", name, material=True)
        )
        assert (found.mark, found.names_innocent) == (mark, innocent)


def test_a_stage_may_be_named_by_number_or_by_ranks() -> None:
    heavy = replace(SLOW, verdict="heavy_stage", ranks=(2, 3), stage=1)
    truth = replace(TRUTH, verdict="heavy_stage", faults=(heavy,))

    for answer in (verdict("heavy_stage", stage=1), verdict("heavy_stage", "2", "3")):
        assert marked(SPEC, truth, "verdict", answer).mark == "right"
    assert marked(SPEC, truth, "verdict", verdict("heavy_stage", stage=0)).mark == "wrong"


@pytest.mark.parametrize(
    ("truth", "ranks", "material", "mark"),
    [
        (TRUTH, ("2",), True, "right"),
        (TRUTH, ("1",), True, "wrong"),
        (TRUTH, ("1",), False, "wrong"),
        (TRUTH, (), True, "abstained"),
        (QUIET, ("1",), True, "wrong"),
        (QUIET, ("1",), False, "quiet"),
        (QUIET, (), True, "quiet"),
        (LINKED, ("0",), True, "wrong"),  # nobody is late because of a slow link
    ],
)
def test_who_is_named_by_other_metrics(
    truth: PlantedTruth, ranks: tuple[str, ...], material: bool, mark: str
) -> None:
    answer = Answer("ok", ranks=ranks, material=material)

    assert marked(SPEC, truth, "blame_chain", answer).mark == mark


def test_a_fault_just_above_materiality_may_be_left_out() -> None:
    small = replace(TRUTH, faults=(replace(SLOW, cost_ms=1.5),))

    assert marked(SPEC, small, "verdict", verdict("no_straggler")).mark == "quiet"
    below = replace(QUIET, faults=(replace(SLOW, cost_ms=0.7),))
    assert marked(SPEC, below, "verdict", verdict("slow_worker", "2")).mark == "right"
    assert marked(SPEC, below, "verdict", verdict("slow_worker", "1")).mark == "wrong"


def test_saved_time_is_compared_where_one_fault_costs_enough() -> None:
    def error(truth: PlantedTruth, saved_ms: float, num_steps: int = 5) -> float | None:
        answer = verdict("slow_worker", "2", saved_ms=saved_ms, num_steps=num_steps)
        return marked(SPEC, truth, "verdict", answer).saved_error

    assert error(TRUTH, 18.0) == pytest.approx(-0.1)
    assert error(replace(TRUTH, faults=(replace(SLOW, cost_ms=4.0),)), 18.0) is None
    assert error(replace(TRUTH, faults=(SLOW, replace(SLOW, cost_ms=5.0))), 18.0) is None
    assert error(QUIET, 18.0) is None
    # A fault of one step, in the mean of the four steps after the first.
    one_step = replace(TRUTH, faults=(replace(SLOW, steps=(12,)),))
    assert error(one_step, 25.0, num_steps=4) == pytest.approx(0.0)
    assert error(TRUTH, 20.0, num_steps=4) == pytest.approx(0.0)


def test_steps_that_are_left_out_count_with_their_own_cost() -> None:
    fault = replace(SLOW, steps=(12,), step_costs_ms=(0.0, 0.0, 80.0, 0.0, 20.0))
    truth = replace(TRUTH, faults=(fault,))

    def error(steps: tuple[int, ...], saved_ms: float) -> float | None:
        answer = verdict("slow_worker", "2", saved_ms=saved_ms, num_steps=len(steps), steps=steps)
        return marked(SPEC, truth, "verdict", answer).saved_error

    assert error((10, 11, 12, 13), 20.0) == pytest.approx(0.0)
    assert error((13, 14), 9.0) == pytest.approx(-0.1)
    assert error((10, 11, 13), 20.0) is None  # none of it is in these steps


def test_without_markers_shares_of_the_time_count_and_whole_costs_of_single_steps() -> None:
    def error(truth: PlantedTruth, saved_ms: float, step_ms: float, num_steps: int) -> float | None:
        answer = verdict(
            "slow_worker",
            "2",
            saved_ms=saved_ms,
            step_ms=step_ms,
            num_steps=num_steps,
            is_marked=False,
        )
        return marked(SPEC, truth, "verdict", answer).saved_error

    # the window is one step, or calls divide it
    assert error(TRUTH, 90.0, 5 * TRUTH.step_ms, 1) == pytest.approx(-0.1)
    assert error(TRUTH, 18.0, TRUTH.step_ms, 3) == pytest.approx(-0.1)
    # 100 ms in one step of five, of which the four that recurring calls divide hold all
    one_step = replace(TRUTH, faults=(replace(SLOW, steps=(12,)),))
    assert error(one_step, 25.0, TRUTH.step_ms, 4) == pytest.approx(0.0)
    assert error(one_step, 100.0, 5 * TRUTH.step_ms, 1) == pytest.approx(0.0)


def test_hosts_of_all_ranks_are_set_back_altogether() -> None:
    pause = replace(SLOW, verdict="host", cause="data_loading", ranks=(), cost_ms=20.0)
    truth = replace(TRUTH, faults=(pause,), host_ms=5.0)
    answer = verdict("host", saved_ms=25.0, num_steps=5)

    assert marked(SPEC, truth, "verdict", answer).saved_error == pytest.approx(0.0)
    # who pauses alone is set back alone; an answer about all hosts sets all of them back
    alone = replace(truth, faults=(replace(pause, ranks=(2,)),))
    assert marked(SPEC, alone, "verdict", answer).saved_error == pytest.approx(0.0)
    named = verdict("host", "2", saved_ms=20.0, num_steps=5)
    assert marked(SPEC, alone, "verdict", named).saved_error == pytest.approx(0.0)


def test_without_any_straggler_nothing_varies_either() -> None:
    truth = replace(TRUTH, jitter_ms=5.0)
    answer = Answer("ok", saved_ms=25.0, slowdown=1.3, num_steps=5)

    assert marked(SPEC, truth, "what_if_no_straggler", answer).saved_error == pytest.approx(0.0)
    alone = replace(truth, faults=(replace(SLOW, also_right=("heavy_stage",)),))
    assert marked(SPEC, alone, "what_if_no_straggler", answer).saved_error is None


def test_the_saved_time_of_a_stage_is_that_of_sharing_its_work_out() -> None:
    only = replace(SLOW, also_right=("heavy_stage",), shared_ms=12.0)
    truth = replace(TRUTH, faults=(only,))

    def error(name: str) -> float | None:
        return marked(SPEC, truth, "verdict", verdict(name, "2", saved_ms=12.0)).saved_error

    assert error("heavy_stage") == pytest.approx(0.0)
    assert error("slow_worker") == pytest.approx(-0.4)
    assert error("uneven_experts") is None
    nothing = verdict("no_straggler")
    assert marked(SPEC, truth, "verdict", nothing).mark == "wrong"
    cheap = replace(TRUTH, faults=(replace(only, shared_ms=0.3),))
    assert marked(SPEC, cheap, "verdict", nothing).mark == "quiet"


def test_ok_over_fewer_ranks_and_slowdowns_below_one_are_counted() -> None:
    def flags(answer: Answer, truth: PlantedTruth = TRUTH) -> tuple[bool, bool]:
        found = marked(SPEC, truth, "straggler_lag", answer)
        return found.silent_ok, found.below_one

    assert flags(Answer("ok", num_ranks=4)) == (False, False)
    assert flags(Answer("ok", num_ranks=3)) == (True, False)
    assert flags(Answer("partial", num_ranks=3)) == (False, False)
    assert flags(Answer("ok", num_ranks=3), replace(TRUTH, recorded=(0, 1, 3))) == (True, False)
    assert flags(Answer("ok", slowdown=0.99)) == (False, True)
    assert flags(Answer("ok", slowdown=0.996)) == (False, False)


def test_proportions_and_quantiles() -> None:
    low, high = wilson(9, 10)
    assert [low, high] == pytest.approx([0.5958, 0.9821], abs=1e-4)
    assert [nearest([1, 2, 3, 4], share) for share in (0.5, 0.9, 0.01)] == [2, 4, 1]


def test_a_job_is_written_read_back_and_asked() -> None:
    spec = replace(
        SPEC, kernel_ns=200_000, micro_batches=2, faults=(Fault("slow_worker", (2,), 1.6),)
    )
    truth, found = answers_of(spec)

    assert truth.verdict == "slow_worker"
    assert found["blame_chain"].ranks == ("2",)
    assert marked(spec, truth, "blame_chain", found["blame_chain"]).mark == "right"
    assert found["what_if_no_straggler"].saved_ms == pytest.approx(truth.cost_ms, rel=0.15)


def test_tables_state_confidence_against_correctness() -> None:
    def job(seed: int, *ranks: str, confidence: str) -> Scored:
        answer = Answer("ok", ranks=ranks, confidence=confidence)
        marks = {"blame_chain": marked(SPEC, TRUTH, "blame_chain", answer)}
        return Scored(seed, "dp", "dp", "clean", "full", "one", "slow_worker", 0.2, marks, 0.1)

    text = rates.text_of(
        [
            job(1, "2", confidence="high"),
            job(2, "2", confidence="high"),
            job(3, "1", confidence="high"),
            job(4, "1", confidence="low"),
        ]
    )

    assert "| high | 3 | 2 | 66.7% |" in text
    assert "| low | 1 | 0 | 0.0% |" in text
    assert "--seed 3`" in text
    assert "--seed 1`" not in text


def test_goals_are_met_or_not_and_silent_where_no_job_tells() -> None:
    def job(seed: int, truth: PlantedTruth, condition: str, *ranks: str) -> Scored:
        answer = Answer("ok", ranks=ranks, confidence="high")
        marks = {"blame_chain": marked(SPEC, truth, "blame_chain", answer)}
        return Scored(seed, "dp", "dp", condition, "full", "", "", 0.2, marks, 0.1)

    jobs = [job(1, TRUTH, "clean", "2"), job(2, TRUTH, "clean", "3"), job(3, LINKED, "link", "0")]
    met = {goal.name: (goal.value, goal.met) for goal in goals(jobs, "blame_chain")}

    assert met["clean: culprit right, of named"] == (0.5, False)
    assert met["nulls and links: innocent rank named above materiality"] == (1.0, False)
    assert met["damaged: wrong with high confidence"] == (None, None)
    assert met["ok with a rank left out"] == (0.0, True)


def test_one_failing_job_is_reported_and_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(spec: JobSpec) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("bench.verdicts.scored_job.answers_of", fail)
    failed = score(3)

    assert failed.failure == "RuntimeError: no"
    assert "1 failed" in rates.text_of([failed])


def test_the_part_scores_the_seeds_asked_for_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def here(seeds: Sequence[int], workers: int, log: object) -> list[Scored]:
        return [score(seed) for seed in seeds]

    monkeypatch.setattr("bench.verdicts.run_many.score_many", here)
    monkeypatch.setattr(command, "compile_modules", lambda: None)
    options = ["--only", "culprits", "--culprit-jobs", "2", "--seed-base", "7"]
    monkeypatch.setattr("sys.argv", ["bench", *options, "--folder", str(tmp_path)])

    assert command.main() == 0

    assert capsys.readouterr().out.startswith("2 jobs, ")
    lines = (tmp_path / "culprits.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["seed"] for line in lines] == [7, 8]
    assert not (tmp_path / "results.json").exists()


def test_damage_is_a_condition_of_its_own() -> None:
    spec = replace(SPEC, steps=3, micro_batches=2, layers=1, damage=(Damage("missing", 1),))
    truth, found = answers_of(spec)

    assert truth.recorded == (0, 2, 3)
    assert found["straggler_lag"].status == "partial"
