"""Chrome traces as XLA writes them for the TPUs or the GPUs of a host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STEPS, MODULES, OPERATIONS, ASYNCHRONOUS = 1, 2, 3, 4
_ROWS = {1: "Steps", 2: "XLA Modules", 3: "XLA Ops", 4: "Async XLA Ops"}


def label(pid: int, process: str, tid: int | None = None, thread: str = "") -> dict[str, Any]:
    name = "process_name" if tid is None else "thread_name"
    return {"ph": "M", "pid": pid, "tid": tid, "name": name, "args": {"name": thread or process}}


def complete(pid: int, tid: int, name: str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": {}}


def device(number: int, late: float = 0.0, *, beside: bool = True) -> list[dict[str, Any]]:
    """Two steps of 100 µs: 60 µs of fusion, 30 µs of an all-reduce, 20 of them hidden."""
    pid = 3 + number
    rows = _ROWS if beside else {k: v for k, v in _ROWS.items() if k != ASYNCHRONOUS}
    events = [label(pid, f"/device:TPU:{number}")]
    events += [label(pid, "", tid, thread) for tid, thread in rows.items()]
    for step, at in enumerate((late, 100.0 + late)):
        events += [
            complete(pid, STEPS, str(step + 7), at, 100),
            complete(pid, MODULES, "jit_train_step(123)", at, 100),
            complete(pid, OPERATIONS, "all-reduce-start.1", at, 1),
            complete(pid, OPERATIONS, "fusion.12", at + 1, 60),
            complete(pid, OPERATIONS, "all-reduce-done.1", at + 61, 10),
            complete(pid, OPERATIONS, "copy.3", at + 90, 10),
        ]
        if beside:
            events.append(complete(pid, ASYNCHRONOUS, "all-reduce-start.1", at + 41, 30))
    return events


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def gpu(number: int, compute_us: float = 60.0, *, host: str = "") -> list[dict[str, Any]]:
    """Two passes of 100 µs: a copy, computation, and an all-reduce that ends at 90 for all."""
    pid = 1 + number
    rows = {7: "XLA Modules", 8: "XLA Ops", 13: "Stream #13(Compute)", 20: "Stream #20(Compute)"}
    events = [label(pid, f"{host}/device:GPU:{number}")]
    events += [label(pid, "", tid, thread) for tid, thread in rows.items()]
    for at in (0.0, 100.0):
        events += [
            complete(pid, 7, "jit_train_step(5)", at, 100),
            complete(pid, 8, "dot.1", at + 10, compute_us),
            complete(pid, 13, "MemcpyH2D", at, 5),
            complete(pid, 13, "gemm_fusion_dot_1", at + 10, compute_us),
            complete(pid, 20, NCCL, at + 10 + compute_us, 80 - compute_us),
        ]
    return events


def written(path: Path, *devices: list[dict[str, Any]]) -> Path:
    host = [label(99, "/host:CPU"), complete(99, 1, "TfrtCpuExecutable::Execute", 0, 50)]
    events = [event for one in devices for event in one]
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events + host}))
    return path
