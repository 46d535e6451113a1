"""Properties of the ladder of replays, and the quantities of slowdown."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from planted_jobs import Planted, Run, planted_job

from ccltui.metrics.arrays.typical import lower_median, lower_medians
from ccltui.metrics.catalog.stragglers.what_if_no_straggler import Slowdown
from ccltui.metrics.findings.replay.ladder import Ladder, ladder_of
from ccltui.metrics.findings.replay.lines import call_table, line_operations, step_replay
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View

SLOW = Planted(dp=2, pp=2, micro_batches=4, steps=4, slow_ranks={1: 1.5})


def ladder(plan: Planted) -> Ladder:
    return ladder_of(View(planted_job(plan)))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("pp", [1, 2, 4])
def test_the_replay_with_host_delays_is_the_job(schedule: str, prefetch: bool, pp: int) -> None:
    plan = Planted(dp=2, pp=pp, schedule=schedule, prefetch=prefetch, micro_batches=4, jitter=0.05)

    found = ladder(plan)

    assert found.replay_error < 0.001
    assert found.early_share == 0
    assert found.rungs[5] / 1e3 == pytest.approx(Run(plan).step_us, rel=0.05)
    assert found.invalid() is None


@pytest.mark.parametrize("seed", range(6))
def test_shares_add_up_to_one(seed: int) -> None:
    found = ladder(replace(SLOW, seed=seed, jitter=0.05))

    assert float(found.shares.sum()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("pp", [1, 4])
def test_replays_in_one_compiled_pass_equal_those_in_python(
    pp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Planted(dp=2, pp=pp, micro_batches=4, steps=3, jitter=0.05, seed=7)
    slow = ladder(plan)
    compiled, slowdown = slow.rungs.copy(), Slowdown(slow).details()
    delayed, level = slow.delayed, slow.without_idle([0])

    for module in (step_replay, line_operations, call_table):
        monkeypatch.setattr(module, "available", lambda: False)
    python = ladder(plan)

    assert (python.rungs == compiled).all()
    operations, others = slow.job.operations, python.job.operations
    for name in ("host_ns", "wait_ns"):
        assert (getattr(operations, name) == getattr(others, name)).all()
    assert (operations.early, operations.checked) == (others.early, others.checked)
    assert operations.host_ns.any()
    assert (python.delayed == delayed).all()
    assert (python.without_idle([0]) == level).all()
    assert Slowdown(python).details() == slowdown


@pytest.mark.parametrize("is_compiled", [True, False])
def test_replays_in_one_pass_equal_those_of_each_alone(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Planted(dp=3, pp=2, micro_batches=4, steps=3, jitter=0.05, seed=7)
    if not is_compiled:
        monkeypatch.setattr(step_replay, "available", lambda: False)
    found = ladder(plan)
    ranks = found.job.table.rank
    masks = [np.isin(ranks, chosen) for chosen in ([0], [1], [2, 3], [4], [0, 5], [])]
    longer = (1.1 * found.job.operations.compute_ns).astype(np.float64)

    together = found.ends_of(masks, longer, idle=found.idle.typical)

    for mask, ends in zip(masks, together, strict=True):
        assert (found.ends_of([mask], longer, idle=found.idle.typical)[0] == ends).all()
    assert len({ends.tobytes() for ends in together}) > len(masks) // 2


def test_an_error_of_one_clock_changes_no_share() -> None:
    shifted = replace(SLOW, clocks_us={2: 350_000.0, 3: 350_000.0})

    assert ladder(shifted).shares == pytest.approx(ladder(SLOW).shares, abs=0.01)


def test_a_factor_on_all_times_scales_the_loss_and_no_share() -> None:
    times = ("forward_us", "backward_us", "optimizer_us", "transfer_us", "reduce_us", "norm_us")
    longer = replace(SLOW, **{name: 3 * getattr(SLOW, name) for name in times})

    one, other = ladder(SLOW), ladder(longer)

    assert other.loss_ns == pytest.approx(3 * one.loss_ns, rel=0.01)
    assert other.shares == pytest.approx(one.shares, abs=0.01)


def test_the_place_of_the_culprit_moves_with_it() -> None:
    other = replace(SLOW, slow_ranks={0: 1.5})

    def culprit(plan: Planted) -> list[str]:
        found: list[str] = find("verdict").run(View(planted_job(plan))).details["culprit"]["ranks"]
        return found

    assert (culprit(SLOW), culprit(other)) == (["1"], ["0"])


def test_a_job_without_differences_has_no_slowdown() -> None:
    even = replace(SLOW, slow_ranks={}, jitter=0.0)
    slower = replace(even, slow_ranks=dict.fromkeys(range(4), 1.7))

    for plan in (even, slower):
        assert Slowdown(ladder(plan)).equalised == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("plan", "repaired"),
    [
        (Planted(dp=4, pp=4, micro_batches=16, slow_ranks={11: 2.2}), 1.879),
        (Planted(dp=4, pp=2, slow_ranks={3: 1.8}), 1.566),
        (Planted(dp=4, pp=4, slow_pair=(0, 4), link_factor=30), 1.283),
        (Planted(dp=4, pp=2, slow_group=0, link_factor=10), 1.242),
        (Planted(dp=4, pp=4), 1.0),
    ],
)
def test_repaired_slowdown_is_that_of_the_job_without_the_fault(
    plan: Planted, repaired: float
) -> None:
    true = float(Run(plan).step_us.mean() / Run(plan.without()).step_us.mean())
    assert true == pytest.approx(repaired, abs=0.001)

    details = find("what_if_no_straggler").run(View(planted_job(plan))).details

    assert details["repaired_slowdown"] == pytest.approx(true, rel=0.02)
    assert 0.995 <= details["equalised_slowdown"] <= details["repaired_slowdown"] + 0.01
    assert details["replay_error_pct"] < 0.1


def test_the_worker_and_the_stage_that_the_slowdown_comes_from() -> None:
    plan = Planted(dp=4, pp=4, micro_batches=16, slow_ranks={11: 2.2})

    details = find("what_if_no_straggler").run(View(planted_job(plan))).details

    assert next(iter(details["slowdown_by_worker"])) == "11"
    assert max(details["slowdown_by_stage"], key=details["slowdown_by_stage"].get) == "2"
    assert details["m_w"] == pytest.approx(1, abs=0.1)
    assert details["slowdown"] == pytest.approx(1.88, abs=0.02)
    assert details["without_rank"]["11"]["saved_pct"] > 40


@pytest.mark.parametrize("count", [3, 250])
def test_lower_medians_of_few_and_of_many_groups(count: int) -> None:
    random = np.random.default_rng(count)
    group = random.integers(0, count, 5000)
    group[group == 1] = 0  # an empty group
    values = random.normal(size=5000)

    found = lower_medians(values, group, count)

    expected = [lower_median(values[group == one]) for one in range(count)]
    assert np.isnan(found[1])
    assert np.array_equal(found, expected, equal_nan=True)
