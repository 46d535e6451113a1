"""Write a workload card: known values with their source, other fields as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import yaml
from msgspec import Struct

from ccltui.parsers.names import printable
from ccltui.parsers.safe_text import safe_text

if TYPE_CHECKING:
    from ccltui.metrics.card.card_draft import Fact, Value

_INDENT: Final = "  "
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]*")


class Line(Struct, frozen=True):
    """One key of a card, the field that it sets, and the meaning of its value."""

    key: str
    field: str
    meaning: str


class Section(Struct, frozen=True):
    """A key that contains keys."""

    key: str
    entries: Sequence[Line | Section]


LAYOUT: Final = (
    Line("description", "description", "one sentence; text with a colon needs quotes"),
    Line("hf_url", "hf_url", "page of the model"),
    Section(
        "workload",
        (
            Section(
                "model",
                (
                    Line("phase", "phase", "training, inference or serving"),
                    Line("moe", "moe", "true for a mixture of experts, else false"),
                    Line("granularity", "granularity", "model_fwd_bwd_pass, model_fwd, request, …"),
                    Line("model_family", "model_family", "llama-3.1-8b"),
                    Line("precision", "precision", "bf16, fp16, fp32, fp8"),
                    Line("iteration", "iteration", "steps of the whole job, not of the trace"),
                    Section(
                        "model_arch",
                        (
                            Line("num_params", "num_params", "parameters; mfu needs them"),
                            Line(
                                "num_params_active",
                                "num_params_active",
                                "parameters that one token uses, if experts are chosen",
                            ),
                            Line(
                                "num_params_embedding",
                                "num_params_embedding",
                                "parameters of the embeddings; mfu needs them",
                            ),
                            Line("num_layers", "num_layers", "layers; mfu needs them"),
                            Line("num_heads", "num_heads", "attention heads; mfu needs them"),
                            Line("head_dim", "head_dim", "width of a head; mfu needs it"),
                        ),
                    ),
                ),
            ),
            Section(
                "data",
                (
                    Line("batch_size", "batch_size", "sequences a step; throughput needs them"),
                    Line(
                        "batch_size_scope",
                        "batch_size_scope",
                        "global when batch_size is that of the whole job; without: of a rank",
                    ),
                    Line("seq_len", "seq_len", "tokens a sequence; throughput needs them"),
                    Line("dataset", "dataset", "c4"),
                ),
            ),
            Section(
                "hardware",
                (
                    Section(
                        "network_topo",
                        (
                            Line("topology", "topology", "slingshot, fat-tree, …"),
                            Line(
                                "bandwidth_gbps",
                                "bandwidth_gbps",
                                "[between nodes, inside a node], Gbit/s of a device; "
                                "link_utilization needs them",
                            ),
                        ),
                    ),
                    Section(
                        "xpu_spec",
                        (
                            Line("type", "gpu_type", "GPU or TPU"),
                            Line("model", "gpu_model", "nvidia_a100_40gb; mfu needs it"),
                            Line("total_count", "total_count", "devices of the job"),
                            Line("count_per_node", "count_per_node", "devices of a node"),
                        ),
                    ),
                    Line("driver_version", "driver_version", "of the device's driver"),
                ),
            ),
        ),
    ),
    Section(
        "Model-executor",
        (
            Section(
                "framework",
                (
                    Line("name", "framework", "torchtitan, megatron-lm, vllm, …"),
                    Line("version", "framework_version", "of the framework"),
                ),
            ),
            Section(
                "model_plan_parallelization",
                (
                    Line("dp_replicate", "dp_replicate", "degree of replicated data parallelism"),
                    Line("dp_shard", "dp_shard", "degree of sharded data parallelism"),
                    Line("tp", "tp", "degree of tensor parallelism"),
                    Line("pp", "pp", "degree of pipeline parallelism"),
                    Line("cp", "cp", "degree of context parallelism"),
                    Line("ep", "ep", "degree of expert parallelism"),
                    Line("pp_mb", "pp_microbatches", "micro-batches of a pipeline step"),
                ),
            ),
            Section(
                "communication_library",
                (
                    Line("name", "communication_library", "NCCL, RCCL, gloo, …"),
                    Line(
                        "version",
                        "communication_library_version",
                        'in quotes: "2.20" is no number',
                    ),
                ),
            ),
        ),
    ),
    Section("metric_source", (Line("traces", "traces", "kineto_trace, torch_et, nsys"),)),
)


def card_text(facts: Mapping[str, Fact]) -> bytes:
    """Write a card in UTF-8: known values with their source, other fields commented out."""
    head = (
        "# Workload card. A line that is commented out is not known yet: fill it in where it\n"
        "# applies, and check the card with: ccltui card lint\n"
        "version: 1\n"
    )
    return (head + "".join(f"{line}\n" for line in _lines(LAYOUT, facts, ""))).encode()


def _lines(
    entries: Sequence[Line | Section], facts: Mapping[str, Fact], indent: str
) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Section):
            yield f"{indent}{entry.key}:"
            yield from _lines(entry.entries, facts, indent + _INDENT)
        elif entry.field in facts:
            fact = facts[entry.field]
            yield f"{indent}{entry.key}: {_yaml(fact.value)}  # {safe_text(fact.source)}"
        else:
            yield f"{indent}# {entry.key}:  # {entry.meaning}"


def _yaml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    plain = _PLAIN.fullmatch(value) and isinstance(yaml.safe_load(value), str)
    # Without unprintable characters a quoted JSON string is valid YAML.
    return value if plain else json.dumps(printable(value), ensure_ascii=False)
