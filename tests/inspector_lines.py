"""Records of NCCL Inspector with known numbers: a job of eight ranks on two hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

START_US: Final = 1_780_000_000_000_000
MIB: Final = 1 << 20
LATE: Final = 5
SLOW_PAIR: Final = (2, 6)
HURRIED_US, WAITED_US = 1000, 4000  # execution of the late rank, and of those that wait for it


def line(
    rank: int,
    perf: Mapping[str, Any],
    *,
    kind: str = "coll_perf",
    second: int = 0,
    comm: tuple[str, str, int, int] | None = None,
    version: str = "v4.0",
) -> str:
    """One line; ``comm`` is id, name, rank in it and number of ranks."""
    ident, name, own, n_ranks = comm or ("0x6f3a91c27d5e08", "default_pg", rank, 8)
    header = {"id": ident, "comm_name": name, "rank": own, "n_ranks": n_ranks, "nnodes": 2}
    metadata = {
        "inspector_output_format_version": version,
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": START_US + second * 1_000_000,
        "hostname": f"node-{'ab'[rank // 4]}",
        "pid": 40_000 + rank,
    }
    value = {"header": header, "metadata": metadata, kind: perf}
    return json.dumps(value, separators=(",", ":")) + "\n"


def call(operation: str, number: int, size: int, exec_us: int) -> dict[str, Any]:
    """The payload of a collective."""
    return {
        "coll": operation,
        "coll_sn": number,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": exec_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.5,
        "coll_busbw_gbs": 1.5,
    }


def records(rank: int, *, slow: float = 1, left_out: Sequence[int] = ()) -> list[str]:
    """Sixty seconds of one rank, a collective of each kind a second.

    From second 30 on rank 5 arrives 3 ms after the others; the pair (2, 6) has 5 GB/s, others 16.
    """
    pair = (f"0xa1b2c3d4e5f6{rank % 4}7", "mesh_dp", rank // 4, 2)
    found = []
    for second in range(60):
        if second in left_out:
            continue
        waits = second >= 30 and rank != LATE
        reduced = int((WAITED_US if waits else HURRIED_US) * slow)
        gathered = int((3200 if rank in SLOW_PAIR else 1000) * slow)
        found += [
            line(rank, call("AllReduce", second + 1, 64 * MIB, reduced), second=second),
            line(
                rank, call("AllGather", second + 1, 16_000_000, gathered), second=second, comm=pair
            ),
        ]
    return found


def write_job(
    folder: Path,
    *,
    slow: float = 1,
    turned: bool = False,
    left_out: Mapping[int, Sequence[int]] = {},
) -> Path:
    """Write the logs of all ranks; ``left_out`` are seconds without a record, by rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(8):
        lines = records(rank, slow=slow, left_out=left_out.get(rank, ()))
        path = folder / f"node-{'ab'[rank // 4]}-pid{40_000 + rank}.log"
        path.write_text("".join(lines[::-1] if turned else lines))
    return folder
