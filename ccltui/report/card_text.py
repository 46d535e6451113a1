"""Write a workload card: known values with their source, other fields as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import yaml
from msgspec import Struct

from ccltui.parsers.names import printable
from ccltui.parsers.safe_text import safe_text

if TYPE_CHECKING:
    from ccltui.metrics.card.card_draft import Fact, Value

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]*")


_LAYOUT: Final = """
# description: one sentence; text with a colon needs quotes
# hf_url: page of the model
workload:
  model:
    # phase: training, inference or serving
    # moe: true for a mixture of experts, else false
    # granularity: model_fwd_bwd_pass, model_fwd, request, …
    # model_family: llama-3.1-8b
    # precision: bf16, fp16, fp32, fp8
    # iteration: steps of the whole job, not of the trace
    model_arch:
      # num_params: parameters; mfu needs them
      # num_params_active: parameters that one token uses, if experts are chosen
      # num_params_embedding: parameters of the embeddings; mfu needs them
      # num_layers: layers; mfu needs them
      # num_heads: attention heads; mfu needs them
      # head_dim: width of a head; mfu needs it
  data:
    # batch_size: sequences a step; throughput needs them
    # batch_size_scope: global when batch_size is that of the whole job; without: of a rank
    # seq_len: tokens a sequence; throughput needs them
    # dataset: c4
  hardware:
    network_topo:
      # topology: slingshot, fat-tree, …
      # bandwidth_gbps: [between nodes, inside a node], Gbit/s of a device; link_utilization needs them
    xpu_spec:
      # type (gpu_type): GPU or TPU
      # model (gpu_model): nvidia_a100_40gb; mfu needs it
      # total_count: devices of the job
      # count_per_node: devices of a node
    # driver_version: of the device's driver
Model-executor:
  framework:
    # name (framework): torchtitan, megatron-lm, vllm, …
    # version (framework_version): of the framework
  model_plan_parallelization:
    # dp_replicate: degree of replicated data parallelism
    # dp_shard: degree of sharded data parallelism
    # tp: degree of tensor parallelism
    # pp: degree of pipeline parallelism
    # cp: degree of context parallelism
    # ep: degree of expert parallelism
    # pp_mb (pp_microbatches): micro-batches of a pipeline step
  communication_library:
    # name (communication_library): NCCL, RCCL, gloo, …
    # version (communication_library_version): in quotes: "2.20" is no number
metric_source:
  # traces: kineto_trace, torch_et, nsys
"""  # noqa: E501  (each key is one line)
"""A line of each key and its meaning, with the field that it sets where that has another name."""
_KEY: Final = re.compile(r"(?P<indent> *)# (?P<key>\w+)(?: \((?P<field>\w+)\))?: (?P<meaning>.+)")


class Line(Struct, frozen=True):
    """One line of a card: a key that contains keys, or one that sets a field."""

    indent: str
    key: str
    field: str = ""
    meaning: str = ""


def _line(text: str) -> Line:
    found = _KEY.fullmatch(text)
    if found is None:
        key = text.strip(" :")
        return Line(text[: text.index(key)], key)
    key = found["key"]
    return Line(found["indent"], key, found["field"] or key, found["meaning"])


LAYOUT: Final = tuple(map(_line, _LAYOUT.strip().splitlines()))
"""The lines of a card in order."""


def card_text(facts: Mapping[str, Fact]) -> bytes:
    """Write a card in UTF-8: known values with their source, other fields commented out."""
    head = (
        "# Workload card. A line that is commented out is not known yet: fill it in where it\n"
        "# applies, and check the card with: ccltui card lint\n"
        "version: 1\n"
    )
    return (head + "".join(f"{line}\n" for line in _lines(facts))).encode()


def _lines(facts: Mapping[str, Fact]) -> Iterator[str]:
    for line in LAYOUT:
        if not line.field:
            yield f"{line.indent}{line.key}:"
        elif line.field in facts:
            fact = facts[line.field]
            yield f"{line.indent}{line.key}: {_yaml(fact.value)}  # {safe_text(fact.source)}"
        else:
            yield f"{line.indent}# {line.key}:  # {line.meaning}"


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
