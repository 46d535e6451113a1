"""Rows of one rank's file, with the names that a profiler would record of its tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from ccltui.demo import profiler_names
from ccltui.demo.event_graph import Span
from ccltui.demo.planted.job_spec import DEVICE_ONLY, JobSpec, Level
from ccltui.demo.planted.tape import CALL_HOST_NS, Call, RankOp, Tape

NEW: Final = profiler_names.NEW_ARGUMENTS
SIDE_KERNEL: Final = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
    "(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::"
    "BinaryOpListAlphaFunctor<float, 2, 2, 0> >(float)"
)

CALL_KERNELS: Final[dict[str, str]] = {
    "allreduce": f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{NEW}",
    "_allgather_base": f"ncclDevKernel_AllGather_RING_LL{NEW}",
    "_reduce_scatter_base": f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL{NEW}",
    "all_to_allv": f"ncclDevKernel_SendRecv{NEW}",
    "send": f"ncclDevKernel_SendRecv{NEW}",
    "recv": f"ncclDevKernel_SendRecv{NEW}",
    "batch": f"ncclDevKernel_SendRecv{NEW}",
    "broadcast": f"ncclDevKernel_Broadcast_RING_LL{NEW}",
    "symmetric": (
        "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8, false>"
        "(c10::BFloat16**, unsigned long, unsigned long, unsigned int**, unsigned long)"
    ),
    "notify_dispatch": (
        "void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int const*, int*, int, int,"
        " int, bool const*, int*, int*, int, void**, int**, int)"
    ),
    "dispatch": (
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*, float*, int*,"
        " int*, int4 const*, float const*, long const*, float const*, bool const*, int const*)"
    ),
    "combine": (
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*, float*,"
        " __nv_bfloat16 const*, float const*, int const*, int const*, int const*, int*)"
    ),
}
PEER_COPY: Final = "Memcpy PtoP (Device -> Device)"

OPERATORS: Final[dict[str, str]] = {
    "allreduce": "c10d::allreduce_",
    "_allgather_base": "c10d::_allgather_base_",
    "copy_gather": "c10d::_allgather_base_",
    "_reduce_scatter_base": "c10d::_reduce_scatter_base_",
    "all_to_allv": "c10d::alltoall_base_",
    "send": "c10d::send",
    "recv": "c10d::recv_",
    "broadcast": "c10d::broadcast_",
    "symmetric": "symm_mem::two_shot_all_reduce_",
}
ANNOTATIONS: Final[dict[str, str]] = {
    "allreduce": "nccl:all_reduce",
    "_allgather_base": "nccl:_all_gather_base",
    "copy_gather": "nccl:_all_gather_base",
    "_reduce_scatter_base": "nccl:_reduce_scatter_base",
    "all_to_allv": "nccl:all_to_all",
    "send": "nccl:send",
    "recv": "nccl:recv",
    "batch": "nccl:coalesced",
    "broadcast": "nccl:broadcast",
}
DESCRIPTIONS: Final[dict[str, str]] = {
    "world": "default_pg",
    "dp": "mesh_dp_replicate",
    "tp": "mesh_tp",
    "cp": "mesh_cp",
    "ep": "mesh_ep",
    "pp": "mesh_pp",
    "own": "undefined",
}


def kernel(kind: str, *, backward: bool) -> str:
    """Name of a compute kernel or copy."""
    if kind == "side":
        return SIDE_KERNEL
    return profiler_names.kernel(kind, "nccl", backward=backward)


def operator(kind: str, *, backward: bool) -> str:
    """Name of the operator that launches it."""
    if kind == "side":
        return "aten::_foreach_lerp_"
    return profiler_names.operator(kind, backward=backward)


LAUNCH_NS: Final = 4_500
BACKWARD_THREAD: Final = 9
LONGEST_LIST: Final = 30


class Row(Struct):
    """A row of the file; ``launched_ns`` is when its host work began, for device rows too."""

    start_ns: int
    dur_ns: int
    launched_ns: int
    category: str
    name: str
    place: tuple[int, int]
    args: dict[str, Any]
    op: RankOp | None = None

    @property
    def on_device(self) -> bool:
        """Whether it is a kernel, copy or memset."""
        return self.category in ("kernel", "gpu_memcpy", "gpu_memset")


def group_name(call: Call, names: dict[tuple[str, tuple[int, ...]], str]) -> str:
    """Label of a process group, one for each of a job."""
    return names.setdefault((call.label, call.group), str(len(names)))


class RankRows:
    """Rows of a rank at a level of metadata."""

    def __init__(
        self, spec: JobSpec, tape: Tape, level: Level, names: dict[tuple[str, tuple[int, ...]], str]
    ) -> None:
        self.spec = spec
        self.tape = tape
        self.level = level
        self.names = names
        self.pid = 52_000 + 13 * tape.rank
        self.device = tape.rank % spec.gpus_per_node
        self.rows: list[Row] = []
        self._correlation = 4_000
        self._graph = 0  # the replay that was written last
        self._external = 0
        self._seqs: dict[tuple[str, tuple[int, ...], bool], int] = {}

    def all(self) -> list[Row]:
        """All rows, host rows first."""
        for event in self.tape.spans:
            self._host_event(event)
        for op in self.tape.ops:
            if isinstance(op.call, Call):
                self._call(op, op.call)
            else:
                self._work(op)
        return sorted(self.rows, key=lambda row: (row.on_device, row.start_ns, -row.dur_ns))

    def _host_event(self, event: Span[int]) -> None:
        step = event.name.startswith("ProfilerStep")
        runtime = event.category == "cuda_runtime"
        if self.level in DEVICE_ONLY or (self.level == "names" and not (step or runtime)):
            return
        args = {"correlation": self._next()} if runtime else {"External id": self._next_external()}
        self._host(
            event.category, event.name, event.start_ns, event.end_ns, args, backward=event.backward
        )

    def _host(
        self,
        category: str,
        name: str,
        start_ns: int,
        end_ns: int,
        args: dict[str, Any],
        *,
        backward: bool,
    ) -> None:
        place = (self.pid, self.pid + (BACKWARD_THREAD if backward else 0))
        self.rows.append(Row(start_ns, end_ns - start_ns, start_ns, category, name, place, args))

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation

    def _next_external(self) -> int:
        self._external += 1
        return self._external

    def _operator(self, op: RankOp, name: str, inset_ns: int = 0, **args: Any) -> dict[str, Any]:
        """Add the operator or annotation of a launch; return the link to it."""
        if self.level in ("names", *DEVICE_ONLY) or op.graph:
            return {}
        external = self._next_external()
        begin = op.launched_ns - op.host_ns // 2
        category = "user_annotation" if name.startswith("nccl:") else "cpu_op"
        self._host(
            category,
            name,
            begin + inset_ns,
            begin + op.host_ns - 1_000 - inset_ns,
            {"External id": external, **args},
            backward=op.backward,
        )
        return {"External id": external}

    def _launch(self, op: RankOp, name: str, shift_ns: int = 0) -> int:
        if op.graph:
            if op.graph == self._graph:
                return self._correlation
            self._graph, name = op.graph, "cudaGraphLaunch"
        number = self._next()
        if self.level not in DEVICE_ONLY:
            at_ns = op.launched_ns - LAUNCH_NS + shift_ns
            at_ns = max(at_ns, op.launched_ns - op.host_ns // 2)
            end_ns = min(at_ns + LAUNCH_NS, op.launched_ns + op.host_ns // 2 - 1_000)
            self._host(
                "cuda_runtime", name, at_ns, end_ns, {"correlation": number}, backward=op.backward
            )
        return number

    def _work(self, op: RankOp) -> None:
        link = self._operator(op, operator(op.kind, backward=op.backward))
        copies = op.kind.startswith("copy")
        number = self._launch(op, "cudaMemcpyAsync" if copies else "cudaLaunchKernel")
        name = kernel(op.kind, backward=op.backward)
        args = {**link, "correlation": number}
        if copies:
            args |= {"bytes": op.dur_ns * 20}
        else:
            args |= {"grid": [1056, 1, 1], "block": [128, 1, 1], "blocks per SM": 8.0}
        self._device(op, "gpu_memcpy" if copies else "kernel", name, (op.start_ns, op.dur_ns), args)

    def _device(
        self,
        op: RankOp,
        category: str,
        name: str,
        span: tuple[int, int],
        args: dict[str, Any],
    ) -> None:
        if self.level == "kernels":
            if category != "kernel":
                return
            args = {key: args[key] for key in ("grid", "block") if key in args}
        args = {"device": self.device, "context": 1, "stream": op.stream, **args}
        start_ns, dur_ns = span
        launched_ns = op.launched_ns
        place = (self.device, op.stream)
        self.rows.append(Row(start_ns, dur_ns, launched_ns, category, name, place, args, op))

    def _call(self, op: RankOp, call: Call) -> None:
        metadata = self._metadata(op, call)
        link: dict[str, Any] = {}
        if op.kind in OPERATORS:
            link = self._operator(op, OPERATORS[op.kind])
        if op.kind in ANNOTATIONS:
            if self.level == "full" and metadata:
                link = self._operator(op, "record_param_comms", 2_000, **metadata)
            self._operator(op, ANNOTATIONS[op.kind], 4_000)
        if op.kind == "copy_gather":
            self._copies(op, call, link)
            return
        number = self._launch(op, "cudaLaunchKernelExC")
        args = {**link, "correlation": number, "grid": [24, 1, 1], "block": [512, 1, 1]}
        if self.level == "full" and not op.graph:
            args |= {key: value for key, value in metadata.items() if key != "Rank"}
        name = CALL_KERNELS[op.kind]
        start_ns = op.start_ns
        if self.spec.hidden_waits and call.meeting == "all":
            start_ns = max(member.start_ns for member in call.members.values())
        self._device(op, "kernel", name, (start_ns, op.end_ns - start_ns), args)

    def _copies(self, op: RankOp, call: Call, link: dict[str, Any]) -> None:
        """Copies from the peers, once all of them have arrived; no kernel waits."""
        met_ns = max(member.start_ns for member in call.members.values())
        count = len(call.ranks) - 1
        share_ns = (op.end_ns - met_ns) // count
        for nth in range(count):
            number = self._launch(op, "cudaMemcpyAsync", nth * CALL_HOST_NS // (4 * count))
            size = 2 * call.elements // len(call.ranks)
            args = {**link, "correlation": number, "bytes": size}
            start_ns = met_ns + nth * share_ns
            self._device(op, "gpu_memcpy", PEER_COPY, (start_ns, share_ns), args)

    def _metadata(self, op: RankOp, call: Call) -> dict[str, Any]:
        """Arguments of a call as the profiler writes them, {} where it has none."""
        if op.kind not in ANNOTATIONS or op.kind == "batch":
            return {}  # a group of calls is launched when it ends, in none of them
        operation = "_allgather_base" if op.kind == "copy_gather" else op.kind
        transfer = operation in ("send", "recv")
        line = (call.label, call.group, transfer)
        number = self._seqs.get(line, 0) + 1
        self._seqs[line] = number
        size, count = len(call.ranks), call.elements
        received, sent = count, count
        sent_splits: Sequence[int] = ()
        received_splits: Sequence[int] = ()
        if operation == "_allgather_base":
            sent = count // size
        elif operation == "_reduce_scatter_base":
            received = count // size
        elif call.splits:
            place = call.ranks.index(op.rank)
            sent_splits = call.splits[op.rank]
            received_splits = [call.splits[rank][place] for rank in call.ranks]
            sent, received = sum(sent_splits) * 64, sum(received_splits) * 64
        metadata = {
            "Collective name": operation,
            "In msg nelems": sent,
            "Out msg nelems": received,
            "Group size": len(call.group),
            "dtype": "BFloat16",
            "In split size": _list(sent_splits),
            "Out split size": _list(received_splits),
            "Process Group Name": group_name(call, self.names),
            "Process Group Description": DESCRIPTIONS[call.label],
            "Process Group Ranks": _list(call.group),
            "Rank": op.rank,
            "Seq": number,
        }
        if operation == "send":
            metadata["Dst Rank"] = call.ranks[1]
        elif operation == "recv":
            metadata["Src Rank"] = call.ranks[0]
        return metadata


def _list(values: Sequence[int]) -> str:
    if len(values) <= LONGEST_LIST:
        return str(list(values))
    return str(list(values[:LONGEST_LIST]))[:-1] + ", ...]"
