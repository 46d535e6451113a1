"""Comparison of two runs: comparability, differences, and verdicts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_by_hand import (
    BASELINE,
    BUCKET200,
    CAPTURE_A,
    CAPTURE_B,
    COMMIT_A,
    COMMIT_B,
    document,
    pair,
    put_run,
    with_capture,
)

from ccltui.metrics.compare.compare_profiles import compare_sides, side, with_runs
from ccltui.metrics.compare.compare_runs import Comparison, Row, Sample, half_width, parts_of, t95
from ccltui.parsers.errors import NotFoundError
from ccltui.report.diff_writers import headline


def compared(a: Path, b: Path, runs_vary_pct: float | None = 5.0) -> Comparison:
    found = compare_sides(side(a), side(b), runs_vary_pct=runs_vary_pct)
    assert isinstance(found, Comparison)
    return found


def rows(found: Comparison) -> dict[str, Row]:
    return {row.name: row for row in found.rows}


def test_the_wall_time_of_runs_of_unknown_length_is_not_judged(tmp_path: Path) -> None:
    a, b = put_run(tmp_path / "a", None), put_run(tmp_path / "b", None)
    mark = b / "RUN_COMPLETE.txt"
    mark.write_text(mark.read_text().replace("82.96", "60.00"))

    found = rows(compared(a, b))

    assert (found["total wall"].a, found["total wall"].b) == (82.96, 60.0)
    assert found["total wall"].verdict == "not comparable"
    assert "steps is unknown in A and B" in found["total wall"].note
    assert {row.verdict for row in found.values()} == {"not comparable"}


def test_the_tuned_run_is_better_and_on_another_commit(tmp_path: Path) -> None:
    found = compared(*pair(tmp_path))

    rate = rows(found)["throughput"]
    assert rate.delta_pct == pytest.approx(19.4704, abs=5e-5)
    assert (found.verdict, rate.verdict) == ("better", "better")
    assert found.comparability.verdict == "comparable"
    assert found.why == (
        "different commits: d8ca451 against ba03420; "
        "different DeepSpeed configurations: c84d643 against 5dc8962"
    )
    assert rate.note == "runs of one command vary by 5 %, as stated by --runs-vary"


def test_one_run_a_side_is_no_evidence_and_the_difference_stays(tmp_path: Path) -> None:
    found = compared(*pair(tmp_path), runs_vary_pct=None)

    rate = rows(found)["throughput"]
    assert rate.delta_pct == pytest.approx(19.4704, abs=5e-5)
    assert (found.verdict, rate.verdict) == ("not distinguishable", "not distinguishable")
    assert rate.note == "one run a side"
    assert headline(found).startswith(
        "not distinguishable from noise between runs, throughput +19.47 % (one run a side, so the "
        "spread between runs is unknown: name more runs of each side"
    )
    assert compared(*pair(tmp_path), runs_vary_pct=25).verdict == "not distinguishable"
    assert "between runs" not in headline(compared(*pair(tmp_path), runs_vary_pct=25))


def test_the_steps_of_a_run_tell_nothing_of_other_runs(tmp_path: Path) -> None:
    """Each of 300 steps is 5 % shorter, with hardly any spread: another node may do that."""
    a = with_steps(tmp_path / "a", 0.100, 1)
    b = with_steps(tmp_path / "b", 0.095, 3)

    row = rows(compared(a, b, runs_vary_pct=None))["step_time_mean"]

    assert row.half_width is not None
    assert row.delta is not None
    assert abs(row.delta) > row.half_width
    assert row.verdict == "not distinguishable"
    assert row.note.endswith("(95 %, within one run); one run a side")
    assert rows(compared(a, b, runs_vary_pct=2))["step_time_mean"].verdict == "better"
    assert rows(compared(a, b, runs_vary_pct=8))["step_time_mean"].verdict == "not distinguishable"


def put_rates(root: Path, *rates: float) -> list[Path]:
    return [
        put_run(
            root / f"run_{number}",
            document({**BASELINE, "tokens_per_sec_global": rate}, COMMIT_A),
        )
        for number, rate in enumerate(rates)
    ]


def test_more_runs_of_a_side_are_named_one_by_one(tmp_path: Path) -> None:
    a = put_rates(tmp_path / "a", 100.0, 101.0, 102.0)
    b = put_rates(tmp_path / "b", 104.0, 105.0, 106.0)

    sides = [with_runs(side(one[0]), [side(path) for path in one[1:]]) for one in (a, b)]
    found = compare_sides(*sides)

    assert isinstance(found, Comparison)
    assert (found.verdict, rows(found)["throughput"].spread) == ("better", "3 runs")
    with pytest.raises(NotFoundError, match="named twice"):
        with_runs(side(a[0]), [side(a[0])])
    longer = document({**BASELINE, "tokens_per_sec_global": 1.0}, COMMIT_A)
    longer["training_config"]["seq_len"] = 1024
    put_run(tmp_path / "other", longer)
    with pytest.raises(NotFoundError, match="do not repeat one another"):
        with_runs(side(a[0]), [side(tmp_path / "other")])


def test_the_spread_of_runs_is_not_mixed_with_that_of_steps(tmp_path: Path) -> None:
    """Two runs against one with a log of steps: their spread holds for that one too."""
    for name, seconds in (("run_0", 0.100), ("run_1", 0.110)):
        with_steps(tmp_path / "a" / name, seconds, 1)
    b = with_steps(tmp_path / "b", 0.0995, 2)

    row = rows(compared(tmp_path / "a", b, runs_vary_pct=None))["step_time_mean"]

    assert row.spread == "2 runs against 1 runs"
    assert (row.half_width or 0) > 50
    assert row.verdict == "not distinguishable"


def test_step_times_of_few_samples_are_not_compared(tmp_path: Path) -> None:
    found = rows(compared(*pair(tmp_path)))

    for name in ("step_time_mean", "step_time_p50", "step_time_p95"):
        assert found[name].verdict == "not comparable"
        assert "rest on 6 of 300 micro-steps" in found[name].note
        assert "cover 19 % of the training wall time" in found[name].note
    assert found["step_time_p95"].delta_pct == pytest.approx(-18.40, abs=0.005)


def test_a_difference_within_the_noise_is_no_change(tmp_path: Path) -> None:
    a, b = pair(tmp_path)

    assert compared(a, b, runs_vary_pct=20).verdict == "not distinguishable"
    assert compared(b, a).verdict == "worse"
    assert compared(a, a).verdict == "not distinguishable"


def test_calls_are_compared_per_backward(tmp_path: Path) -> None:
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A))
    b = put_run(tmp_path / "b", document(BASELINE, COMMIT_A))
    with_capture(a, CAPTURE_A)
    with_capture(b, CAPTURE_B)

    row = rows(compared(a, b))["AllReduce per backward"]

    assert (round(row.a or 0, 2), row.b) == (3.0, 1.625)
    assert row.verdict == "better"


def test_calls_of_runs_that_accumulate_differently(tmp_path: Path) -> None:
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A, grad_accum_steps=1))
    b = put_run(tmp_path / "b", document(BUCKET200, COMMIT_B))
    with_capture(a, CAPTURE_A)
    with_capture(b, CAPTURE_B)

    found = compared(a, b)

    calls = rows(found)["AllReduce per backward"]
    assert (calls.verdict, calls.note) == ("not comparable", "grad_accum 1 against 2")
    update = rows(found)["AllReduce per optimizer step"]
    assert (update.b, update.verdict) == (3.25, "worse")
    assert found.verdict == "not comparable"


Change = Callable[[dict[str, Any]], None]


def _set(path: str, value: Any) -> Change:
    def change(metrics: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        inner: Any = metrics
        for key in parents:
            inner = inner[int(key) if key.isdigit() else key]
        inner[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set("hardware.world_size", 16), "world_size 8 against 16"),
        (_set("hardware.gpu_name", "NVIDIA H200"), "gpu Tesla V100-SXM2-16GB against NVIDIA H200"),
        (_set("training_config.seq_len", 1024), "seq_len 512 against 1024"),
        (_set("training_config.micro_batch_size_per_gpu", 4), "micro_batch 2 against 4"),
        (_set("training_config.grad_accum_steps", 1), "grad_accum 2 against 1"),
        (_set("training_config.precision", "fp32"), "precision fp16_deepspeed against fp32"),
        (_set("training_config.zero_stage", 2), "zero_stage 1 against 2"),
        (_set("training_config.dataset_name", "c4"), "dataset train_small"),
        (_set("command_line", "gpt2.py --max_train_steps 80"), "max_steps 300 against 80"),
        (_set("epochs.0.micro_steps", 80), "steps 300 against 80"),
    ],
)
def test_what_makes_runs_not_comparable(tmp_path: Path, change: Change, why: str) -> None:
    other = json.loads(json.dumps(document(BUCKET200, COMMIT_A)))
    change(other)
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A))
    b = put_run(tmp_path / "b", other)

    found = compared(a, b)

    assert (found.verdict, found.comparability.verdict) == ("not comparable", "not comparable")
    assert why in found.why
    assert {row.verdict for row in found.rows} == {"not comparable"}


def test_a_profiled_and_a_killed_run_are_not_comparable(tmp_path: Path) -> None:
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A))
    b = put_run(tmp_path / "b", document(BASELINE, COMMIT_A), switches={"NSYS": "1"})
    c = put_run(tmp_path / "c", None, complete=False)

    assert "nsys off against on" in compared(a, b).why
    assert "nsys was recording" in compared(a, b).why
    assert "state ended against incomplete" in compared(a, c).why


def with_steps(folder: Path, mean_s: float, seed: int) -> Path:
    """A run whose steps scatter by 10 %."""
    chance = random.Random(seed)
    steps = [
        {"step": s, "loss": 1.0, "step_time_sec": mean_s * chance.gauss(1, 0.1), "tokens": 1000}
        for s in range(1, 301)
    ]
    wall = sum(step["step_time_sec"] for step in steps)
    epoch = {
        **BASELINE,
        "epoch_wall_time_sec": wall,
        "tokens_processed_global": 300_000,
        "tokens_per_sec_global": 300_000 / wall,
    }
    put_run(folder, document(epoch, COMMIT_A))
    text = "".join(json.dumps(step) + "\n" for step in steps)
    (folder / "training_steps.jsonl").write_text(text)
    return folder


def test_the_spread_of_a_run_is_that_of_its_tenths(tmp_path: Path) -> None:
    a = with_steps(tmp_path / "a", 0.100, 1)
    b = with_steps(tmp_path / "b", 0.0995, 2)
    c = with_steps(tmp_path / "c", 0.095, 3)

    close, far = rows(compared(a, b)), rows(compared(a, c))

    assert close["step_time_mean"].spread == "10 tenths of the run"
    assert close["step_time_mean"].verdict == "not distinguishable"
    assert far["step_time_mean"].verdict == "better"
    assert 0 < (far["step_time_mean"].half_width or 0) < 3
    assert (close["throughput"].verdict, far["throughput"].verdict) == (
        "not distinguishable",
        "better",
    )


def test_repetitions_are_a_sample(tmp_path: Path) -> None:
    for side_name, rates in (("a", (100.0, 101.0, 102.0)), ("b", (104.0, 105.0, 106.0))):
        for number, rate in enumerate(rates):
            epoch = {**BASELINE, "tokens_per_sec_global": rate}
            put_run(tmp_path / side_name / f"run_{number}", document(epoch, COMMIT_A))

    found = compared(tmp_path / "a", tmp_path / "b", runs_vary_pct=None)

    row = rows(found)["throughput"]
    assert found.a == ("run_0", "run_1", "run_2")
    assert (row.a, row.b, row.spread) == (101.0, 105.0, "3 runs")
    assert row.half_width == pytest.approx(2.776 * (2 / 3) ** 0.5)
    assert found.verdict == "better"


def test_a_folder_of_different_runs_must_be_named(tmp_path: Path) -> None:
    pair(tmp_path)

    with pytest.raises(NotFoundError, match="2 runs that do not repeat one another") as caught:
        side(tmp_path)
    assert "name one: accum2_300 and bucket200_300" in str(caught.value)
    with pytest.raises(
        NotFoundError, match="no run, no cluster benchmark and no text of nsys stats"
    ):
        side(put_empty(tmp_path))


def put_empty(root: Path) -> Path:
    (root / "empty").mkdir()
    return root / "empty"


def test_welch_by_hand() -> None:
    # variances 1 and 1, three values each: error sqrt(2/3), 4 degrees of freedom
    a, b = Sample((1.0, 2.0, 3.0), "run"), Sample((5.0, 6.0, 7.0), "run")

    assert half_width(a, b) == pytest.approx(2.776 * (2 / 3) ** 0.5)
    assert half_width(a, Sample((5.0,), "run")) == pytest.approx(4.303 * (1 / 3 + 1) ** 0.5)
    assert half_width(Sample((1.0,), "run"), Sample((5.0,), "run")) is None
    assert half_width(Sample((1.0, 1.0), "run"), Sample((1.0, 1.0), "run")) == 0.0
    assert (t95(1), t95(2.9), t95(11), t95(1e9)) == (12.706, 4.303, 2.228, 1.96)


@settings(max_examples=50)
@given(st.lists(st.floats(1, 1000), min_size=1, max_size=60), st.integers(1, 12))
def test_means_of_parts(values: list[float], count: int) -> None:
    parts = parts_of(values, count)

    size = len(values) // count
    held = values[: size * count] if size else values
    assert sum(parts) / len(parts) == pytest.approx(sum(held) / len(held))


def test_a_sample_has_the_mean_and_deviation_of_its_values() -> None:
    sample = Sample((1.0, 2.0, 6.0), "runs")

    assert sample.mean == 3.0
    assert sample.std == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert Sample((5.0,), "runs").std is None
