"""Metrics and dimensions of two jobs side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ccltui.metrics.compare.metric_changes import (
    Measure,
    dimension_rows,
    measures,
    metric_changes,
)
from ccltui.metrics.result import Result


def measure(value: float | None, by_step: tuple[float, ...] = (), why: str = "") -> Measure:
    return Measure("title", "ms", value, why, by_step)


def steps(mean: float, seed: int, n: int = 24) -> tuple[float, ...]:
    values = np.random.default_rng(seed).normal(mean, 1.0, n)
    return tuple((values - values.mean() + mean).tolist())


def test_a_difference_within_the_spread_of_the_steps_is_no_change() -> None:
    (row,) = metric_changes(
        {"m": measure(100.0, steps(100, 1))}, {"m": measure(100.3, steps(100.3, 2))}
    )

    assert row.delta == pytest.approx(0.3)
    assert row.half_width is not None
    assert row.half_width > 0.3
    assert row.direction == "not distinguishable"


def test_a_difference_beyond_the_spread_is_a_change_with_its_sign() -> None:
    a, b = measure(100.0, steps(100, 1)), measure(90.0, steps(90, 2))

    assert metric_changes({"m": a}, {"m": b})[0].direction == "lower"
    assert metric_changes({"m": b}, {"m": a})[0].direction == "higher"


def test_without_steps_there_is_a_difference_and_no_verdict() -> None:
    (row,) = metric_changes({"m": measure(1.0)}, {"m": measure(3.0)})

    assert (row.delta, row.half_width, row.direction) == (2.0, None, "")


def test_a_side_without_a_value_has_its_reason_and_no_zero() -> None:
    (row,) = metric_changes({"m": measure(1.0)}, {"m": measure(None, why="no card")})

    assert (row.a, row.b, row.delta, row.why) == (1.0, None, None, "B: no card")
    assert metric_changes({"m": measure(None)}, {"m": measure(None)}) == ()


def test_neither_side_alone_makes_an_interval() -> None:
    one = {"m": measure(100.0, steps(100, 1))}
    bare = {"m": measure(100.0)}

    assert metric_changes(one, bare)[0].half_width is None
    assert metric_changes(bare, one)[0].half_width is None


class _Fake:
    """A metric whose headline is `x_ms`."""

    name, title, unit, headline = "fake", "fake", "ms", "x_ms"

    def __init__(self, value: float) -> None:
        rows = [{"step": n, "x_ms": float(n)} for n in range(4)]
        self._result = Result("fake", "ms", "", "ok", value=value, details={"per_step": rows})

    def run(self, _: object) -> Result:
        return self._result


@pytest.mark.parametrize(("value", "expected"), [(1.5, (0.0, 1.0, 2.0, 3.0)), (3.0, ())])
def test_only_the_mean_of_steps_has_their_spread(value: float, expected: tuple[float, ...]) -> None:
    fake: Any = _Fake(value)  # 1.5 is the mean of the steps, 3.0 their maximum

    assert measures(fake, [fake])["fake"].by_step == expected


def dimension(exposed_ms: float, hidden: float | None, group: str | None = None) -> dict[str, Any]:
    return {
        "dim": "tp",
        "group": group,
        "calls": 12,
        "message_bytes": None,
        "exposed_ms": exposed_ms,
        "busbw_GBps": 3.0,
        "hidden_ratio": hidden,
        "wait_ratio": None,
        "mean_lag_us": 2.0,
    }


def side(*rows: dict[str, Any]) -> dict[str, Measure]:
    details = {
        "dimensions": [row for row in rows if row["group"] is None],
        "groups": [row for row in rows if row["group"] is not None],
    }
    return {"parallelism": Measure("", "ratio", 0.5, details=details)}


def test_dimensions_are_aligned_and_their_sums_are_those_of_a_step() -> None:
    found = dimension_rows(
        side(dimension(10.0, 0.5), dimension(5.0, 0.5, "tp 0,1")),
        side(dimension(24.0, 0.4)),
        (5, 6),
    )

    assert [(row.dim, row.group) for row in found] == [("tp", None), ("tp", "tp 0,1")]
    assert (found[0].a["exposed_ms"], found[0].b["exposed_ms"]) == (2.0, 4.0)
    assert (found[0].a["calls"], found[0].b["calls"]) == (2.4, 2.0)
    assert (found[0].a["hidden_ratio"], found[0].b["hidden_ratio"]) == (0.5, 0.4)
    assert found[0].a["message_bytes"] is None
    assert found[1].b == {}
