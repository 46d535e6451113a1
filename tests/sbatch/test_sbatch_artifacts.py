"""The example artifacts of our own runs on CPUs: complete, small, and read without a doubt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ccltui.metrics.compare.compare_profiles import compare_sides, side
from ccltui.metrics.compare.compare_runs import Comparison
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SBATCH = Path(__file__).resolve().parents[2] / "sbatch"
RUNS = SBATCH / "gpt2_deepspeed" / "artifacts" / "cpu_2ranks"
FSDP = SBATCH / "fsdp_benchmark" / "artifacts" / "cpu_2ranks"
FILES = [path for folder in (RUNS, FSDP) for path in sorted(folder.rglob("*")) if path.is_file()]


def measure(path: Path, name: str) -> Result:
    return find(name).run(View(open_job(path)))


@pytest.mark.parametrize("run", ["accum1", "accum2"])
def test_a_run_is_complete_and_its_throughput_is_as_stated(run: str) -> None:
    stated = json.loads((RUNS / run / "training_metrics.json").read_text())

    complete, rate = measure(RUNS / run, "run_completeness"), measure(RUNS / run, "run_throughput")

    assert (complete.status, complete.value) == ("ok", 0)
    assert (rate.status, rate.value) == ("ok", stated["summary"]["mean_tokens_per_sec_global"])
    assert "checkpoint_path" not in (RUNS / run / "RUN_COMPLETE.txt").read_text()


def test_different_accumulation_is_not_comparable() -> None:
    found = compare_sides(side(RUNS / "accum1"), side(RUNS / "accum2"), runs_vary_pct=5.0)

    assert isinstance(found, Comparison)
    assert found.verdict == "not comparable"
    assert "grad_accum 1 against 2" in found.why


def test_our_own_benchmark_of_cpus_is_not_called_impossible() -> None:
    result = measure(FSDP, "cluster_plausibility")

    assert (result.status, result.value) == ("ok", 0)


def test_a_complete_fsdp_run_has_a_throughput() -> None:
    rate, complete = measure(FSDP, "run_throughput"), measure(FSDP, "run_completeness")

    assert rate.status == "ok"
    assert rate.details["world_size"] == 2
    assert rate.value == 2 * rate.details["tokens_per_s_per_gpu"] > 0
    assert (complete.status, complete.value) == ("ok", 0)


def test_they_are_small_and_name_no_path_of_a_machine() -> None:
    assert sum(path.stat().st_size for path in FILES) < 100_000
    for path in FILES:
        assert not re.search(r"/(?:tmp|home|root|work|users)/", path.read_text(), re.IGNORECASE)
