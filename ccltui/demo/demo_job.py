"""Synthetic jobs: built in memory, or written to a directory with a card that agrees with them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.kineto_writer import (
    NCCL_VERSIONS,
    Written,
    base_ns,
    header,
    observe,
    trace_name,
    write,
)
from ccltui.demo.rank_events import rank_events
from ccltui.demo.simulate import Schedule, simulate
from ccltui.demo.spec import Library, Spec
from ccltui.demo.truth import Truth, answers

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


CARD_NAME = "workload_card.yaml"
_OURS = re.compile(r"kineto_trace_\d+\.json(\.gz|\.part)?|" + re.escape(CARD_NAME))


class BuiltJob(Struct, frozen=True):
    """A job in memory: the uncompressed text of each file by name, and the known values."""

    files: Mapping[str, str]
    truth: Truth


def build(spec: Spec) -> BuiltJob:
    """Simulate a job and write the trace of every rank as text."""
    true = simulate(spec)
    seen = observe(true)
    cuts = {cut.rank: cut.fraction for cut in spec.cuts}
    files = {CARD_NAME: card(spec)}
    for rank in range(spec.world_size):
        name = trace_name(rank)
        written = write(
            rank_events(seen, rank),
            header(spec, seen.topology, rank),
            base_ns=base_ns(spec),
            name=name,
            layout=spec.layout,
        )
        if rank in cuts:
            written = written.cut(cuts[rank])
            seen = _only_kept(seen, rank, written)
        files[name] = written.text
    return BuiltJob(files, answers(true, seen))


def write_job(directory: Path, spec: Spec) -> Truth:
    """Write a job's card and one ``kineto_trace_<rank>.json[.gz]`` per rank.

    The directory is created if necessary. An earlier demo job in it is replaced.

    Raises:
        FileExistsError: The directory contains other files.
    """
    job = build(spec)
    remove_earlier_job(directory)
    for name, text in job.files.items():  # the card comes first: it marks the directory as a demo
        data = text.encode("ascii")
        if spec.compress and name != CARD_NAME:
            (directory / f"{name}.gz").write_bytes(gzip.compress(data, 3, mtime=0))
        else:
            (directory / name).write_bytes(data)
    return job.truth


def remove_earlier_job(directory: Path) -> None:
    """Create the directory if necessary, and remove the files of an earlier demo job.

    Raises:
        FileExistsError: The directory contains other files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    present = sorted(directory.iterdir())
    if not present:
        return
    written_card = directory / CARD_NAME
    ours = written_card.is_file() and DESCRIPTION in written_card.read_text(errors="replace")
    foreign = [path.name for path in present if not _OURS.fullmatch(path.name)]
    if not ours or foreign:
        what = foreign[0] if foreign else present[0].name
        raise FileExistsError(f"{directory} holds {what}: choose an empty or a new directory")
    for path in present:
        path.unlink()


def _only_kept(seen: Schedule, rank: int, written: Written) -> Schedule:
    """Schedule without the events that are missing from the truncated file of a rank."""
    kept = {event.source for event in written.events}
    activities, host = list(seen.activities), list(seen.host)
    activities[rank] = tuple(item for item in activities[rank] if item in kept)
    host[rank] = tuple(item for item in host[rank] if item in kept)
    return replace(seen, activities=tuple(activities), host=tuple(host))
