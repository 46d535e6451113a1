"""Known keys of workload cards, and the keys that each accessor reads."""

from __future__ import annotations

from collections.abc import Mapping

PERSONAL = frozenset(
    {"contributor", "contributors", "contact", "contacts", "email", "e_mail", "author", "authors"}
)
"""Keys whose values are dropped: who contributed a card, and how to reach them."""

_PLAN = "model_executor.model_plan_parallelization"
_XPU = "workload.hardware.xpu_spec"
_ARCH = ("workload.model.model_arch", "workload.model")
_LIBRARY = "model_executor.communication_library"

_ARCHITECTURE = (
    "num_params",
    "num_params_active",
    "num_params_embedding",
    "num_layers",
    "num_heads",
    "head_dim",
    "num_kv_heads",
    "hidden_size",
    "intermediate_size",
    "vocab_size",
)

FIELDS: Mapping[str, tuple[str, ...]] = {
    "phase": ("workload.model.phase",),
    "moe": ("workload.model.moe",),
    "granularity": ("workload.model.granularity",),
    "model_family": ("workload.model.model_family",),
    "precision": ("workload.model.precision",),
    "epochs": ("workload.model.epochs",),
    "iteration": ("workload.model.iteration",),
    **{name: tuple(f"{place}.{name}" for place in _ARCH) for name in _ARCHITECTURE},
    "batch_size": ("workload.data.batch_size",),
    "batch_size_scope": ("workload.data.batch_size_scope",),
    "seq_len": ("workload.data.seq_len",),
    "input_len": ("workload.data.input_len",),
    "output_len": ("workload.data.output_len",),
    "dataset": ("workload.data.dataset",),
    "gpu_type": (f"{_XPU}.type",),
    "gpu_model": (f"{_XPU}.model",),
    "total_count": (f"{_XPU}.total_count",),
    "count_per_node": (f"{_XPU}.count_per_node",),
    "driver_version": ("workload.hardware.driver_version",),
    "framework": ("model_executor.framework.name",),
    "framework_version": ("model_executor.framework.version",),
    "dp_replicate": (f"{_PLAN}.dp_replicate",),
    "dp_shard": (f"{_PLAN}.dp_shard",),
    "tp": (f"{_PLAN}.tp",),
    "pp": (f"{_PLAN}.pp",),
    "cp": (f"{_PLAN}.cp",),
    "ep": (f"{_PLAN}.ep",),
    "pp_microbatches": (f"{_PLAN}.pp_mb",),
    "communication_library": (f"{_LIBRARY}.name",),
    "communication_library_version": (f"{_LIBRARY}.version",),
}
"""Name of an accessor -> normalised keys that may hold its value, the first one given wins."""

COUNTS = frozenset(
    {
        "epochs",
        "iteration",
        *_ARCHITECTURE,
        "batch_size",
        "seq_len",
        "input_len",
        "output_len",
        "total_count",
        "count_per_node",
        "dp_replicate",
        "dp_shard",
        "tp",
        "pp",
        "cp",
        "ep",
        "pp_microbatches",
    }
)
"""Accessors whose value is a positive whole number."""

_OTHER_KNOWN = frozenset(
    {
        "version",
        "description",
        "hf_url",
        "trace_url",
        "workload.data.max_model_len",
        "workload.data.max_num_batched_tokens",
        "workload.data.max_num_seqs",
        "workload.data.max_tokens",
        "workload.data.num_prompts",
        "workload.data.request_rate",
        "workload.hardware.network_topo.topology",
        "workload.hardware.network_topo.bandwidth_gbps",
        "model_executor.framework.compiler_tool_selection",
        "model_executor.protocol_selection",
        "metric_source.traces",
        "metric_source.metrics_specific_trace",
    }
)
# Maps whose keys are free; the bare name stands for an empty one.
_FREE_MAPS = (
    "collection_notes",
    "model_executor.framework.env",
    "model_executor.communication_library.env",
    "model_executor.expert_parallel",
    "model_executor.serving",
)


def is_known(key: str) -> bool:
    """True for a normalised dotted key that some generation of cards has."""
    return (
        key in _OTHER_KNOWN
        or any(key == name or key.startswith(f"{name}.") for name in _FREE_MAPS)
        or any(key in keys for keys in FIELDS.values())
    )


def known_keys() -> frozenset[str]:
    """All normalised dotted keys, maps whose own keys are free by their bare name."""
    return frozenset(
        (*_OTHER_KNOWN, *_FREE_MAPS, *(key for keys in FIELDS.values() for key in keys))
    )


def is_section(key: str) -> bool:
    """True for a normalised dotted key that holds known keys: ``workload.data``."""
    return any(name.startswith(f"{key}.") for name in known_keys())
