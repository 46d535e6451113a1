"""``training_metrics.json``: configuration and results of a run, epoch by epoch.

One function a generation of the file; a generation that is not known is read as the newest
that is, and a note says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ccltui.parsers.array_types import F64
from ccltui.parsers.columns import Note
from ccltui.parsers.text.json_fields import Fields, read_object

Generation = Literal["2.0", "arrays", "losses", "bare"]
"""2.0; arrays a value an epoch, before it; losses a value a step; or none of these."""

REQUIRED: Final = (
    "schema_version",
    "run_id",
    "timestamp_utc",
    "git_commit",
    "command_line",
    "env",
    "hardware",
    "training_config",
    "deepspeed_config",
    "epochs",
    "summary",
)
"""Top-level keys without which a file of generation 2.0 is not valid."""

_MAX_STEPS: Final = re.compile(r"--max[_-](?:train[_-])?steps[= ]+(\d{1,12})\b")


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch; None where the file does not say. Times are seconds, memory bytes of rank 0.

    ``step_*`` are of ``step_samples`` micro-steps, chosen as ``step_sampling`` states;
    both may be unstated.
    """

    index: int
    wall_s: float | None = None
    micro_steps: int | None = None
    optimizer_steps: int | None = None
    tokens: int | None = None
    tokens_per_s: float | None = None
    train_loss: float | None = None
    val_loss: float | None = None
    step_mean_s: float | None = None
    step_p50_s: float | None = None
    step_p95_s: float | None = None
    step_samples: int | None = None
    step_sampling: str = ""
    dataload_mean_s: float | None = None
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values by which runs are compared; "" and None where a file does not say."""

    world_size: int | None = None
    gpu_name: str = ""
    seq_len: int | None = None
    micro_batch: int | None = None
    grad_accum: int | None = None
    global_batch: int | None = None
    max_steps: int | None = None
    precision: str = ""
    optimizer: str = ""
    zero_stage: int | None = None
    deepspeed: bool | None = None
    model_name: str = ""
    model_size: str = ""
    dataset: str = ""
    dataset_sizes: Mapping[str, str] = field(default_factory=dict)
    git_commit: str = ""
    config_sha256: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingMetrics:
    """The file. ``missing`` are required keys that are absent; ``losses`` one a step, float64."""

    generation: Generation
    schema: str
    configuration: Configuration
    epochs: tuple[Epoch, ...] = ()
    losses: F64 | None = None
    total_wall_s: float | None = None
    mean_tokens_per_s: float | None = None
    run_id: str = ""
    timestamp_utc: str = ""
    hostname: str = ""
    job_id: str = ""
    nodes: str = ""
    command_line: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def read_training_metrics(path: Path, *, shown: str) -> TrainingMetrics:
    """The file in any of its generations. Raises TraceError where it is no JSON object."""
    return training_metrics_of(read_object(path, shown_path=shown))


def training_metrics_of(document: Mapping[str, Any]) -> TrainingMetrics:
    """Return the metrics of a document that is read already."""
    fields = Fields(document)
    schema = fields.text("schema_version")
    if (not schema and "train_time_per_epoch" in document) or "train_throughput" in document:
        return _arrays(fields)
    if not schema and "epochs" not in document:
        return _losses(fields)
    return _epochs(fields, schema)


def _epochs(fields: Fields, schema: str) -> TrainingMetrics:
    if schema.partition(".")[0] not in ("2", ""):
        fields.note(f"schema {schema[:20]} is not known: read like 2.0")
    rows = fields.raw("epochs")
    if rows is not None and not isinstance(rows, list):
        fields.note("epochs is not a list")
        rows = None
    found = [_epoch(fields, row, number) for number, row in enumerate(rows or [], 1)]
    return TrainingMetrics(
        generation="2.0",
        schema=schema,
        configuration=_configuration(fields),
        epochs=tuple(epoch for epoch in found if epoch is not None),
        total_wall_s=fields.number("summary.total_wall_time_sec"),
        mean_tokens_per_s=fields.number("summary.mean_tokens_per_sec_global"),
        run_id=fields.text("run_id"),
        timestamp_utc=fields.text("timestamp_utc"),
        hostname=fields.text("host.hostname"),
        job_id=fields.text("scheduler.job_id"),
        nodes=fields.text("scheduler.nodelist"),
        command_line=fields.text("command_line"),
        missing=tuple(key for key in REQUIRED if key not in fields.document),
        notes=tuple(fields.notes),
    )


def _epoch(fields: Fields, row: Any, number: int) -> Epoch | None:
    if not isinstance(row, Mapping):
        fields.note(f"epoch {number} is not an object")
        return None
    one = Fields(row, f"epoch {number}: ")
    micro_steps = one.count("micro_steps")
    epoch = Epoch(
        index=one.count("epoch_idx") or number,
        wall_s=one.number("epoch_wall_time_sec"),
        micro_steps=one.count("steps") if micro_steps is None else micro_steps,
        optimizer_steps=one.count("optimizer_steps"),
        tokens=one.count("tokens_processed_global"),
        tokens_per_s=one.number("tokens_per_sec_global"),
        train_loss=one.number("train_loss_avg_global"),
        val_loss=one.number("val_loss_avg_global") or None,  # 0.0: nothing was validated
        step_mean_s=one.number("step_time_mean_sec"),
        step_p50_s=one.number("step_time_p50_sec"),
        step_p95_s=one.number("step_time_p95_sec"),
        step_samples=one.count("step_time_num_samples"),
        step_sampling=one.text("step_time_sampling"),
        dataload_mean_s=one.number("dataload_time_mean_sec"),
        memory_allocated_bytes=_either(one, "max_cuda_mem_allocated_bytes"),
        memory_reserved_bytes=_either(one, "max_cuda_mem_reserved_bytes"),
    )
    fields.notes += one.notes
    return epoch


def _either(fields: Fields, name: str) -> int | None:
    """Of all ranks where it is stated, else of rank 0."""
    everywhere = fields.count(f"{name}_global")
    return fields.count(f"{name}_rank0") if everywhere is None else everywhere


def _configuration(fields: Fields) -> Configuration:
    world_size = fields.count("hardware.world_size")
    steps = _MAX_STEPS.search(fields.text("command_line"))
    return Configuration(
        world_size=fields.count("world_size") if world_size is None else world_size,
        gpu_name=fields.text("hardware.gpu_name"),
        seq_len=fields.count("training_config.seq_len"),
        micro_batch=fields.count("training_config.micro_batch_size_per_gpu"),
        grad_accum=fields.count("training_config.grad_accum_steps"),
        global_batch=fields.count("training_config.global_batch_size"),
        max_steps=None if steps is None else int(steps[1]),
        precision=fields.text("training_config.precision"),
        optimizer=fields.text("training_config.optimizer"),
        zero_stage=fields.count("training_config.zero_stage"),
        deepspeed=fields.flag("training_config.deepspeed_enabled"),
        model_name=fields.text("training_config.model_name"),
        model_size=fields.text("training_config.model_size"),
        dataset=fields.text("training_config.dataset_name"),
        dataset_sizes=fields.texts("training_config.dataset_subset_sizes"),
        git_commit=fields.text("git_commit"),
        config_sha256=fields.text("deepspeed_config.sha256"),
        versions=fields.texts("env"),
    )


_ARRAYS: Final = {
    "wall_s": "train_time_per_epoch",
    "train_loss": "train_loss_per_epoch",
    "val_loss": "val_loss_per_epoch",
    "tokens_per_s": "train_throughput",
}


def _arrays(fields: Fields) -> TrainingMetrics:
    """Before 2.0: parallel arrays, one value an epoch."""
    columns = {name: fields.numbers(key) or [] for name, key in _ARRAYS.items()}
    lengths = {_ARRAYS[name]: len(values) for name, values in columns.items() if values}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        fields.note(f"the arrays differ in length ({told}): short ones end early")
    count = max(lengths.values(), default=0)
    epochs = tuple(
        Epoch(index=row + 1, **{name: _at(values, row) for name, values in columns.items()})
        for row in range(count)
    )
    walls = [epoch.wall_s for epoch in epochs if epoch.wall_s is not None]
    return TrainingMetrics(
        generation="arrays",
        schema="",
        configuration=Configuration(),
        epochs=epochs,
        total_wall_s=math.fsum(walls) if len(walls) == count and count else None,
        notes=tuple(fields.notes),
    )


def _at(values: list[float], row: int) -> Any:
    return values[row] if row < len(values) and math.isfinite(values[row]) else None


def _losses(fields: Fields) -> TrainingMetrics:
    """A bare list of losses, one a step, as small test jobs write it."""
    losses = fields.numbers("losses")
    return TrainingMetrics(
        generation="bare" if losses is None else "losses",
        schema="",
        configuration=_configuration(fields),
        losses=None if losses is None else np.array(losses, np.float64),
        total_wall_s=fields.number("wall_s"),
        hostname=fields.text("host"),
        notes=tuple(fields.notes),
    )
