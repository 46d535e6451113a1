"""Write the rows of a rank as a Kineto trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from ccltui.demo.planted import row_names
from ccltui.demo.planted.job_spec import JobSpec, Level
from ccltui.demo.planted.profiled_rows import Row

BASE_NS = 1_775_078_550_000_000_000
SINCE_NS = 100_000_000_000
"""How long before time 0 recorders of rounded seconds begin to count: 2**-17 s is their step."""
ORIGIN_NS = 600_000_000_000
"""Time 0 of the true clock after the base."""

Groups = dict[tuple[str, tuple[int, ...]], str]


def recorded_ns(spec: JobSpec, host: int, true_ns: int) -> int:
    """Time after the base that a host records for a true time."""
    offsets, drifts = spec.clock_offsets_ns, spec.clock_drifts_ppb
    offset = offsets[host] if host < len(offsets) else 0
    drift = drifts[host] if host < len(drifts) else 0
    return ORIGIN_NS + offset + true_ns + true_ns * drift // 1_000_000_000


def written_ns(spec: JobSpec, time_ns: int) -> int:
    """The same as its file states it, where the recorder rounds."""
    if spec.times == "us":
        return time_ns // 1_000 * 1_000
    if spec.times == "float32":
        since_ns = time_ns - ORIGIN_NS + SINCE_NS
        return int(float(np.float32(since_ns / 1e9)) * 1e9) + ORIGIN_NS - SINCE_NS
    return time_ns


def trace_bytes(spec: JobSpec, rank: int, level: Level, rows: list[Row], groups: Groups) -> bytes:
    """The file of one rank."""
    host = spec.host_of(rank)
    events: list[dict[str, Any]] = []
    for row in rows:
        start_ns, end_ns = (
            written_ns(spec, recorded_ns(spec, host, one))
            for one in (row.start_ns, row.start_ns + row.dur_ns)
        )
        pid, tid = row.place
        events.append(
            {
                "ph": "X",
                "cat": row.category,
                "name": row.name,
                "pid": pid,
                "tid": tid,
                "ts": start_ns / 1_000,
                "dur": (end_ns - start_ns) / 1_000,
                "args": row.args,
            }
        )
    document = {**_header(spec, rank, level, groups), "traceEvents": events}
    return orjson.dumps(document)


def _header(spec: JobSpec, rank: int, level: Level, groups: Groups) -> dict[str, Any]:
    devices = min(spec.gpus_per_node, spec.world_size)
    info: dict[str, Any] = {"backend": "nccl", "rank": rank, "world_size": spec.world_size}
    if level == "full":
        info["pg_count"] = len(groups)
        info["pg_config"] = [
            {
                "pg_name": name,
                "pg_desc": row_names.DESCRIPTIONS[label],
                "backend_config": "cuda:nccl",
                "pg_size": len(ranks),
                "ranks": list(ranks),
            }
            for (label, ranks), name in groups.items()
            if rank in ranks
        ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": device,
                "name": "NVIDIA H100 80GB HBM3",
                "totalGlobalMem": 85_018_279_936,
                "computeMajor": 9,
                "computeMinor": 0,
                "numSms": 132,
            }
            for device in range(devices)
        ],
        "distributedInfo": info,
        "record_shapes": 0,
        "host_name": spec.host_name(rank),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }
