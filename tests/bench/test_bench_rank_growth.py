"""No step of all metrics loops over all ranks or groups once for each rank: counted, not timed."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from bench.rank_growth import Shape, StepCost, cost_of_steps, lines_run, superlinear
from bench.scale_jobs import write_job
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery import walk
from ccltui.parsers.job import open_job

FEW, TIMES = 16, 4
MANY = FEW * TIMES


def lines_of_steps(folder: Path, ranks: int, shape: Shape) -> dict[str, Counter[str]]:
    write_job(folder / "traces", folder / "store", ranks, 20, shape)
    return cost_of_steps(folder / "traces", folder / "store", lines_run)


@pytest.mark.parametrize("shape", get_args(Shape))
def test_no_step_is_superlinear_in_ranks_or_groups(
    tmp_path: Path, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lines of the main thread are counted: files on a busy machine would be opened in threads.
    monkeypatch.setattr(walk, "_SLOW_S", math.inf)
    lines_of_steps(tmp_path / "first", 8, shape)  # imports, and caches of the process
    few = lines_of_steps(tmp_path / "few", FEW, shape)
    many = lines_of_steps(tmp_path / "many", MANY, shape)

    # What several steps need is counted for the first that asks, perhaps another one in a larger
    # job: a function that a step does not run in the smaller job is compared with all steps.
    total: Counter[str] = sum(few.values(), Counter())
    fewer = {step: Counter({**total, **few[step]}) for step in many}
    found = {step: superlinear(fewer[step], many[step], TIMES) for step in many}
    assert {step: names for step, names in found.items() if names} == {}
    assert sum(many["straggler_lag"].values()) > MANY  # something was counted


def test_a_loop_over_all_ranks_for_each_rank_is_found() -> None:
    def each_with_each(count: int) -> int:
        return sum(one < other for one in range(count) for other in range(count))

    few = lines_run(lambda: each_with_each(FEW))
    many = lines_run(lambda: each_with_each(MANY))
    linear = lines_run(lambda: sum(one > 1 for one in range(MANY)))

    assert any("genexpr" in name for name in superlinear(few, many, TIMES))
    assert superlinear(lines_run(lambda: sum(one > 1 for one in range(FEW))), linear, TIMES) == []


def test_the_exponent_is_that_of_the_power_law() -> None:
    step = StepCost("x", {64: 2.0, 256: 8.0, 1024: 2.0 * 16**1.5})

    assert math.isclose(step.exponent, 1.5)


@pytest.mark.parametrize("shape", get_args(Shape))
def test_the_ranks_of_a_store_are_a_job_with_its_straggler(tmp_path: Path, shape: Shape) -> None:
    events = write_job(tmp_path / "traces", tmp_path / "store", 16, 40, shape)
    job = open_job(tmp_path / "traces", cache_dir=tmp_path / "store")
    found = metrics()["straggler_lag"].run(View(job))

    assert len(job.ranks) == 16
    assert sum(len(rows) for trace in job.ranks for rows in trace.events.values()) == events
    assert found.status == "ok"
    assert found.details["worst_straggler"] == 3
    assert found.details["num_collectives"] == {"world": 40, "eights": 10 + 30 * 2}[shape]
