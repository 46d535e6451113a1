"""Comparisons of tables of two jobs: waterfall, verdicts, order of rows, comparability."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.metrics.compare.compare_jobs import REMAINDER, JobComparison, compare_jobs
from ccltui.metrics.compare.compare_runs import ONE_RUN, stated
from ccltui.metrics.compare.job_changes import WorkChange
from ccltui.metrics.compare.job_side import Collective, CollectiveKey, JobTable, Work
from ccltui.metrics.findings.rank_time.partition import Named
from ccltui.parsers.errors import NotFoundError
from ccltui.report.job_diff import gate_values, headline

FACTS = {"model": "llama", "batch": "8", "ranks": "2", "world size": "2", "gpu": "H100"}


def work(*by_step_ms: float, ranks: int = 2) -> Work:
    total = sum(by_step_ms) * 1e6 * ranks
    return Work(len(by_step_ms) * ranks, total, {"0": total}, np.array(by_step_ms))


def side(*step_ms: float, name: str = "A", **more: object) -> JobTable:
    table = JobTable(
        name=name,
        job=name,
        facts=FACTS,
        num_ranks=2,
        num_rank_steps=2 * len(step_ms),
        device_ms=np.array(step_ms),
        marker_ms=np.array(step_ms),
        parts_ms={("compute", "compute"): sum(step_ms) / max(len(step_ms), 1)},
        kinds_ms={"compute": np.array(step_ms)},
    )
    return replace(table, **more)


A_STEPS = (100.0, 101.0, 99.0, 100.5, 99.5, 100.0)
SLOWER = tuple(110.0 + x - 100 for x in A_STEPS)


def compared(
    b_facts: Mapping[str, str] = FACTS, runs_vary_pct: float | None = None, **more: object
) -> JobComparison:
    b = side(*SLOWER, name="B", facts=b_facts, **more)
    return compare_jobs(side(*A_STEPS), b, runs_vary_pct=runs_vary_pct)


PARTS = st.dictionaries(
    st.sampled_from(
        [
            ("compute", "compute"),
            ("waiting", "waiting"),
            ("communication", "tp"),
            ("communication", "dp"),
            ("copies", "copies"),
            ("idle", "data_loading"),
        ]
    ),
    st.floats(0, 1e4),
)
STEPS = st.lists(st.floats(0.001, 1e5), min_size=0, max_size=6)


@given(PARTS, PARTS, STEPS, STEPS)
def test_the_waterfall_adds_up_to_the_whole_difference(
    a: dict[Named, float], b: dict[Named, float], a_steps: list[float], b_steps: list[float]
) -> None:
    found = compare_jobs(
        side(*a_steps, parts_ms=a), side(*b_steps, name="B", parts_ms=b, facts=FACTS)
    )

    if found.step_time.delta is None or not a or not b:
        assert not found.waterfall
        return
    scale = max(found.step_time.a or 0, found.step_time.b or 0, 1)
    for of, whole in (("a", found.step_time.a), ("b", found.step_time.b)):
        assert math.fsum(getattr(row, of) for row in found.waterfall) == pytest.approx(
            whole, abs=1e-6 * scale
        )
    assert math.fsum(row.delta for row in found.waterfall) == pytest.approx(
        found.step_time.delta, abs=1e-6 * scale
    )


def test_what_the_parts_leave_of_the_step_is_the_remainder() -> None:
    a = side(10, 10, 10, 10, parts_ms={("compute", "compute"): 7.0})
    b = side(14, 14, 14, 14, name="B", parts_ms={("compute", "compute"): 8.0})

    rows = {row.part: row for row in compare_jobs(a, b).waterfall}

    assert (rows[REMAINDER].a, rows[REMAINDER].b, rows[REMAINDER].delta) == (3.0, 6.0, 3.0)
    assert rows["compute", "compute"].delta == 1.0


def test_a_job_that_is_slower_beyond_the_noise_is_worse() -> None:
    found = compared(runs_vary_pct=5)

    assert (found.verdict, found.why, found.count) == ("worse", "", (6, 6))
    assert (found.step_time.delta, found.step_time.delta_pct) == pytest.approx((10.0, 10.0))
    assert [row.direction for row in (found.step_time, *found.kinds)] == ["longer", "longer"]
    faster = compare_jobs(side(*SLOWER), side(*A_STEPS, name="B"), runs_vary_pct=5)
    assert faster.verdict == "better"


def test_one_run_a_side_is_not_distinguishable_from_noise_between_runs() -> None:
    found = compared()

    assert (found.verdict, found.why) == ("not distinguishable", ONE_RUN)
    assert headline(found).startswith(
        "not distinguishable from noise between runs: step time 100 → 110 ms, +10.000 ms (+10.00 %)"
    )
    assert [row.direction for row in (found.step_time, *found.kinds)] == ["", ""]
    assert compared(runs_vary_pct=12).verdict == "not distinguishable"
    assert compared(runs_vary_pct=12).why == stated(12)


def test_a_gate_on_a_stated_threshold_holds_with_one_run_a_side() -> None:
    """Its number says how far runs may differ; within the runs noise is still no change."""
    values = gate_values(compared())["step_time"]
    assert (values["change_pct"], values["direction"]) == (pytest.approx(10.0), None)
    same = compare_jobs(side(*A_STEPS), side(*A_STEPS[::-1], name="B"))
    assert gate_values(same)["step_time"]["change_pct"] == 0
    assert gate_values(compared(runs_vary_pct=12))["step_time"]["change_pct"] == 0


def test_several_runs_a_side_are_judged_by_their_spread() -> None:
    def runs(name: str, *factors: float) -> list[JobTable]:
        return [
            side(*(factor * ms for ms in A_STEPS), name=f"{name}{at}", facts=FACTS)
            for at, factor in enumerate(factors)
        ]

    apart = compare_jobs(runs("A", 1.0, 1.01, 0.99), runs("B", 1.2, 1.21, 1.19))
    mixed = compare_jobs(runs("A", 1.0, 1.3, 0.7), runs("B", 1.2, 1.5, 0.9))
    single = compare_jobs(runs("A", 1.0, 1.01, 0.99), runs("B", 1.2))

    assert (apart.verdict, apart.why) == ("worse", "")
    assert apart.step_time.delta_pct == pytest.approx(20.0)
    spread = 2.776 * (2 * float(np.var([1.0, 1.01, 0.99], ddof=1)) / 3) ** 0.5
    assert apart.step_time.half_width == pytest.approx(spread * float(np.mean(A_STEPS)))
    assert mixed.verdict == "not distinguishable"
    assert single.verdict == "worse"
    assert "3 against 3 runs" in headline(apart)


def test_runs_of_a_side_must_repeat_one_another() -> None:
    one, other = side(*A_STEPS), side(*A_STEPS, name="A2", facts=FACTS | {"batch": "16"})

    with pytest.raises(NotFoundError, match="does not repeat A: batch 8 against 16"):
        compare_jobs([one, other], side(*A_STEPS, name="B"))
    with pytest.raises(NotFoundError, match="named twice"):
        compare_jobs([one, one], side(*A_STEPS, name="B"))
    with pytest.raises(NotFoundError, match="compared by their steps"):
        compare_jobs([one, side(name="A2")], side(*A_STEPS, name="B"))


@pytest.mark.parametrize("name", ["model", "batch", "ranks"])
def test_jobs_that_differ_in_what_must_be_equal_have_no_verdict(name: str) -> None:
    found = compared(FACTS | {name: "other"})

    assert found.verdict == "not comparable"
    assert found.why == f"{name} {FACTS[name]} against other"
    assert found.step_time.is_beyond


@pytest.mark.parametrize("name", ["model", "batch"])
def test_without_knowing_that_the_work_is_equal_nothing_is_better_or_worse(name: str) -> None:
    found = compared(FACTS | {name: ""})

    assert (found.verdict, found.why) == ("unknown", f"{name} is unknown in B")


def test_other_devices_are_allowed_and_stated() -> None:
    found = compared(FACTS | {"gpu": "A100"}, runs_vary_pct=5)

    assert found.verdict == "worse"
    assert [check.sentence for check in found.checks.reported] == ["gpu H100 against A100"]


def test_parts_of_one_job_did_the_same_work() -> None:
    nothing = FACTS | {"model": "", "batch": ""}
    found = compare_jobs(
        side(*A_STEPS, job="one", facts=nothing), side(*SLOWER, job="one", facts=nothing)
    )

    assert (found.verdict, found.checks.basis) == ("worse", "one job")


def test_the_same_operators_with_the_same_shapes_are_the_same_work() -> None:
    nothing = FACTS | {"model": "", "batch": ""}
    mm, other = {("aten::mm", "[[4,8],[8,4]]"): work(9)}, {("aten::mm", "[[8,8],[8,4]]"): work(9)}
    no_shapes = {("aten::mm", ""): work(9)}

    def verdict(a: object, b: object) -> tuple[str, str]:
        found = compare_jobs(
            side(*A_STEPS, facts=nothing, operators=a),
            side(*SLOWER, name="B", facts=nothing, operators=b),
            runs_vary_pct=5,
        )
        return found.verdict, found.checks.basis

    assert verdict(mm, mm) == ("worse", "same operators and shapes")
    assert verdict(mm, other) == ("unknown", "")
    assert verdict(no_shapes, no_shapes) == ("unknown", "")


def test_cards_that_differ_are_not_overruled_by_shapes() -> None:
    mm = {("aten::mm", "[[4,8],[8,4]]"): work(9)}
    found = compare_jobs(
        side(*A_STEPS, operators=mm),
        side(*SLOWER, name="B", facts=FACTS | {"batch": "16"}, operators=mm),
    )

    assert (found.verdict, found.why) == ("not comparable", "batch 8 against 16")


def test_three_steps_are_not_distinguishable_however_large_the_change() -> None:
    found = compare_jobs(side(1, 1, 1), side(9, 9, 9, name="B"))

    assert found.verdict == "not distinguishable"
    few = "n = 3 against 3 steps: an interval needs 4 a side"
    assert found.why == f"{few}; {ONE_RUN}"
    assert found.step_time.half_width is None


def test_without_steps_the_measured_time_is_compared_and_nothing_judged() -> None:
    parts = {("compute", "compute"): 80.0, ("idle", "unknown"): 20.0}
    a = side(parts_ms=parts, kernels={("k", "comp"): work(5.0, 5.0)})
    b = side(10, 10, name="B", kernels={("k", "comp"): work(8.0, 8.0)})

    found = compare_jobs(a, b)

    assert not found.by_step
    assert (found.step_time.a, found.step_time.b) == (100.0, 20.0)
    assert (found.verdict, found.why) == ("unknown", "steps is unknown in A")
    # Without steps the work of all ranks is summed.
    assert (found.kernels[0].time.a, found.kernels[0].time.b) == (20.0, 32.0)


def test_kernels_beyond_the_noise_come_first_then_the_largest_difference() -> None:
    noisy, quiet = (1.0, 9.0, 2.0, 8.0, 1.0, 9.0), (5.0, 5.1, 4.9, 5.0, 5.1, 4.9)
    a = {("noisy", "comp"): work(*noisy), ("quiet", "comp"): work(*quiet)}
    a |= {("gone", "comp"): work(0.5, 0.5, 0.5, 0.5, 0.5, 0.5)}
    b = {("noisy", "comp"): work(*reversed(noisy)), ("new", "comp"): work(*[0.2] * 6)}
    b |= {("quiet", "comp"): work(*(x + 1 for x in quiet))}
    b["noisy", "comp"] = work(*(x + 1.5 for x in noisy))

    found = compare_jobs(
        side(*A_STEPS, kernels=a), side(*A_STEPS, name="B", kernels=b), runs_vary_pct=1
    )

    def told(row: WorkChange) -> tuple[str, str]:
        return row.key[0], row.status

    assert [told(row) for row in found.kernels] == [
        ("quiet", "changed"),
        ("gone", "gone"),
        ("new", "added"),
        ("noisy", "not distinguishable"),
    ]
    assert [row.time.delta for row in found.kernels] == pytest.approx([1.0, -0.5, 0.2, 1.5])


def test_rare_work_has_no_interval() -> None:
    rare = {("checkpoint", "mem"): work(0, 0, 0, 0, 0, 50)}
    found = compare_jobs(side(*A_STEPS, kernels=rare), side(*A_STEPS, name="B", kernels={**rare}))

    assert (found.kernels[0].time.half_width, found.kernels[0].status) == (None, "")


def test_collectives_are_per_step_and_dimensions_hold_their_traffic() -> None:
    key = CollectiveKey("AllReduce", "tp", 2, 1000)
    a = side(10, 10, 10, 10, collectives={key: Collective(8, 4_000_000)})
    b = side(10, 10, name="B", collectives={key: Collective(8, 4_000_000)})
    b = replace(b, parts_ms={("communication", "tp"): 2.5})

    found = compare_jobs(a, b)

    row = found.collectives[0]
    assert (row.calls, row.time.a, row.time.b) == ((2.0, 4.0), 1.0, 2.0)
    dim = found.dimensions[0]
    assert (dim.dim, dim.exposed.a, dim.exposed.b) == ("tp", 0.0, 2.5)
    assert (dim.calls, dim.message_bytes) == ((2.0, 4.0), (2000.0, 4000.0))
