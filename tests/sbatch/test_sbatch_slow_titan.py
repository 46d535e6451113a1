"""torchtitan 0.2.2 itself: it reads the seven configurations, and trains through the scripts.

Slow, and torchtitan is large: ``make titan-tests`` installs it into an environment of its own and
runs these. Each workload is trained with its own configuration and degrees on CPUs; the model has
the shape of the flavor, with fewer and narrower layers.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from sbatch_scripts import SBATCH, environment_with
from train_config import read_train_config

TESTS = Path(__file__).parent
WORKLOADS = SBATCH / "workloads"
LIMIT_S = 900
SMALL = (
    *("--training.seq_len", "64", "--training.steps", "6"),
    *("--profiling.profile_freq", "5", "--profiling.profiler_warmup", "1"),
    *("--optimizer.implementation", "for-loop", "--lr_scheduler.warmup_steps", "2"),
    *("--training.dataset", "c4_test"),
)

# Each program has a limit of its own, which is longer than that of other tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


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
        "deepseek-v2-lite-dp+tp-perlmutter-16": [1, 2, 2, 1],
        "deepseek-v2-lite-dp+pp-perlmutter-16": [1, 2, 1, 2],
        "qwen3-32b-3d-perlmutter-16": [1, 2, 2, 2],
        "qwen3-32b-dp+tp-perlmutter-16": [1, 2, 2, 1],
        "qwen3-32b-dp+pp-perlmutter-16": [1, 2, 1, 4],
    }
    assert all(fact["pipelines"] for fact in found.values() if fact["degrees"][3] > 1)
    assert all(fact["known_flavor"] and fact["profiling"] for fact in found.values())
    assert {fact["folder"] for fact in found.values()} == {"profile_trace"}


class Trained(Struct, frozen=True):
    """A run, and what its scripts said."""

    traces: Path
    talk: str

    def trace(self, name: str) -> Any:
        return json.loads((self.traces / name).read_text())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def train(titan: Path, folder: Path, workload: str) -> Trained:
    assets = folder / "assets"
    python(titan, TESTS / "titan_assets.py", assets)
    path = WORKLOADS / f"{workload}-perlmutter-16"
    ranks = read_train_config(path / "train_config.toml").ranks()
    # The training environment trains; what is read afterwards is read by this one.
    script = (
        'case "$*" in\n'
        '*"-m ccltui "* | *"import ccltui"* | */look_into_traces.py* | */check_workload.py*)\n'
        f'exec {shlex.quote(sys.executable)} "$@" ;;\nesac\n'
        f'exec {shlex.quote(str(titan))}/bin/python "$@"'
    )
    environment = environment_with(folder / "venv", before=script)
    done = subprocess.run(
        [
            *(path / "run.sh", "--local", "--gpus-per-node", str(ranks)),
            *("--train-program", TESTS / "titan_on_cpu.py", "--output", folder / "traces", "--"),
            *SMALL,
            *("--training.dataset_path", assets / "corpus"),
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
            "MASTER_PORT": str(free_port()),
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


SEED_METRICS = (
    *("coll_call_num", "throughput_tokens", "iter_time", "comm_comp_overlap", "pipeline_bubble"),
    *("traffic_distribution", "straggler_lag"),
)


def results(run: Trained) -> dict[str, Any]:
    """All metrics of a run."""
    done = subprocess.run(
        [sys.executable, "-m", "ccltui", run.traces, "--metric", "all", "--format", "json"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
    )
    return {result["metric"]: result for result in json.loads(done.stdout)["results"]}


MESHES = {
    "llama3.1-8b-torchtitan-tp": {"tp": 4},
    "llama3.1-8b-torchtitan-pp": {"pp": 4},
    "deepseek-v2-lite-torchtitan-dp+tp": {"fsdp": 2, "tp": 2},
    "deepseek-v2-lite-torchtitan-dp+pp": {"fsdp": 2, "pp": 2},
    "qwen3-32b-torchtitan-3d": {"fsdp": 2, "tp": 2, "pp": 2},
    "qwen3-32b-torchtitan-dp+tp": {"fsdp": 2, "tp": 2},
    "qwen3-32b-torchtitan-dp+pp": {"fsdp": 2, "pp": 4},
}


@pytest.mark.parametrize("workload", MESHES)
def test_a_workload_trains_with_its_degrees(titan: Path, tmp_path: Path, workload: str) -> None:
    run = train(titan, tmp_path, workload)

    ranks = prod(MESHES[workload].values())
    for rank in range(ranks):
        kineto = run.trace(f"kineto_trace_{rank}.json")
        traced = operators(kineto)
        observed = nodes(run.trace(f"torch_et_{rank}.json"))
        assert kineto["distributedInfo"]["backend"] == "gloo"
        assert len(traced) > 1000
        assert {ident: observed.get(ident) for ident in traced} == traced
    groups = run.trace("kineto_trace_0.json")["distributedInfo"]["pg_config"]
    sizes = {(group["pg_desc"].removeprefix("mesh_"), group["pg_size"]) for group in groups}
    for dimension in MESHES[workload].items():
        # A dimension of all ranks may be the group that torch makes first.
        assert dimension in sizes or ("default_pg", dimension[1]) in sizes
    assert f"ranks: ok, all {ranks} ranks" in run.talk
    assert "all that profile mode torch promises is there" in run.talk
    found = results(run)
    assert found["iter_time"]["status"] == "ok"
    assert found["coll_call_num"]["value"] > 0
    assert found["throughput_tokens"]["value"] > 0
    assert found["gpu_busy"]["status"] == "unavailable"
    for name in SEED_METRICS:  # without GPU events some have no value, but then a reason
        assert found[name]["value"] is not None or found[name]["reason"]
