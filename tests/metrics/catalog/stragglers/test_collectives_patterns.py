"""Whether a rank is late all the time or for once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from factories import Coll, allreduce, job, rank_trace, step, world

from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.view.job_view import View

NUM_STEPS = 8
PERIOD_US = 1000


def patterns(late_us: Mapping[int, Mapping[int, float]], *, marked: bool = True) -> object:
    """Patterns of a job of three ranks: ``late_us`` by rank and step, one collective a step."""
    traces = [
        rank_trace(
            rank,
            gpu=[
                allreduce(
                    number * PERIOD_US + late_us.get(rank, {}).get(number, 0),
                    400 - late_us.get(rank, {}).get(number, 0),
                    Coll("allreduce", 64, 64, seq=number),
                )
                for number in range(NUM_STEPS)
            ],
            annotations=[step(n, n * PERIOD_US - 10, 900) for n in range(NUM_STEPS)]
            if marked
            else [],
            groups=[world(3)],
            world_size=3,
        )
        for rank in range(3)
    ]
    return straggler_lag.run(View(job(*traces))).details["patterns"]


@pytest.mark.parametrize("marked", [True, False])
def test_late_in_every_step_is_persistent(marked: bool) -> None:
    assert patterns({1: dict.fromkeys(range(8), 50)}, marked=marked) == {"1": "persistent"}


@pytest.mark.parametrize("marked", [True, False])
def test_late_once_is_transient(marked: bool) -> None:
    assert patterns({1: {5: 300}}, marked=marked) == {"1": "transient"}


def test_late_now_and_then_is_recurring() -> None:
    assert patterns({1: {1: 100, 4: 100, 6: 100}}) == {"1": "recurring"}


def test_a_stall_beside_a_slow_rank_is_told_apart() -> None:
    late = {1: dict.fromkeys(range(8), 50.0), 2: {3: 350.0}}

    assert patterns(late) == {"1": "persistent", "2": "transient"}


def test_nobody_late_has_no_pattern() -> None:
    assert patterns({}) == {}
