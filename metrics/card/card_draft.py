"""Draft a workload card from traces and configuration, with the source of each value.

Only values that a trace or the configuration states are included; where both state one, that of the
trace. Users fill in the other fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.card.card_check import (
    CONFIG_KEYS,
    GLOBAL_BATCH,
    LOCAL_BATCH,
    MICRO_BATCH,
    SHARD,
    degrees_of,
    global_batch_of,
    micro_batches_of,
    precision_of,
    training_names,
)
from ccltui.parsers.runs.run_records import TrainConfig

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

Value = str | int | bool | tuple[str, ...]

_LIBRARIES: Final = {"nccl": "NCCL", "rccl": "RCCL", "gloo": "gloo", "mpi": "MPI", "xccl": "xCCL"}
_OF_MEGATRON: Final = {
    "tensor_model_parallel_group": "tp",
    "pipeline_model_parallel_group": "pp",
    "context_parallel_group": "cp",
    "expert_model_parallel_group": "ep",
}


class Fact(Struct, frozen=True):
    """A value of a card and its source, in a few words."""

    value: Value
    source: str


def draft(job: Job | None, config: TrainConfig | None) -> dict[str, Fact]:
    """Return the facts by field of the card; the field ``traces`` lists kinds of trace files.

    Raises:
        ConfigError: a value of the configuration has the wrong type.
    """
    world_size = None if job is None else job.world_size
    facts = {} if config is None else _of_config(config, world_size)
    return facts if job is None else facts | _of_traces(job)


def _of_config(config: TrainConfig, world_size: int | None) -> dict[str, Fact]:
    name, flavor = config.text("model.name"), config.text("model.flavor")
    found: Mapping[str, tuple[Value | None, str]] = {
        "model_family": ("-".join(filter(None, (name, flavor))) or None, "model.name and flavor"),
        "precision": (precision_of(config), "training.mixed_precision_param, else dtype"),
        "iteration": (config.count("training.steps"), "training.steps"),
        **_batch(config, world_size),
        "seq_len": (config.count("training.seq_len"), "training.seq_len"),
        "dataset": (config.text("training.dataset"), "training.dataset"),
        "pp_microbatches": (micro_batches_of(config), f"{LOCAL_BATCH} by {MICRO_BATCH}"),
        **{
            field: (degree, _source_of_degree(config, CONFIG_KEYS[field]))
            for field, degree in degrees_of(config, world_size).items()
        },
    }
    return {
        field: Fact(value, f"configuration, {source}")
        for field, (value, source) in found.items()
        if value is not None
    }


def _batch(config: TrainConfig, world_size: int | None) -> dict[str, tuple[Value | None, str]]:
    """Batch size of the job where it is known, else that of a rank, which needs no scope."""
    whole = global_batch_of(config, world_size)
    if whole is None:
        return {"batch_size": (config.count(LOCAL_BATCH), f"{LOCAL_BATCH}, of a rank")}
    stated = config.count(GLOBAL_BATCH) is not None
    source = GLOBAL_BATCH if stated else f"{LOCAL_BATCH} times data parallelism"
    return {"batch_size": (whole, source), "batch_size_scope": ("global", source)}


def _source_of_degree(config: TrainConfig, key: str) -> str:
    if config.count(key) is not None:
        return key
    return f"{key} is open: the rest of the world" if key == SHARD else f"{key} is not set: 1"


def _of_traces(job: Job) -> dict[str, Fact]:
    found: dict[str, tuple[Value | None, str]] = {
        **_hardware(job),
        **_library(job),
        **_degrees(job),
        "phase": _phase(job),
        "traces": (_kinds(job) or None, "files found"),
    }
    return {
        field: Fact(value, f"traces, {source}")
        for field, (value, source) in found.items()
        if value is not None
    }


def _hardware(job: Job) -> dict[str, tuple[Value | None, str]]:
    """Devices, where any were recorded; {} for a job on CPUs."""
    names = {device.name for trace in job.ranks for device in trace.devices if device.name}
    if not names and not any(len(trace.group("gpu")) for trace in job.ranks):
        return {}
    per_host = Counter(trace.host for trace in job.ranks if trace.rank is not None)
    whole = not job.missing_ranks and "" not in per_host
    counts = set(per_host.values())
    return {
        "gpu_type": ("GPU", "device events"),
        "gpu_model": (_slug(names.pop()) if len(names) == 1 else None, "deviceProperties"),
        "total_count": (job.world_size, "world size"),
        "count_per_node": (
            counts.pop() if whole and job.world_size and len(counts) == 1 else None,
            "ranks of each host",
        ),
    }


def _library(job: Job) -> dict[str, tuple[Value | None, str]]:
    words = {
        word
        for trace in job.ranks
        for word in re.split(r"[^a-z]+", trace.backend.lower())
        if word in _LIBRARIES
    }
    # "cpu:gloo,cuda:nccl": prefer the library of the device.
    library = _only(words - {"gloo"} or words)
    versions = {trace.nccl_version for trace in job.ranks if trace.nccl_version}
    return {
        "communication_library": (_LIBRARIES.get(library or ""), "backend"),
        "communication_library_version": (
            _only(versions) if library in ("nccl", "rccl") else None,
            "nccl_version",
        ),
    }


def _only(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None


def _degrees(job: Job) -> dict[str, tuple[Value | None, str]]:
    """Sizes of the groups of single axes, where all groups of an axis have one size.

    Groups of several axes (``mesh_fsdp``, ``mesh_dp_shard_cp``) and those of experts only
    (``mesh_etp``) are excluded: their sizes are not the degrees.
    """
    sizes: dict[str, set[int]] = {}
    for trace in job.ranks:
        for group in trace.process_groups:
            name = group.description.lower()
            field = _OF_MEGATRON.get(name, name.removeprefix("mesh_"))
            if field in CONFIG_KEYS:
                sizes.setdefault(field, set()).add(len(group.ranks) or group.size)
    return {
        field: (found.pop(), "process groups")
        for field, found in sizes.items()
        if len(found) == 1 and min(found) > 0
    }


def _phase(job: Job) -> tuple[Value | None, str]:
    names = sorted({name for trace in job.ranks for name in training_names(trace)})
    return ("training" if names else None), names[0] if names else ""


def _kinds(job: Job) -> tuple[str, ...]:
    kinds = {file.format.card_name for file in job.discovery.files}
    return tuple(sorted(kinds - {""}))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
