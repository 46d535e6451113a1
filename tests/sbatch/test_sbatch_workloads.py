"""The seven workloads: what they train, on how many GPUs, and that their files agree."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import pytest
from check_workload import check_memory_of, model_of
from memory import Model, peak_bytes, state_bytes
from msgspec import Struct
from sbatch_scripts import SBATCH
from train_config import read_train_config

from ccltui import cli
from ccltui.parsers.side.workload_card import read_card


class Expected(Struct, frozen=True):
    """One row of the table: degrees, batches, and GiB a GPU of the state and at the peak."""

    model: str
    flavor: str
    shards: int
    tensor: int
    stages: int
    batch: int
    micro_batch: int
    checkpointing: str
    nodes: int
    state_gib: float
    peak_gib: float
    gpu_gib: int


WORKLOADS = {
    "llama3.1-8b-torchtitan-tp": Expected(
        *("llama3", "8B", 1, 4, 1, 2, 1, "selective", 1, 15.0, 25.6, 40)
    ),
    "llama3.1-8b-torchtitan-pp": Expected(
        *("llama3", "8B", 1, 1, 4, 4, 1, "selective", 1, 15.0, 32.5, 40)
    ),
    "deepseek-v2-lite-torchtitan-dp+tp": Expected(
        *("deepseek_v3", "16B", 2, 2, 1, 2, 2, "full", 1, 29.3, 38.5, 80)
    ),
    "deepseek-v2-lite-torchtitan-dp+pp": Expected(
        *("deepseek_v3", "16B", 2, 1, 2, 4, 1, "full", 1, 29.3, 73.0, 80)
    ),
    "qwen3-32b-torchtitan-3d": Expected(
        *("qwen3", "32B", 2, 2, 2, 4, 1, "full", 2, 30.5, 75.1, 80)
    ),
    "qwen3-32b-torchtitan-dp+tp": Expected(
        *("qwen3", "32B", 2, 2, 1, 2, 2, "full", 1, 61.0, 74.5, 80)
    ),
    "qwen3-32b-torchtitan-dp+pp": Expected(
        *("qwen3", "32B", 2, 1, 4, 4, 1, "full", 2, 30.5, 76.0, 80)
    ),
}
EACH = pytest.mark.parametrize(("name", "expected"), WORKLOADS.items(), ids=list(WORKLOADS))


def folder(name: str) -> Path:
    return SBATCH / "workloads" / f"{name}-perlmutter-16"


def directives(name: str) -> dict[str, str]:
    text = (folder(name) / "run.sbatch").read_text()
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.MULTILINE))


def test_there_are_seven() -> None:
    found = {path.name for path in (SBATCH / "workloads").iterdir() if path.is_dir()}

    assert found == {f"{name}-perlmutter-16" for name in WORKLOADS}


@EACH
def test_the_configuration_is_that_of_the_table(name: str, expected: Expected) -> None:
    config = read_train_config(folder(name) / "train_config.toml")

    assert config.text("model.name") == expected.model
    assert config.text("model.flavor") == expected.flavor
    assert config.number("parallelism.data_parallel_replicate_degree") == 1
    assert config.number("parallelism.data_parallel_shard_degree") == expected.shards
    assert config.number("parallelism.tensor_parallel_degree") == expected.tensor
    assert config.number("parallelism.pipeline_parallel_degree") == expected.stages
    micro_batch = config.number("parallelism.pipeline_parallel_microbatch_size")
    assert micro_batch == expected.micro_batch
    assert config.number("training.local_batch_size") == expected.batch


@EACH
def test_what_all_workloads_share(name: str, expected: Expected) -> None:
    document = tomllib.loads((folder(name) / "train_config.toml").read_text())

    assert document["profiling"] == {
        "enable_profiling": True,
        "save_traces_folder": "profile_trace",
        "profile_freq": 20,
        "profiler_warmup": 3,
        "profiler_active": 1,
        "enable_memory_snapshot": False,
    }
    training = document["training"]
    assert (training["steps"], training["seq_len"], training["dataset"]) == (80, 2048, "c4")
    assert (training["dtype"], training["mixed_precision_reduce"]) == ("bfloat16", "float32")
    assert (document["optimizer"]["lr"], document["optimizer"]["eps"]) == (3e-4, 1e-8)
    assert document["activation_checkpoint"]["mode"] == expected.checkpointing
    assert document["parallelism"]["pipeline_parallel_schedule"] == "1F1B"


@EACH
def test_slurm_is_asked_for_as_many_gpus_as_the_degrees_make(name: str, expected: Expected) -> None:
    asked = directives(name)
    config = read_train_config(folder(name) / "train_config.toml")

    assert int(asked["nodes"]) == expected.nodes
    assert config.ranks() == expected.nodes * int(asked["gpus-per-node"])
    assert asked["ntasks-per-node"] == "1"
    assert asked["job-name"] == name


@EACH
def test_the_card_says_what_the_configuration_says(
    name: str, expected: Expected, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(name) / "workload_card.yaml"
    config = folder(name) / "train_config.toml"

    status = cli.run(["card", "lint", str(path), "--config", str(config)])

    assert status == 0, capsys.readouterr()
    card = read_card(path)
    assert card.batch_size == expected.batch * expected.shards
    assert card.total_count == expected.shards * expected.tensor * expected.stages


@EACH
def test_memory_a_gpu_at_the_least(name: str, expected: Expected) -> None:
    config = read_train_config(folder(name) / "train_config.toml")
    num_params = read_card(folder(name) / "workload_card.yaml").num_params

    assert num_params is not None
    found = state_bytes(config, int(num_params), world_size=config.ranks() or 0)
    assert found is not None
    assert round(found / 2**30, 1) == expected.state_gib


@EACH
def test_a_workload_fits_the_gpus_that_its_card_names(name: str, expected: Expected) -> None:
    config = read_train_config(folder(name) / "train_config.toml")
    card = folder(name) / "workload_card.yaml"
    options = {"device": "cuda", "card": card, "gpu_memory_gib": 40.0, "large_gpu_memory_gib": 80.0}
    options["larger_nodes"] = ""

    memory = check_memory_of(config, argparse.Namespace(**options), config.ranks() or 0)

    model = model_of(card)
    assert isinstance(model, Model)
    peak = peak_bytes(config, model, config.ranks() or 0) or 0
    assert round(peak / 2**30, 1) == expected.peak_gib
    assert [problem.level for problem in memory.problems] == ["note"] * memory.large
    assert memory.large == (expected.gpu_gib == 80)
    assert (read_card(card).gpu_model or "").endswith(f"{expected.gpu_gib}gb")


@EACH
def test_a_folder_holds_nothing_but_what_differs(name: str, expected: Expected) -> None:
    first = folder("llama3.1-8b-torchtitan-tp")
    batch = (folder(name) / "run.sbatch").read_text()
    header, _, body = batch.partition("set -euo pipefail")
    first_body = (first / "run.sbatch").read_text().partition("set -euo pipefail")[2]

    assert {path.name for path in folder(name).iterdir()} == {
        *("run.sh", "run.sbatch", "train_config.toml", "workload_card.yaml", "pyproject.toml"),
    }
    assert (folder(name) / "run.sh").read_bytes() == (first / "run.sh").read_bytes()
    assert body.replace(name, "NAME") == first_body.replace("llama3.1-8b-torchtitan-tp", "NAME")
    assert len(directives(name)) == header.count("#SBATCH") == 10
    large = "gpu&hbm80g" if expected.gpu_gib == 80 else "gpu"
    assert (directives(name)["constraint"], directives(name)["qos"]) == (large, "regular")


def test_the_script_of_the_guide_asks_for_what_its_workload_asks_for() -> None:
    guide = SBATCH / "perlmutter" / "run_llama3_8b_tp.sbatch"
    workload = folder("llama3.1-8b-torchtitan-tp") / "run.sbatch"

    asked = [re.findall(r"^#SBATCH .*$", path.read_text(), re.M) for path in (guide, workload)]

    assert asked[0] == asked[1]


@EACH
def test_its_python_needs_the_torchtitan_that_setup_installs(name: str, expected: Expected) -> None:
    project = tomllib.loads((folder(name) / "pyproject.toml").read_text())["project"]
    setup = (SBATCH / "setup_env.sh").read_text()

    (pinned,) = [word for word in project["dependencies"] if word.startswith("torchtitan")]
    assert pinned == "torchtitan==0.2.2"
    assert "TORCHTITAN_VERSION=${TORCHTITAN_VERSION:-0.2.2}" in setup
    lock = (SBATCH / "workloads" / f"{pinned.replace('==', '-')}.lock").read_text().splitlines()
    assert pinned in lock
    assert not [line for line in lock if line.startswith(("torch==", "nvidia", "triton"))]
    assert all(line.startswith("#") or line.count("==") == 1 for line in lock)


def test_all_of_them_are_one_workspace() -> None:
    workloads = SBATCH / "workloads"
    workspace = tomllib.loads((workloads / "pyproject.toml").read_text())
    setup = (SBATCH / "setup_env.sh").read_text()

    (pattern,) = workspace["tool"]["uv"]["workspace"]["members"]
    assert {path.name for path in workloads.glob(pattern)} == {
        f"{name}-perlmutter-16" for name in WORKLOADS
    }
    names = {
        tomllib.loads((folder(name) / "pyproject.toml").read_text())["project"]["name"]
        for name in WORKLOADS
    }
    assert len(names) == 7
    backend = workspace["tool"]["uv"]["pip"]["torch-backend"]
    assert f"TORCH_BACKEND=${{TORCH_BACKEND:-{backend}}}" in setup
