"""Traces of a synthetic inference server with known answers: passes, replicas, graphs, stragglers.

Each replica is a job of its own: its ranks number themselves from 0 and reduce over tensor
parallelism after each layer. Prefill launches its kernels one by one. Decode replays a CUDA graph,
whose kernels state the node that they are, and with ``annotates`` the module of that node. After
each pass the sampled tokens are copied to the host.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

BASE_NS: Final = 1_764_201_600_000_000_000
_DECODE: Final = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
_PREFILL: Final = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>"
_REDUCE: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_SAMPLE: Final = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<ArgMaxOps<float>>>"
_COPY: Final = "Memcpy DtoH (Device -> Pinned)"


class Node(Struct, frozen=True):
    """One kernel of a pass: its name, module and length in a decode step."""

    name: str
    module: str
    ns: int


class ServingJob(Struct, frozen=True):
    """What is written.

    Attributes:
        replicas: Number of replicas.
        ranks: Ranks of each.
        prefills: Passes of prefill, before those of decode.
        decodes: Passes of decode.
        layers: Layers of the model.
        slow_rank: Replica and rank of which one node takes longer; None for no such rank.
        slow_layer: Layer of that node, its second matrix product.
        slow_factor: By how much longer it takes.
        slow_replica: Replica of which the host takes 1 ms more for each pass; None for none.
        replays_graphs: Whether decode replays a graph.
        states_nodes: Whether kernels state the node that they are.
        annotates: Whether nodes state their module.
        hip: Whether calls have the names of HIP.
        marks: Whether passes are marked as vLLM does.
        names: Whose file names.
        states_ranks: Whether files state their rank.
        stage: Passes of one kind alone, as SGLang records by stage.
    """

    replicas: int = 2
    ranks: int = 2
    prefills: int = 2
    decodes: int = 12
    layers: int = 4
    slow_rank: tuple[int, int] | None = None
    slow_layer: int = 2
    slow_factor: float = 3.0
    slow_replica: int | None = None
    replays_graphs: bool = True
    states_nodes: bool = True
    annotates: bool = True
    hip: bool = False
    marks: bool = False
    names: Literal["vllm", "sglang"] = "vllm"
    states_ranks: bool = True
    stage: Literal["", "EXTEND", "DECODE"] = ""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The kernels of a pass."""
        found = [Node("void vllm::vectorized_gather_kernel<16>", "model.embed_tokens", 4_000)]
        for layer in range(self.layers):
            path = f"model.layers.{layer}"
            found += [
                Node("void vllm::fused_add_rms_norm_kernel", f"{path}.input_layernorm", 5_000),
                Node("nvjet_tst_128x64_64x8_qkv", f"{path}.self_attn.qkv_proj", 20_000),
                Node(_DECODE, f"{path}.self_attn.attn", 30_000),
                Node(_REDUCE, f"{path}.self_attn.o_proj", 12_000),
                Node("nvjet_tst_192x64_64x6_up", f"{path}.mlp.gate_up_proj", 40_000),
                Node("nvjet_tst_256x64_64x4_down", f"{path}.mlp.down_proj", 40_000),
                Node(_REDUCE, f"{path}.mlp.down_proj", 12_000),
            ]
        return (*found, Node("nvjet_tst_64x8_lm_head", "lm_head", 60_000))

    @property
    def slow_module(self) -> str:
        """Module of the slow node."""
        return f"model.layers.{self.slow_layer}.mlp.down_proj"

    @property
    def decode_ns(self) -> int:
        """Length of a decode step from its first kernel to that of the next, without slowness."""
        return sum(node.ns for node in self.nodes) + _AFTER_NS

    def name_of(self, replica: int, rank: int) -> str:
        """Name of the file of a rank."""
        if self.names == "vllm":
            place = f"dp{replica}_pp0_tp{rank}_dcp0_ep{rank}_rank{rank}"
            return f"{place}.{BASE_NS + replica * 1000 + rank}.pt.trace.json.gz"
        stage = f"-{self.stage}" if self.stage else ""
        return f"{BASE_NS / 1e9}-TP-{rank}-DP-{replica}-PP-0-EP-0{stage}.trace.json.gz"


_SAMPLE_NS: Final = 30_000
_COPY_NS: Final = 3_000
_HOST_NS: Final = 200_000
_LAUNCH_NS: Final = 5_000
_REPLAY_NS: Final = 10_000
_AFTER_NS: Final = _SAMPLE_NS + _COPY_NS + _HOST_NS + _REPLAY_NS
"""From the last kernel of a graph to the first of the next replay: sampling, copy and host."""


def write_serving_job(folder: Path, job: ServingJob) -> None:
    """Write the trace of each rank of each replica into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for replica in range(job.replicas):
        for rank, events in enumerate(_Replica(job, replica).traces()):
            text = json.dumps({**_header(job, rank), "traceEvents": events})
            data = gzip.compress(text.encode(), compresslevel=1, mtime=0)
            (folder / job.name_of(replica, rank)).write_bytes(data)


def _header(job: ServingJob, rank: int) -> dict[str, Any]:
    ranks = list(range(job.ranks))
    group = {"pg_name": "3", "pg_desc": "tp", "pg_size": job.ranks, "ranks": ranks}
    stated: dict[str, Any] = {
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": job.ranks,
            "pg_config": [{**group, "backend_config": "cuda:nccl"}],
        }
    }
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": rank, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        **(stated if job.states_ranks else {}),
        "baseTimeNanoseconds": BASE_NS,
    }


class _Replica:
    """Passes of the ranks of one replica, in lockstep at each reduction."""

    def __init__(self, job: ServingJob, replica: int) -> None:
        self._job, self._replica = job, replica
        self._events: list[list[dict[str, Any]]] = [[] for _ in range(job.ranks)]
        self._free = [1_000_000 + 7_000 * replica] * job.ranks
        self._correlation = 100

    def traces(self) -> list[list[dict[str, Any]]]:
        """Return the events of each rank."""
        job = self._job
        for _ in range(0 if job.stage == "DECODE" else job.prefills):
            self._pass("prefill")
        for _ in range(0 if job.stage == "EXTEND" else job.decodes):
            self._pass("decode")
        return self._events

    def _pass(self, phase: str) -> None:
        """Run one pass on all ranks; each waits for its tokens and prepares the next pass."""
        job, ranks = self._job, range(self._job.ranks)
        is_graph = phase == "decode" and job.replays_graphs
        begin = [free + (_HOST_NS if self._events[0] else 0) for free in self._free]
        if self._replica == job.slow_replica:
            begin = [at + 1_000_000 for at in begin]
        now = [at + (_REPLAY_NS if is_graph else _LAUNCH_NS) for at in begin]
        first = self._correlation
        for number, node in enumerate(job.nodes):
            length = [self._length(rank, number, node, phase) for rank in ranks]
            end = [at + ns for at, ns in zip(now, length, strict=True)]
            if node.name == _REDUCE:
                end = [max(now) + node.ns] * job.ranks
            for rank in ranks:
                correlation = first if is_graph else first + number
                if not is_graph:
                    launched = begin[rank] + 1_000 * number
                    self._call(rank, "cudaLaunchKernel", launched, 800, correlation)
                self._kernel(
                    rank,
                    node,
                    number,
                    phase,
                    start=now[rank],
                    end=end[rank],
                    correlation=correlation,
                )
            now = end
        for rank in ranks:
            if is_graph:
                self._call(rank, "cudaGraphLaunch", begin[rank], _REPLAY_NS - 1_000, first)
            self._finish(rank, phase, begin[rank], now[rank], first + len(job.nodes))
        self._correlation += len(job.nodes) + 2

    def _length(self, rank: int, number: int, node: Node, phase: str) -> int:
        job = self._job
        ns = node.ns * (20 if phase == "prefill" else 1)
        is_slow = (self._replica, rank) == job.slow_rank and phase == "decode"
        if is_slow and number == 1 + 7 * job.slow_layer + 5:
            return round(ns * job.slow_factor)
        return ns

    def _kernel(
        self,
        rank: int,
        node: Node,
        number: int,
        phase: str,
        *,
        start: int,
        end: int,
        correlation: int,
    ) -> None:
        job = self._job
        args: dict[str, Any] = {"device": rank, "stream": 7, "correlation": correlation}
        if phase == "decode" and job.replays_graphs and job.states_nodes:
            graph = 11 + rank
            args |= {"graph id": graph, "graph node id": (graph << 32) + 2 * number + 1}
            if job.annotates:
                args["module_fqn"] = node.module
        if node.name == _REDUCE:
            args |= {"Collective name": "allreduce", "In msg nelems": 4096, "dtype": "BFloat16",
                     "Out msg nelems": 4096, "Group size": job.ranks, "Process Group Name": "3",
                     "Process Group Ranks": str(list(range(job.ranks)))}  # fmt: skip
        name = _PREFILL if node.name == _DECODE and phase == "prefill" else node.name
        self._add(rank, "kernel", name, (rank, 7), (start, end - start), **args)

    def _finish(self, rank: int, phase: str, begin: int, end: int, correlation: int) -> None:
        """Sample, copy the tokens to the host, and wait for them."""
        asked = max(begin + 20_000, end - 50_000)
        self._call(rank, "cudaLaunchKernel", asked, 800, correlation)
        args = {"device": rank, "stream": 7, "correlation": correlation}
        self._add(rank, "kernel", _SAMPLE, (rank, 7), (end, _SAMPLE_NS), **args)
        copied = end + _SAMPLE_NS
        wait = copied + _COPY_NS - asked - 1_000
        self._call(rank, "cudaMemcpyAsync", asked + 1_000, wait, correlation + 1)
        args = {"device": rank, "stream": 7, "correlation": correlation + 1, "bytes": 64}
        self._add(rank, "gpu_memcpy", _COPY, (rank, 7), (copied, _COPY_NS), **args)
        self._free[rank] = copied + _COPY_NS
        if self._job.marks:
            names = {"prefill": "execute_context_1(512)_generation_0(0)",
                     "decode": "execute_context_0(0)_generation_8(8)"}  # fmt: skip
            length = self._free[rank] - begin
            self._add(rank, "user_annotation", names[phase], (4000, 4000), (begin - 1, length))

    def _call(self, rank: int, name: str, start: int, length: int, correlation: int) -> None:
        args = {"correlation": correlation, "cbid": 1}
        name = name.replace("cuda", "hip") if self._job.hip else name
        self._add(rank, "cuda_runtime", name, (4000, 4000), (start, length), **args)

    def _add(
        self,
        rank: int,
        category: str,
        name: str,
        track: tuple[int, int],
        span: tuple[int, int],
        **args: Any,
    ) -> None:
        pid, tid = track
        start, length = span
        times = {"ts": start / 1000, "dur": length / 1000}
        row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times}
        self._events[rank].append({**row, "args": args})
