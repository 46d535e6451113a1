"""Contradictions between card and configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.card.check_and_draft import (
    check_config,
    degrees_of,
    global_batch_of,
    micro_batches_of,
)
from ccltui.parsers.runs.run_records import ConfigError, TrainConfig
from ccltui.parsers.side.workload_card import Card, read_card

SEED = {  # the qwen3-32b job on two nodes
    "model.name": "qwen3",
    "model.flavor": "32B",
    "training.local_batch_size": 4,
    "training.global_batch_size": -1,
    "training.seq_len": 2048,
    "training.steps": 80,
    "training.dataset": "c4",
    "training.mixed_precision_param": "bfloat16",
    "parallelism.data_parallel_replicate_degree": 2,
    "parallelism.data_parallel_shard_degree": 1,
    "parallelism.tensor_parallel_degree": 2,
    "parallelism.pipeline_parallel_degree": 2,
    "parallelism.pipeline_parallel_microbatch_size": 1,
}
AGREEING = {
    "model_family: Qwen3-32B": "model",
    "precision: bf16": "model",
    "iteration: 80": "model",
    "batch_size: 8": "data",
    "batch_size_scope: global": "data",
    "seq_len: 2048": "data",
    "dataset: C4": "data",
    "dp_replicate: 2": "plan",
    "dp_shard: 1": "plan",
    "tp: 2": "plan",
    "pp: 2": "plan",
    "pp_mb: 4": "plan",
}


def config(**changes: object) -> TrainConfig:
    """The seed's configuration; double underscores stand for the point, None removes a key."""
    merged: dict[str, object] = {
        **SEED,
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    values = {key: value for key, value in merged.items() if value is not None}
    return TrainConfig("train_config.toml", values)  # type: ignore[arg-type]


def card(tmp_path: Path, *changes: str) -> Card:
    """The card that agrees, with lines replaced by others of the same key."""
    replaced = {line.split(":")[0]: line for line in changes}
    lines = {replaced.get(line.split(":")[0], line): section for line, section in AGREEING.items()}
    sections = {
        name: "{" + ", ".join(line for line, owner in lines.items() if owner == name) + "}"
        for name in ("model", "data", "plan")
    }
    path = tmp_path / "workload_card.yaml"
    path.write_text(
        f"workload:\n  model: {sections['model']}\n  data: {sections['data']}\n"
        f"Model-executor:\n  model_plan_parallelization: {sections['plan']}\n"
        "metric_source: {traces: [kineto_trace]}\n"
    )
    return read_card(path)


def test_the_card_of_the_seed_agrees(tmp_path: Path) -> None:
    assert check_config(card(tmp_path), config()) == ()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "tp: 4",
            "the card states 4 (model_executor.model_plan_parallelization.tp), "
            "the configuration makes it 2",
        ),
        (
            "iteration: 100",
            "the card states 100 (workload.model.iteration), the configuration makes it 80",
        ),
        (
            "batch_size: 4",
            "the card states 4 (workload.data.batch_size), the configuration makes it 8",
        ),
        (
            "pp_mb: 1",
            "the card states 1 (model_executor.model_plan_parallelization.pp_mb), "
            "the configuration makes it 4",
        ),
        (
            "dataset: wikitext",
            "the card states wikitext (workload.data.dataset), the configuration trains on c4",
        ),
        (
            "precision: fp32",
            "the card states fp32 (workload.model.precision), the configuration computes in bf16",
        ),
        (
            "model_family: llama-3.1-8b",
            "the card states llama-3.1-8b (workload.model.model_family), "
            "the configuration trains qwen3",
        ),
    ],
)
def test_one_contradiction(tmp_path: Path, line: str, sentence: str) -> None:
    assert check_config(card(tmp_path, line), config()) == (sentence,)


def test_a_batch_without_scope_is_that_of_a_rank(tmp_path: Path) -> None:
    silent = card(tmp_path, "batch_size: 4", "batch_size_scope: null")

    assert check_config(silent, config()) == ()


def test_what_the_configuration_does_not_state_contradicts_nothing(tmp_path: Path) -> None:
    silent = config(
        training__seq_len=None, training__steps=None, training__dataset=None, model__name=None
    )
    other = card(tmp_path, "seq_len: 1", "iteration: 1", "dataset: other", "model_family: other")

    assert check_config(other, silent) == ()


def test_a_degree_that_is_not_set_is_one(tmp_path: Path) -> None:
    sentences = check_config(card(tmp_path), config(parallelism__tensor_parallel_degree=None))

    assert sentences == (
        "the card states 2 (model_executor.model_plan_parallelization.tp), "
        "the configuration makes it 1",
    )


def test_an_open_degree_of_sharding_is_the_rest_of_the_world() -> None:
    shards = config(
        parallelism__data_parallel_shard_degree=-1, parallelism__data_parallel_replicate_degree=1
    )

    assert degrees_of(shards, 32)["dp_shard"] == 8
    assert degrees_of(shards, None)["dp_shard"] is None
    assert degrees_of(shards, 30)["dp_shard"] is None
    assert global_batch_of(shards, 32) == 32
    assert global_batch_of(shards, None) is None
    assert global_batch_of(config(training__global_batch_size=64), None) == 64


def test_micro_batches_need_a_pipeline() -> None:
    assert micro_batches_of(config()) == 4
    assert micro_batches_of(config(parallelism__pipeline_parallel_degree=1)) is None
    assert micro_batches_of(config(training__local_batch_size=None)) is None


def test_a_value_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training.steps is 'many', not a whole number"):
        check_config(card(tmp_path), config(training__steps="many"))
