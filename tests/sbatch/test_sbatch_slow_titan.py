"""torchtitan 0.2.2 itself: it reads the seven configurations, and trains through the scripts.

Slow, and torchtitan is large: ``make titan-tests`` installs it into an environment of its own and
runs these. The model is torchtitan's debug model on the CPU; nothing else differs from a GPU job.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sbatch_scripts import SBATCH, environment_with

TESTS = Path(__file__).parent
WORKLOAD = SBATCH / "workloads" / "llama3.1-8b-torchtitan-tp-perlmutter-16"
LIMIT_S = 900
SMALL = (
    *("--model.flavor", "debugmodel", "--training.seq_len", "64", "--training.steps", "6"),
    *("--profiling.profile_freq", "5", "--profiling.profiler_warmup", "1"),
    *("--optimizer.implementation", "for-loop", "--lr_scheduler.warmup_steps", "2"),
    *("--training.dataset", "c4_test"),
)

pytestmark = pytest.mark.slow


def python(titan: Path, *words: str | Path) -> str:
    done = subprocess.run(
        [titan / "bin" / "python", *map(str, words)],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_its_own_parser_accepts_all_seven(titan: Path) -> None:
    paths = sorted((SBATCH / "workloads").glob("*/train_config.toml"))

    printed = python(titan, TESTS / "titan_parse.py", *paths)

    found = {
        path.parent.name.split("-torchtitan-")[0] + path.parent.name.split("-torchtitan")[1]: fact
        for path, fact in zip(paths, map(json.loads, printed.splitlines()), strict=True)
    }
    assert {name: fact["degrees"] for name, fact in found.items()} == {
        "llama3.1-8b-tp-perlmutter-16": [1, 1, 4, 1],
        "llama3.1-8b-pp-perlmutter-16": [1, 1, 1, 4],
        "deepseek-v2-lite-dp+tp-perlmutter-16": [2, 1, 2, 1],
        "deepseek-v2-lite-dp+pp-perlmutter-16": [2, 1, 1, 2],
        "qwen3-32b-3d-perlmutter-16": [2, 1, 2, 2],
        "qwen3-32b-dp+tp-perlmutter-16": [2, 1, 2, 1],
        "qwen3-32b-dp+pp-perlmutter-16": [2, 1, 1, 2],
    }
    assert {fact["model"]: fact["pipelines"] for fact in found.values()} == {
        "llama3": True,
        "deepseek_v3": True,
        "qwen3": False,
    }
    assert all(fact["known_flavor"] and fact["profiling"] for fact in found.values())
    assert {fact["folder"] for fact in found.values()} == {"profile_trace"}


@dataclass(frozen=True, slots=True)
class Trained:
    """A run, and what its scripts said."""

    traces: Path
    talk: str

    def trace(self, name: str) -> Any:
        return json.loads((self.traces / name).read_text())


def train(titan: Path, folder: Path, ranks: int, *words: str) -> Trained:
    assets = folder / "assets"
    python(titan, TESTS / "titan_assets.py", assets)
    # The training environment trains; what is read afterwards is read by this one.
    script = (
        'case "$*" in\n'
        '*"-m ccltui "* | *"import ccltui"* | */look_into_traces.py* | */check_workload.py*)\n'
        f'exec {sys.executable} "$@" ;;\nesac\n'
        f'exec {titan}/bin/python "$@"'
    )
    environment = environment_with(folder / "venv", before=script)
    done = subprocess.run(
        [
            *(WORKLOAD / "run.sh", "--local", "--gpus-per-node", str(ranks)),
            *("--train-program", TESTS / "titan_on_cpu.py", "--output", folder / "traces", "--"),
            *SMALL,
            *("--training.dataset_path", assets / "corpus"),
            *words,
        ],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        env={
            **{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "SITE_DEVICE": "cpu"},
            **{"SITE_SCRATCH": str(folder), "VENV_DIR": str(environment)},
            **{"CCLTUI_ASSETS": str(assets / "tokenizer"), "CCLTUI_SITE": "generic"},
            **{"HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        },
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return Trained(folder / "traces", done.stderr)


def operators(kineto: Any) -> dict[int, str]:
    return {
        event["args"]["Record function id"]: event["name"]
        for event in kineto["traceEvents"]
        if event.get("ph") == "X" and "Record function id" in event.get("args", {})
    }


def nodes(execution: Any) -> dict[int, str]:
    return {
        attribute["value"]: node["name"]
        for node in execution["nodes"]
        for attribute in node["attrs"]
        if attribute["name"] == "rf_id"
    }


def metric(run: Trained, name: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "ccltui", run.traces, "--metric", name, "--format", "json"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
    )
    return json.loads(done.stdout)["results"][0]


def test_two_ranks_tensor_parallel_train(titan: Path, tmp_path: Path) -> None:
    run = train(titan, tmp_path, 2, "--parallelism.tensor_parallel_degree", "2")

    for rank in range(2):
        kineto = run.trace(f"kineto_trace_{rank}.json")
        traced = operators(kineto)
        observed = nodes(run.trace(f"torch_et_{rank}.json"))
        assert kineto["distributedInfo"]["backend"] == "gloo"
        assert len(traced) > 1000
        assert {ident: observed.get(ident) for ident in traced} == traced
    assert "GPU events: warning, CPU-only trace: ranks 0 and 1" in run.talk
    assert "all that profile mode torch promises is there" in run.talk
    assert metric(run, "iter_time")["status"] == "ok"
    assert metric(run, "gpu_busy")["status"] == "unavailable"


def test_eight_ranks_in_three_dimensions_train(titan: Path, tmp_path: Path) -> None:
    run = train(
        *(titan, tmp_path, 8, "--parallelism.tensor_parallel_degree", "2"),
        *("--parallelism.pipeline_parallel_degree", "2", "--training.local_batch_size", "4"),
        *("--parallelism.data_parallel_shard_degree", "2"),
    )

    groups = run.trace("kineto_trace_0.json")["distributedInfo"]["pg_config"]
    sizes = {group["pg_desc"]: group["pg_size"] for group in groups}
    assert {rank for rank in range(8) if (run.traces / f"torch_et_{rank}.json").exists()} == {
        *range(8)
    }
    dimensions = {name: sizes[f"mesh_{name}"] for name in ("tp", "pp", "fsdp")}
    assert dimensions == {"tp": 2, "pp": 2, "fsdp": 2}
    assert "ranks: ok, all 8 ranks" in run.talk
