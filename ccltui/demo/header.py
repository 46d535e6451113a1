"""Top-level keys of a trace file beside the events."""

from __future__ import annotations

import hashlib
from typing import Any

from ccltui.demo.profiler_view import BASE_NS
from ccltui.demo.spec import Library, Spec
from ccltui.demo.topology import Topology

NCCL_VERSIONS: dict[Library, str] = {"nccl": "2.27.3", "nccl_old": "2.17.1", "rccl": "2.22.3"}
GPU_NAMES: dict[Library, str] = {
    "nccl": "NVIDIA H100 80GB HBM3",
    "nccl_old": "NVIDIA H100 80GB HBM3",
    "rccl": "AMD Instinct MI300X",
}
_MEMORY_BYTES = {"NVIDIA": 85_018_279_936, "AMD": 206_141_652_992}
_NUM_SMS = {"NVIDIA": 132, "AMD": 304}


def base_ns(spec: Spec) -> int:
    """Base of the times in the file; 0 where the layout has no base."""
    return BASE_NS if spec.layout in ("native", "metadata_last", "one_line", "indent4") else 0


def header(spec: Spec, topology: Topology, rank: int) -> dict[str, Any]:
    """Top-level keys of a rank's file without the events."""
    document: dict[str, Any] = {"schemaVersion": 1}
    document["deviceProperties"] = _devices(spec, topology, rank)
    if spec.layout == "old2021":
        return document
    document["distributedInfo"] = _distributed_info(spec, topology, rank)
    if spec.layout == "integer_us":
        return document
    document["trace_id"] = hashlib.sha256(f"{spec.seed}/{rank}".encode()).hexdigest()[:32].upper()
    document["record_shapes"] = int(spec.metadata != "names_only")
    if spec.with_python:
        document["with_stack"] = 1
    if spec.library == "rccl":
        document |= {"hip_runtime_version": 60_443_483, "roctracer_version": 4.1}
    else:
        document |= {"cuda_runtime_version": 12_080, "cupti_version": 26}
    document["host_name"] = topology.host_name(rank)
    document["displayTimeUnit"] = "ms"
    document["baseTimeNanoseconds"] = BASE_NS
    return document


def trace_name(rank: int) -> str:
    """Name of a rank's file without a suffix for compression."""
    return f"kineto_trace_{rank}.json"


def _devices(spec: Spec, topology: Topology, rank: int) -> list[dict[str, Any]]:
    name = GPU_NAMES[spec.library]
    vendor = name.split()[0]
    host = topology.host_of(rank)
    here = [other for other in range(spec.world_size) if topology.host_of(other) == host]
    return [
        {
            "id": device,
            "name": name,
            "totalGlobalMem": _MEMORY_BYTES[vendor],
            "computeMajor": 9,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "warpSize": 32,
            "numSms": _NUM_SMS[vendor],
        }
        for device in range(len(here))
    ]


def _distributed_info(spec: Spec, topology: Topology, rank: int) -> dict[str, Any]:
    info: dict[str, Any] = {"backend": "nccl", "rank": rank, "world_size": spec.world_size}
    if spec.metadata == "names_only" or spec.layout == "integer_us":
        return info
    groups = topology.groups_of(rank)
    info["pg_count"] = len(topology.groups)
    info["pg_config"] = [
        {
            "pg_name": group.name,
            "pg_desc": group.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(group.ranks),
            "ranks": list(group.ranks),
        }
        for group in groups
    ]
    info["nccl_version"] = NCCL_VERSIONS[spec.library]
    return info
