"""Find contradictions between the workload card and the configuration of the job.

Neither has precedence: one of the two describes another job. A key that the configuration does not
state contradicts nothing, except parallel degrees: a program without a stated degree uses 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from ccltui.parsers.card.card_values import Card
from ccltui.parsers.names import printable
from ccltui.parsers.runs.run_records import TrainConfig

SHARD: Final = "parallelism.data_parallel_shard_degree"
DEGREES: Final[Mapping[str, str]] = {
    "dp_replicate": "parallelism.data_parallel_replicate_degree",
    "dp_shard": SHARD,
    "tp": "parallelism.tensor_parallel_degree",
    "pp": "parallelism.pipeline_parallel_degree",
    "cp": "parallelism.context_parallel_degree",
    "ep": "parallelism.expert_parallel_degree",
}
"""Key of the configuration by field of the card; ``ep`` lies across the other five degrees."""

LOCAL_BATCH: Final = "training.local_batch_size"
GLOBAL_BATCH: Final = "training.global_batch_size"
MICRO_BATCH: Final = "parallelism.pipeline_parallel_microbatch_size"
_EQUAL_FIELDS: Final[Mapping[str, str]] = {
    "iteration": "training.steps",
    "seq_len": "training.seq_len",
}
_PRECISIONS: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}


def check_config(card: Card, config: TrainConfig, world_size: int | None = None) -> tuple[str, ...]:
    """Return a sentence for each contradiction, in a fixed order.

    Args:
        card: the workload card.
        config: the configuration.
        world_size: number of ranks, the card's device count if None; determines the degree of
            sharding where the configuration leaves it open.

    Raises:
        ConfigError: a value has the wrong type.
    """
    world_size = world_size or card.total_count
    expected = {
        **degrees_of(config, world_size),
        **{field: config.count(key) for field, key in _EQUAL_FIELDS.items()},
        "batch_size": _batch_size(card, config, world_size),
        "pp_microbatches": micro_batches_of(config),
    }
    found = [sentence for name in expected for sentence in _count(card, name, expected[name])]
    return (*found, *_dataset(card, config), *_precision(card, config), *_model(card, config))


def degrees_of(config: TrainConfig, world_size: int | None) -> dict[str, int | None]:
    """Return parallel degrees by field of the card; open sharding follows from ``world_size``."""
    found: dict[str, int | None] = {}
    for field, key in DEGREES.items():
        stated = config.integer(key)
        found[field] = None if key == SHARD and (stated or 0) < 1 else (stated or 1)
    if found["dp_shard"] is None and world_size is not None:
        others = prod(found[name] or 1 for name in ("dp_replicate", "tp", "pp", "cp"))
        found["dp_shard"] = None if world_size % others else world_size // others
    return found


def global_batch_of(config: TrainConfig, world_size: int | None) -> int | None:
    """Return sequences per step of the job, as stated or of a rank times data parallelism."""
    stated, local = config.count(GLOBAL_BATCH), config.count(LOCAL_BATCH)
    degrees = degrees_of(config, world_size)
    replicas, shards = degrees["dp_replicate"], degrees["dp_shard"]
    if stated is not None or local is None or replicas is None or shards is None:
        return stated
    return local * replicas * shards


def micro_batches_of(config: TrainConfig) -> int | None:
    """Return micro-batches per pipeline step; None without a pipeline or without stated sizes."""
    local, micro = config.count(LOCAL_BATCH), config.count(MICRO_BATCH)
    if local is None or micro is None or (config.integer(DEGREES["pp"]) or 1) < 2:
        return None
    return local // micro


def precision_of(config: TrainConfig) -> str | None:
    """Return the precision of the computation in the short form of cards, such as bf16."""
    stated = config.text("training.mixed_precision_param") or config.text("training.dtype")
    return None if stated is None else _short(stated)


def _batch_size(card: Card, config: TrainConfig, world_size: int | None) -> int | None:
    if card.batch_size_scope == "global":
        return global_batch_of(config, world_size)
    # The batch size of a card without a scope is that of a rank.
    return config.count(LOCAL_BATCH) if card.batch_size_scope is None else None


def _count(card: Card, field: str, expected: int | None) -> Iterator[str]:
    stated = card.count(field)
    if stated is not None and expected is not None and stated != expected:
        yield f"{_statement(card, field, stated)}, the configuration makes it {expected}"


def _dataset(card: Card, config: TrainConfig) -> Iterator[str]:
    stated, expected = card.dataset, config.text("training.dataset")
    if stated and expected and _plain(stated) != _plain(expected):
        says = _statement(card, "dataset", stated)
        yield f"{says}, the configuration trains on {printable(expected)}"


def _precision(card: Card, config: TrainConfig) -> Iterator[str]:
    expected = precision_of(config)
    known = {*_PRECISIONS.values(), *_PRECISIONS}
    if card.precision is None or expected is None or card.precision.lower() not in known:
        return
    if _short(card.precision) != expected:
        says = _statement(card, "precision", card.precision)
        yield f"{says}, the configuration computes in {printable(expected)}"


def _model(card: Card, config: TrainConfig) -> Iterator[str]:
    """Compare families: the card contains the first word of the model (llama3, Llama-3.1-8B)."""
    name = config.text("model.name")
    words = re.findall(r"[a-z]+", (name or "").lower())
    if card.model_family and words and words[0] not in card.model_family.lower():
        says = _statement(card, "model_family", card.model_family)
        yield f"{says}, the configuration trains {printable(name or '')}"


def _statement(card: Card, field: str, value: object) -> str:
    return f"the card states {printable(str(value))} ({card.provenance(field)})"


def _short(precision: str) -> str:
    return _PRECISIONS.get(precision.lower(), precision.lower())


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
