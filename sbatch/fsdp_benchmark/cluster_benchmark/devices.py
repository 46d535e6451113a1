"""Measure each GPU alone: memory bandwidth and matrix products in three precisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import torch

from cluster_benchmark.row import GB, Row
from cluster_benchmark.world import World

_COPY_BYTES: Final = 1 << 30
_SIZE: Final = 8192
_REPEATS: Final = 20
_WARMUP: Final = 10
"""The first multiplications load and choose kernels: measured, they make a good GPU look broken."""
_PRECISIONS: Final = (
    ("matmul_fp32", "Compute (FP32 matmul)", torch.float32, False),
    ("matmul_tf32", "Compute (TF32 matmul)", torch.float32, True),
    ("matmul_bf16", "Compute (BF16 matmul)", torch.bfloat16, False),
)


def measure(world: World) -> list[Row]:
    """Return the rows of the device of every rank, on every rank."""
    own = _rows(world)
    if world.device.type != "cuda":
        rows = [row.refused("no CUDA device") for row in own]
    else:
        rows = _measured(world, own)
    return [row for rows_of_rank in world.gathered(rows) for row in rows_of_rank]


def _rows(world: World) -> list[Row]:
    place = "" if world.host == world.nodes[0] else f" ({world.host})"
    shared = {
        "category": f"GPU {world.local_rank}{place}",
        "value": None,
        "host": world.host,
        "device": world.local_rank,
        "marks": world.marks,
    }
    copy = Row(
        id="gpu_memory_bandwidth",
        test="Memory bandwidth",
        unit="GB/s",
        unit_bytes=GB,
        method=f"bytes read and written by a copy of {_COPY_BYTES} bytes; median of {_REPEATS}",
        **shared,  # type: ignore[arg-type]
    )
    multiply = [
        Row(
            id=name,
            test=test,
            unit="TFLOPS",
            method=f"2 n^3 / t, n = {_SIZE}; {_WARMUP} before, then median of {_REPEATS}",
            **shared,  # type: ignore[arg-type]
        )
        for name, test, _, _ in _PRECISIONS
    ]
    return [copy, *multiply]


def _measured(world: World, rows: list[Row]) -> list[Row]:
    found = [rows[0].measured([2 * _COPY_BYTES / one / GB for one in _copying(world)])]
    for row, (_, _, dtype, tensor_float) in zip(rows[1:], _PRECISIONS, strict=True):
        if tensor_float and torch.cuda.get_device_capability(world.device) < (8, 0):
            found.append(row.refused("TF32 needs compute capability 8.0"))
            continue
        one = torch.randn(_SIZE, _SIZE, dtype=dtype, device=world.device)
        with _tensor_float(tensor_float):
            taken = _seconds(lambda held=one: held @ held)  # type: ignore[misc]
        found.append(row.measured([2 * _SIZE**3 / seconds / 1e12 for seconds in taken]))
    return found


def _copying(world: World) -> list[float]:
    held = torch.ones(_COPY_BYTES, dtype=torch.uint8, device=world.device)
    other = torch.empty_like(held)
    return _seconds(lambda: other.copy_(held))


@contextmanager
def _tensor_float(allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _seconds(work: Callable[[], object]) -> list[float]:
    """Return the device seconds of ``work``, from events on its stream."""
    for _ in range(_WARMUP):
        work()
    samples = []
    for _ in range(_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) / 1e3)
    return samples
