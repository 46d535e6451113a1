"""Write a workload card that agrees with the traces of the job."""

from __future__ import annotations

from ccltui.demo.header import NCCL_VERSIONS
from ccltui.demo.spec import Library, Spec

DESCRIPTION = "Synthetic job with known answers, written by ccltui demo"
VOCABULARY = 32_768
_MODELS: dict[Library, str] = {
    "nccl": "nvidia_h100",
    "nccl_old": "nvidia_h100",
    "rccl": "amd_mi300x",
}


def card(spec: Spec) -> str:
    """Text of ``workload_card.yaml``, with the global batch size."""
    heads = max(1, spec.hidden // 128)
    embedding = VOCABULARY * spec.hidden
    return f"""version: 1
description: "{DESCRIPTION}"
hf_url: null
trace_url: null
contributor: null
contact: null

workload:
  model:
    phase: training
    moe: {str(spec.experts).lower()}
    granularity: model_fwd_bwd_pass
    model_family: synthetic-transformer
    precision: bf16
    epochs: 1
    iteration: {spec.first_step + spec.steps}
    model_arch:
      num_params: {12 * spec.hidden**2 * spec.layers + embedding}
      num_params_embedding: {embedding}
      num_layers: {spec.layers}
      num_heads: {heads}
      head_dim: {spec.hidden // heads}
  data:
    batch_size: {spec.global_batch}
    batch_size_scope: global
    seq_len: {spec.seq_len}
    dataset: synthetic
  hardware:
    network_topo:
      topology: ""
      bandwidth_gbps:
        - {8 * spec.network_bytes_per_ns}
        - {8 * spec.node_bytes_per_ns}
    xpu_spec:
      type: GPU
      model: {_MODELS[spec.library]}
      total_count: {spec.world_size}
      count_per_node: {min(spec.gpus_per_node, spec.world_size)}

Model-executor:
  framework:
    name: torchtitan
    compiler_tool_selection: plain_pytorch
  model_plan_parallelization:
    dp_replicate: {spec.dp_replicate}
    dp_shard: {spec.dp_shard}
    tp: {spec.tp}
    pp: {spec.pp}
    cp: 1
    ep: {spec.dp_shard if spec.experts else 1}
    pp_mb: {spec.micro_batches}
  communication_library:
    name: {"RCCL" if spec.library == "rccl" else "NCCL"}
    version: "{NCCL_VERSIONS[spec.library]}"

metric_source:
  traces:
    - kineto_trace
  metrics_specific_trace: []
"""
