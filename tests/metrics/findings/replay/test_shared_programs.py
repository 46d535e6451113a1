"""Which ranks are compared with each other, by the calls that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from factories import allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.view.job_view import View

LENGTH_US = 1000.0


def sets_of_ranks(calls: Mapping[int, Sequence[str]]) -> set[frozenset[int]]:
    """Sets of ranks that are compared; ``calls`` gives those of each step, A and B, by rank."""
    traces = []
    for rank, steps in calls.items():
        gpu = []
        for number, made in enumerate(steps):
            begin = number * LENGTH_US
            for place, kind in enumerate(made):
                at = begin + 90 * place
                gpu.append(kernel("gemm", at, 50 + rank / 10, 7))
                if kind == "A":
                    gpu.append(allreduce(at + 60, 20))
                else:
                    gpu.append(kernel("ncclDevKernel_Broadcast_RING_LL", at + 60, 20, 20))
        marks = [step(n, n * LENGTH_US, LENGTH_US) for n in range(len(steps))]
        traces.append(rank_trace(rank, gpu=gpu, annotations=marks, groups=[world(len(calls))]))
    place = ladder_of(View(job(*traces))).targets.place.tolist()
    return {frozenset(r for r in calls if place[r] == one) for one in place}


PLAIN = ["AAA"] * 4


@pytest.mark.parametrize(
    ("rank_0", "why"),
    [
        (["AAAB"] * 4, "one call more in every step"),
        (["AAABBBBB"] * 4, "more calls of its own than shared ones"),
        (["AAA", "AAAB"] * 2, "one call more in every other step"),
        (["AAAB", "AAABB", "AAABBB", "AAABBBB"], "steps that all differ"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_makes_all_calls_of_the_others_is_compared_with_them(
    rank_0: list[str], why: str, ranks: int
) -> None:
    found = sets_of_ranks({0: rank_0, **dict.fromkeys(range(1, ranks), PLAIN)})

    assert found == {frozenset(range(ranks))}, why


def test_a_rank_with_less_than_half_of_the_calls_of_the_others_is_alone() -> None:
    found = sets_of_ranks({0: ["A"] * 4, **dict.fromkeys(range(1, 4), PLAIN)})

    assert found == {frozenset({0}), frozenset({1, 2, 3})}


def test_a_rank_whose_steps_lack_different_calls_is_alone() -> None:
    lacking = ["AA", "A", "AAA", "AA", "A", "AAA"]
    found = sets_of_ranks({0: lacking, **dict.fromkeys(range(1, 4), ["AAA"] * 6)})

    assert found == {frozenset({0}), frozenset({1, 2, 3})}


def test_ranks_whose_steps_differ_alike_are_compared() -> None:
    steps = ["A", "AA", "AAA"]

    assert sets_of_ranks(dict.fromkeys(range(3), steps)) == {frozenset(range(3))}


def test_two_ranks_that_are_alike_are_not_joined_with_others() -> None:
    found = sets_of_ranks({0: ["AAAB"] * 4, 1: ["AAAB"] * 4, **dict.fromkeys(range(2, 5), PLAIN)})

    assert found == {frozenset({0, 1}), frozenset({2, 3, 4})}


def test_of_a_single_step_ranks_with_other_calls_are_not_compared() -> None:
    assert len(sets_of_ranks({0: ["AAAB"], 1: ["AAA"], 2: ["AAA"]})) == 2
