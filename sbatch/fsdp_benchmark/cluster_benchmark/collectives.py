"""Measure the bus bandwidth of all-reduce and all-to-all over all ranks.

The factors are those of nccl-tests (PERFORMANCE.md there): 2(n-1)/n for all-reduce and (n-1)/n
for all-to-all, with the size being that of one rank's buffer.
"""

from __future__ import annotations

from typing import Final

import torch
import torch.distributed as dist

from cluster_benchmark.row import GB, Row
from cluster_benchmark.world import World

CATEGORY: Final = "Inter-GPU Communication"
_REPEATS: Final = 20
_WARMUP: Final = 5


def measure(world: World, message_bytes: int) -> list[Row]:
    """Return the rows of both collectives; without values for a single rank."""
    kind = "GPUs" if world.device.type == "cuda" else "ranks"
    rows = [
        Row(
            id=name,
            category=CATEGORY,
            test=f"{title} ({world.size} {kind})",
            value=None,
            unit="GB/s",
            unit_bytes=GB,
            ranks=world.size,
            marks=world.marks if len(world.nodes) > 1 else (*world.marks, "same_node"),
            method=f"bus bandwidth: size x {factor} / t, {message_bytes} bytes a rank; "
            f"synchronised, slowest rank, median of {_REPEATS}",
        )
        for name, title, factor in (
            ("allreduce", "All-reduce", "2(n-1)/n"),
            ("alltoall", "All-to-all", "(n-1)/n"),
        )
    ]
    if world.size < 2:
        return [row.refused("a single rank has nobody to talk to") for row in rows]
    held = torch.zeros(message_bytes // 4, dtype=torch.float32, device=world.device)
    share = held.numel() // world.size
    sent, received = held[: share * world.size], torch.empty_like(held[: share * world.size])
    reduced = world.seconds(lambda: dist.all_reduce(held), warmup=_WARMUP, repeats=_REPEATS)
    swapped = world.seconds(
        lambda: dist.all_to_all_single(received, sent), warmup=_WARMUP, repeats=_REPEATS
    )
    around = (world.size - 1) / world.size
    return [
        rows[0].measured([held.nbytes * 2 * around / one / GB for one in reduced]),
        rows[1].measured([sent.nbytes * around / one / GB for one in swapped]),
    ]
