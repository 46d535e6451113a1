"""One side of a comparison of jobs, and its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from factories import Event, job, launch, rank_trace, step
from worked import cpu_only

from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import job_table
from ccltui.metrics.compare.metric_changes import Measure, dimension_rows, measures, metric_changes
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import parse_window


def rank(number: int, *gemm_us: float, step_us: float = 100.0) -> RankTrace:
    """Steps of one length with a product and a copy each."""
    starts = [i * step_us for i in range(len(gemm_us))]
    return rank_trace(
        number,
        annotations=[step(i, start, step_us) for i, start in enumerate(starts)],
        runtime=[launch(i + 1, start) for i, start in enumerate(starts)],
        gpu=[
            event
            for i, (start, gemm) in enumerate(zip(starts, gemm_us, strict=True))
            for event in (
                Event("gemm<float>", start, gemm, correlation=i + 1),
                Event(
                    "Memcpy HtoD", start + step_us - 5, 4, correlation=i + 1, category="gpu_memcpy"
                ),
            )
        ],
    )


def details(view: View, name: str) -> Mapping[str, Any]:
    return find(name).run(view).details


@pytest.fixture(scope="module")
def view() -> View:
    return View(job(rank(0, 50, 60, 70, 40), rank(1, 52, 58, 72, 44)))


def test_parts_and_kernels_are_those_of_the_metrics(view: View) -> None:
    table = job_table(view, "A")

    composition = details(view, "step_composition")
    parts = {(one["kind"], one["part"]): one["step_ms"] for one in composition["parts"]}
    assert dict(table.parts_ms) == pytest.approx(parts)
    assert math.fsum(table.parts_ms.values()) == pytest.approx(composition["step_ms"])
    for row in details(view, "kernels")["kernels"]:
        work = table.kernels[row["name"], row["class"]]
        assert work.calls == row["calls"]
        assert work.total_ns / 1e6 == pytest.approx(row["total_ms"])
    times = details(view, "iter_time")
    assert table.marker_ms.mean() == pytest.approx(times["avg_iter_time_ms"])


def test_times_by_step_add_up_to_the_totals(view: View) -> None:
    table = job_table(view, "A")

    gemm = table.kernels["gemm", "comp"]
    assert gemm.by_step_ms is not None
    assert gemm.by_step_ms.tolist() == pytest.approx([0.051, 0.059, 0.071, 0.042])
    assert gemm.by_step_ms.sum() * 2 == pytest.approx(gemm.total_ns / 1e6)
    assert gemm.per_rank_ns == {"0": 220_000, "1": 226_000}
    by_kind = {kind: values.sum() for kind, values in table.kinds_ms.items()}
    assert by_kind["compute"] == pytest.approx(4 * table.parts_ms["compute", "compute"])
    assert sum(by_kind.values()) == pytest.approx(4 * math.fsum(table.parts_ms.values()))
    # The gap of 1 us between the last work of a step and the next is in all but the last.
    assert table.device_ms.tolist() == pytest.approx([0.1, 0.1, 0.1, 0.099])
    assert table.device_ms.sum() == pytest.approx(sum(by_kind.values()))


def ahead(number: int, gemm_us: float) -> RankTrace:
    """Six steps whose markers last 10 us each, while the device computes ``gemm_us`` in a step."""
    return rank_trace(
        number,
        annotations=[step(i, i * 10, 10) for i in range(6)],
        runtime=[launch(i + 1, i * 10) for i in range(6)],
        gpu=[
            Event("gemm", 5 + i * gemm_us, gemm_us - 0.5 * (i % 2), correlation=i + 1)
            for i in range(6)
        ],
    )


def test_a_host_that_runs_ahead_does_not_shorten_the_step_time() -> None:
    sides = [job_table(View(job(ahead(0, gemm), ahead(1, gemm))), "x") for gemm in (100, 120)]

    found = compare_jobs(*sides)

    assert (found.step_time.name, found.step_time.direction) == ("step time", "longer")
    assert found.step_time.delta == pytest.approx(0.02, rel=0.01)
    assert found.markers is not None
    assert (found.markers.a, found.markers.b) == (0.01, 0.01)
    assert math.fsum(row.delta for row in found.waterfall) == pytest.approx(found.step_time.delta)


def test_steps_that_overlap_on_the_device_are_counted_once() -> None:
    """Every step has a kernel on a second stream that ends in the middle of the next step."""
    trace = rank_trace(
        0,
        annotations=[step(i, i * 100, 100) for i in range(4)],
        runtime=[launch(i + 1, i * 100) for i in range(4)],
        gpu=sorted(
            (
                event
                for i in range(4)
                for event in (
                    Event("gemm", i * 100, 90, correlation=i + 1),
                    Event("tail", i * 100 + 50, 100, track=9, correlation=i + 1),
                )
            ),
            key=lambda event: event.start_us,
        ),
    )

    table = job_table(View(job(trace)), "A")

    assert table.device_ms.tolist() == pytest.approx([0.1, 0.1, 0.1, 0.15])
    assert sum(values.sum() for values in table.kinds_ms.values()) == pytest.approx(0.45)
    assert table.kinds_ms["compute"].sum() == pytest.approx(0.45)


def test_a_rank_against_another(view: View) -> None:
    sides = [job_table(view.with_options(ranks=frozenset({i})), f"rank {i}") for i in (0, 1)]

    found = compare_jobs(*sides)

    assert found.checks.basis == "one job"
    gemm = found.kernels[0]
    assert (gemm.key[0], gemm.time.a, gemm.time.b) == ("gemm", 0.055, 0.0565)
    assert found.waterfall[0].part == ("compute", "compute")


def test_steps_against_others(view: View) -> None:
    sides = [job_table(view.with_options(steps=one), "x") for one in ((0, 1), (2, 3))]

    found = compare_jobs(*sides)

    assert (found.count, found.verdict) == ((2, 2), "not distinguishable")
    assert found.kernels[0].time.a == pytest.approx(0.055)
    assert found.kernels[0].time.b == pytest.approx(0.0565)


def test_a_window_is_reduced_to_whole_steps(view: View) -> None:
    cut = ViewOptions(window=parse_window("90us/320us"))
    inside = ViewOptions(window=parse_window("10us/60us"))

    whole = job_table(View(view.job, cut), "w")
    part = job_table(View(view.job, inside), "w")

    assert (whole.name, whole.num_steps) == ("w (steps 1-2)", 2)
    assert whole.kernels["gemm", "comp"].calls == 4
    assert (part.name, part.num_rank_steps) == ("w", 0)
    assert math.fsum(part.parts_ms.values()) == pytest.approx(0.05)


def test_what_a_side_lacks_is_named() -> None:
    table = job_table(View(job(cpu_only())), "A")

    assert "CPU-only" in table.missing["kernels"]
    assert not table.kernels
    found = compare_jobs(table, table)
    assert found.verdict in ("not distinguishable", "unknown")


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
