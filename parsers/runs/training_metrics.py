"""``training_metrics.json``: configuration and results of a run, epoch by epoch.

One function a generation of the file; a generation that is not known is read as the newest
that is, and a note says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ccltui.parsers.array_types import F64
from ccltui.parsers.columns import Note
from ccltui.parsers.text.json_fields import Fields, read_object, stated

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


def _unless_zero(fields: Fields, path: str) -> float | None:
    """Return a loss; 0.0 means that nothing was validated."""
    return fields.number(path) or None


def _max_steps(fields: Fields, path: str) -> int | None:
    steps = _MAX_STEPS.search(fields.text(path))
    return None if steps is None else int(steps[1])


def _of_all(name: str) -> tuple[str, str]:
    """Return the keys of a maximum of all ranks, and of rank 0."""
    return f"{name}_global", f"{name}_rank0"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch; None where the file does not say. Times are seconds, memory bytes of rank 0.

    ``step_*`` are of ``step_samples`` micro-steps, chosen as ``step_sampling`` states;
    both may be unstated.
    """

    index: int
    wall_s: float | None = stated(Fields.number, "epoch_wall_time_sec")
    micro_steps: int | None = stated(Fields.count, "micro_steps", "steps")
    optimizer_steps: int | None = stated(Fields.count, "optimizer_steps")
    tokens: int | None = stated(Fields.count, "tokens_processed_global")
    tokens_per_s: float | None = stated(Fields.number, "tokens_per_sec_global")
    train_loss: float | None = stated(Fields.number, "train_loss_avg_global")
    val_loss: float | None = stated(_unless_zero, "val_loss_avg_global")
    step_mean_s: float | None = stated(Fields.number, "step_time_mean_sec")
    step_p50_s: float | None = stated(Fields.number, "step_time_p50_sec")
    step_p95_s: float | None = stated(Fields.number, "step_time_p95_sec")
    step_samples: int | None = stated(Fields.count, "step_time_num_samples")
    step_sampling: str = stated(Fields.text, "step_time_sampling", empty=str)
    dataload_mean_s: float | None = stated(Fields.number, "dataload_time_mean_sec")
    memory_allocated_bytes: int | None = stated(
        Fields.count, *_of_all("max_cuda_mem_allocated_bytes")
    )
    memory_reserved_bytes: int | None = stated(
        Fields.count, *_of_all("max_cuda_mem_reserved_bytes")
    )


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values by which runs are compared; "" and None where a file does not say."""

    world_size: int | None = stated(Fields.count, "hardware.world_size", "world_size")
    gpu_name: str = stated(Fields.text, "hardware.gpu_name", empty=str)
    seq_len: int | None = stated(Fields.count, "training_config.seq_len")
    micro_batch: int | None = stated(Fields.count, "training_config.micro_batch_size_per_gpu")
    grad_accum: int | None = stated(Fields.count, "training_config.grad_accum_steps")
    global_batch: int | None = stated(Fields.count, "training_config.global_batch_size")
    max_steps: int | None = stated(_max_steps, "command_line")
    precision: str = stated(Fields.text, "training_config.precision", empty=str)
    optimizer: str = stated(Fields.text, "training_config.optimizer", empty=str)
    zero_stage: int | None = stated(Fields.count, "training_config.zero_stage")
    deepspeed: bool | None = stated(Fields.flag, "training_config.deepspeed_enabled")
    model_name: str = stated(Fields.text, "training_config.model_name", empty=str)
    model_size: str = stated(Fields.text, "training_config.model_size", empty=str)
    dataset: str = stated(Fields.text, "training_config.dataset_name", empty=str)
    dataset_sizes: Mapping[str, str] = stated(
        Fields.texts, "training_config.dataset_subset_sizes", empty=dict
    )
    git_commit: str = stated(Fields.text, "git_commit", empty=str)
    config_sha256: str = stated(Fields.text, "deepspeed_config.sha256", empty=str)
    versions: Mapping[str, str] = stated(Fields.texts, "env", empty=dict)


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
        configuration=Configuration(**fields.read(Configuration)),
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
    epoch = Epoch(**{"index": one.count("epoch_idx") or number, **one.read(Epoch)})
    fields.notes += one.notes
    return epoch


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
        configuration=Configuration(**fields.read(Configuration)),
        losses=None if losses is None else np.array(losses, np.float64),
        total_wall_s=fields.number("wall_s"),
        hostname=fields.text("host"),
        notes=tuple(fields.notes),
    )
