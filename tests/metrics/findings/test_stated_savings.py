"""What a named fault costs and saves, and how sure it is, where a plain replay would be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccltui.demo.planted import Fault, JobSpec, PlantedTruth, random_spec, write_planted
from ccltui.metrics.findings.waits.own_times import slower_ranks
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job
from ccltui.parsers.numbers import percent

SMALL = {"steps": 4, "micro_batches": 2, "layers": 1}


def job(*faults: Fault, **shape: object) -> JobSpec:
    return JobSpec(**{**SMALL, **shape}, faults=faults)  # type: ignore[arg-type]


def opened(folder: Path, spec: JobSpec) -> tuple[PlantedTruth, View]:
    truth = write_planted(folder / "job", spec).truth
    return truth, View(open_job(folder / "job", cache_dir=folder / "cache", jobs=1))


def first_fault(view: View) -> dict[str, Any]:
    """Return the first finding that names ranks."""
    found: list[dict[str, Any]] = find("findings").run(view).details["findings"]
    return next(one for one in found if one["where"]["ranks"])


def test_a_lone_stage_that_is_slow_in_a_step_is_compared_with_its_other_steps(
    tmp_path: Path,
) -> None:
    slow = Fault("occasional_worker", (0,), 2.3, steps=(2,))
    truth, view = opened(tmp_path, job(slow, family="pp", dp=1, pp=2, steps=5, micro_batches=4))

    found = first_fault(view)

    assert found["class"] == "occasional_worker"
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.05)


def test_a_fault_of_one_step_is_not_extrapolated_to_a_window(tmp_path: Path) -> None:
    slow = Fault("occasional_worker", (2,), 1.7, steps=(3,))
    truth, view = opened(tmp_path, job(slow, family="tp", dp=1, tp=4, level="kernels"))

    found = first_fault(view)

    assert find("findings").run(view).details["period"] == "window"
    whole_ms = truth.faults[0].cost_ms * truth.steps
    assert found["saves_ms"] == pytest.approx(whole_ms, rel=0.05)


# A slow rank whose host needs four fifths of the step that is left without its fault.
BOUND_BY_HOSTS = 987069


def test_what_is_saved_is_an_upper_bound_where_hosts_launch_hardly_faster(tmp_path: Path) -> None:
    _, view = opened(tmp_path, random_spec(BOUND_BY_HOSTS, varied=True))

    found = first_fault(view)

    assert found["saves_ms"] is None
    assert found["saves_bounds_ms"][0] == 0
    assert "saves at most" in found["more"]


@pytest.mark.parametrize(("tp", "exchange"), [(1, "deepep"), (2, "nccl")])
def test_an_exchange_that_is_long_for_uneven_experts_is_part_of_what_they_cost(
    tmp_path: Path, tp: int, exchange: str
) -> None:
    uneven = Fault("uneven_experts", (3,), 2.5)
    truth, view = opened(tmp_path, job(uneven, family="moe", tp=tp, exchange=exchange))

    found = first_fault(view)

    assert (found["class"], found["where"]["ranks"]) == ("uneven_experts", ["3"])
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.1)


def test_a_slow_device_of_a_job_with_experts_is_no_uneven_expert(tmp_path: Path) -> None:
    slow = Fault("slow_worker", (3,), 1.6)
    truth, view = opened(tmp_path, job(slow, family="moe", exchange="deepep"))

    found = first_fault(view)

    assert (found["class"], found["where"]["ranks"]) == ("slow_worker", ["3"])
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.1)


# Devices idle in waits that no kernel shows: a stage that computes as long as the others seemed
# heavy, and a rank that waits for a late one of the next stage seemed late itself.
HIDDEN_STAGE, HIDDEN_HOST = 987204, 987227
# A slow rank, in a job whose sequences of different lengths cost nothing.
SLOW_AND_UNEVEN = 987124


@pytest.mark.parametrize("seed", [HIDDEN_STAGE, HIDDEN_HOST, SLOW_AND_UNEVEN])
def test_an_answer_that_the_own_times_of_ranks_do_not_support_is_unsure(
    tmp_path: Path, seed: int
) -> None:
    _, view = opened(tmp_path, random_spec(seed, varied=True))

    found = find("findings").run(view).details["findings"]
    named = [one for one in found if one["where"]["ranks"] or one["class"] == "uneven_microbatches"]

    assert named
    assert all("low" in (one["sure"]["who"], one["sure"]["what"]) for one in named)


def test_passes_of_two_ranks_that_chance_prolongs_are_no_slow_ranks(tmp_path: Path) -> None:
    # in three steps of six
    _, view = opened(tmp_path, random_spec(987118, varied=True))

    assert find("findings").run(view).details["findings"][0]["class"] == "random"
    assert slower_ranks(view) is None


def test_ranks_in_turn_are_slow_in_most_steps(tmp_path: Path) -> None:
    _, view = opened(tmp_path, job(Fault("alternating", (1, 3), 1.6), steps=6))

    found = slower_ranks(view)

    assert found is not None
    assert (found.takes_turns, found.sure) == (True, "medium")


# Batched transfers of two ranks are slow, and stages before and behind them wait for each.
SLOW_PAIR = 996005


def test_a_slow_pair_costs_what_its_batches_and_those_that_wait_for_them_do(tmp_path: Path) -> None:
    truth, view = opened(tmp_path, random_spec(SLOW_PAIR, varied=True))

    found = first_fault(view)

    assert found["class"] == "slow_link"
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.01)
    assert found["saves_bounds_ms"] is None


# A replay saves more than twice the waiting that is matched to the late one of two ranks.
MORE_THAN_WAITING = 600426


def test_the_sentence_states_the_share_of_its_finding(tmp_path: Path) -> None:
    _, view = opened(tmp_path, random_spec(MORE_THAN_WAITING, varied=True))

    found = first_fault(view)

    assert found["class"] == "waiting_for_rank"
    assert percent(found["share"]) in found["text"]
