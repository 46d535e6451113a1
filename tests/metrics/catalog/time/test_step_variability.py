"""step_variability: how much steps differ, and which stand out."""

from __future__ import annotations

import pytest
from factories import rank_trace, step
from worked import cpu_only, measure

from ccltui.parsers.columns import RankTrace


def steps(*lengths_us: float, rank: int = 0, scale: float = 1.0) -> RankTrace:
    markers, at = [], 0.0
    for number, length in enumerate(lengths_us):
        markers.append(step(number, at * scale, length * scale))
        at += length + 1
    return rank_trace(rank, annotations=markers)


def test_spread_and_slowest_step() -> None:
    result = measure("step_variability", steps(100, 110, 90, 100))

    details = result.details
    assert result.value == pytest.approx((200 / 3) ** 0.5 / 100)
    assert details["p95_over_p50"] == 1.1
    assert details["mad_ms"] == 0.005
    assert details["slowest_step"] == {"step": 1, "iter_time_ms": 0.11, "rank": "0"}
    assert (details["outliers"], details["num_iterations"]) == ([], 4)


def test_a_step_that_stands_out_is_named_with_its_rank() -> None:
    details = measure(
        "step_variability",
        steps(100, 101, 99, 100, 102),
        steps(100, 101, 99, 180, 102, rank=1),
    ).details

    (outlier,) = details["outliers"]
    assert (outlier["step"], outlier["rank"], outlier["iter_time_ms"]) == (3, "1", 0.18)
    assert outlier["deviations"] == pytest.approx(79 / 1.4826)  # the median is 101, its MAD 1


def test_where_most_steps_are_equal_the_mean_deviation_decides() -> None:
    details = measure("step_variability", steps(*[100] * 20, 150)).details

    assert [row["step"] for row in details["outliers"]] == [20]
    assert details["mad_ms"] == 0.0
    assert measure("step_variability", steps(100, 100, 100)).details["outliers"] == []
    assert measure("step_variability", steps(100, 100, 100)).value == 0.0


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_a_faster_machine_varies_as_much(scale: float) -> None:
    lengths = (100, 130, 90, 105)
    one = measure("step_variability", steps(*lengths))
    other = measure("step_variability", steps(*lengths, scale=scale))

    assert one.value == pytest.approx(other.value)
    assert one.details["p95_over_p50"] == pytest.approx(other.details["p95_over_p50"])


def test_what_it_needs() -> None:
    assert measure("step_variability", cpu_only()).reason == "no_step_markers"
    few = measure("step_variability", steps(100, 100))
    assert few.reason == "not_applicable"
    assert "needs 3" in few.reasons[0].message
