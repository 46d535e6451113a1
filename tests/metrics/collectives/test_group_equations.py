"""The equations of groups have the solution of those of ranks, in less time and memory."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.metrics.collectives.clocks import clock_estimate
from ccltui.metrics.collectives.clocks.clock_estimate import Observation, solve, standard_errors
from ccltui.parsers.array_types import I64


def observed(groups: list[I64], seed: int) -> list[Observation]:
    rng = np.random.default_rng(seed)
    return [
        Observation(one, rng.normal(size=len(one)) * 1e6, float(rng.uniform(0.5, 30)))
        for one in groups
    ]


def grid(count: int, tp: int) -> list[I64]:
    """Groups of neighbours and of those of one place in them; the second half is not linked."""
    rows = np.arange(count).reshape(2, -1, tp)
    across = [half[:, column] for half in rows for column in range(tp)]
    return [*(row for half in rows for row in half), *across]


def at_random(count: int, seed: int) -> list[I64]:
    """Groups of any sizes, one of a single rank; some ranks are in none."""
    rng = np.random.default_rng(seed)
    sizes = [1, *rng.integers(2, 40, count // 8).tolist()]
    return [np.sort(rng.choice(count - 9, size, replace=False)).astype(np.int64) for size in sizes]


@pytest.mark.parametrize(
    "groups",
    [[np.arange(64)], grid(128, 8), at_random(96, 1), at_random(96, 2)],
    ids=["world", "two grids", "random", "random too"],
)
def test_both_equations_have_one_solution(
    groups: list[I64], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1 + max(int(one.max()) for one in groups)
    seen = observed(groups, 7)
    assert 2 * len(seen) <= count
    monkeypatch.setattr(clock_estimate, "LARGE", count + 1)
    by_ranks = solve(seen, count), standard_errors(seen, count)
    monkeypatch.setattr(clock_estimate, "LARGE", count)
    by_groups = solve(seen, count), standard_errors(seen, count)

    assert np.abs(by_groups[0] - by_ranks[0]).max() < 1e-3  # ns
    assert by_groups[1] == pytest.approx(by_ranks[1], rel=1e-9, abs=1e-12)
    assert (by_groups[0] != 0).any()


def test_ranks_without_a_group_have_the_value_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_estimate, "LARGE", 1)
    seen = observed([np.array([2])], 1)

    assert solve(seen, 4).tolist() == standard_errors(seen, 4).tolist() == [0.0] * 4


def test_many_ranks_need_no_matrix_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a matrix of all ranks")

    monkeypatch.setattr(clock_estimate, "_normal_equations", refuse)
    count = 16_384
    groups = [np.arange(count), *np.arange(count).reshape(-1, 512)]
    truth = np.random.default_rng(3).normal(size=count) * 1e6
    seen = [Observation(one, truth[one] - truth[one].mean(), 1.0) for one in groups]

    assert solve(seen, count) == pytest.approx(truth - truth[0], abs=1e-3)
