"""Names of tables and columns in SQLite exports of nsys 2020 to 2026.

A release adds columns, seldom renames one, and omits tables without rows. Each column is therefore
a list of names, newest first; a column that a file lacks is read as missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNCHRONISATIONS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
API_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX: Final = "NVTX_EVENTS"
OS_CALLS: Final = "OSRT_API"
GPU_METRICS: Final = "GPU_METRICS"
GENERIC: Final = "GENERIC_EVENTS"  # GPU metrics before GPU_METRICS existed
GPU_COUNTERS: Final = "TARGET_INFO_GPU_METRICS"
STRINGS: Final = "StringIds"
CAPTURE: Final = "META_DATA_CAPTURE"
SESSION: Final = "TARGET_INFO_SESSION_START_TIME"
SYSTEM: Final = "TARGET_INFO_SYSTEM_ENV"
GPUS: Final = "TARGET_INFO_GPU"
CUDA_DEVICES: Final = "TARGET_INFO_CUDA_DEVICE"
DIAGNOSTICS: Final = "DIAGNOSTIC_EVENT"
EXPORT: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # 2023 on; 2021 and 2022

PUSHED: Final = 59
"""A range that began and ended on one thread."""
RANGES: Final = (PUSHED, 60, 70, 71)  # push/pop, start/end, and both as imported
DOMAIN_CREATED: Final = 75
PID_BITS: Final = 24
"""Bits of a thread, and of its process above them, in ``globalTid``."""
OS_CALL: Final = 27  # 31 and 32 mark where profiling starts and stops
DRIVER: Final = 1

COPY_KINDS: Final = {
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
SYNC_KINDS: Final = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
FILL_NAME: Final = "[CUDA memset]"


def copy_name(kind: int) -> str:
    """Return the name of a copy, the same for all releases: "[CUDA memcpy Host-to-Device]"."""
    return f"[CUDA memcpy {COPY_KINDS.get(kind, 'Unknown')}]"


def sync_name(kind: int) -> str:
    """Return the name of a synchronisation."""
    return SYNC_KINDS.get(kind, "Sync")


class Source(Struct, frozen=True):
    """Mapping from the columns of one table to the columns of events.

    Each field lists the columns that may hold it, newest name first; () means the table has
    none. Where a table has no string id as a name, ``label`` names rows by their ``kind``.
    """

    table: str
    name: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    stream: tuple[str, ...] = ()
    process: tuple[str, ...] = ("globalPid",)
    correlation: tuple[str, ...] = ("correlationId",)
    grid: tuple[str, ...] = ()  # the product of all of them is the blocks of a launch
    label: Callable[[int], str] = str
    only: tuple[str, tuple[int, ...]] | None = None  # column and the values that rows must have


_STREAM: Final = ("streamId",)
_DEVICE: Final = ("deviceId",)

KERNEL_ROWS: Final = Source(
    KERNELS,
    name=("demangledName", "shortName", "mangledName"),
    device=_DEVICE,
    stream=_STREAM,
    grid=("gridX", "gridY", "gridZ"),
)
COPY_ROWS: Final = Source(
    COPIES, kind=("copyKind",), bytes=("bytes",), device=_DEVICE, stream=_STREAM, label=copy_name
)
FILL_ROWS: Final = Source(
    FILLS, bytes=("bytes",), device=_DEVICE, stream=_STREAM, label=lambda _: FILL_NAME
)
GRAPH_ROWS: Final = Source(
    GRAPHS,
    kind=("graphId",),
    device=_DEVICE,
    stream=_STREAM,
    label=lambda graph: f"[CUDA graph {graph}]" if graph >= 0 else "[CUDA graph]",
)
SYNC_ROWS: Final = Source(
    SYNCHRONISATIONS,
    kind=("syncType", "deprecatedSyncType"),
    device=_DEVICE,
    stream=_STREAM,
    label=sync_name,
)
API_ROWS: Final = Source(API_CALLS, name=("nameId",), kind=("eventClass",), process=("globalTid",))
OS_ROWS: Final = Source(
    OS_CALLS,
    name=("nameId",),
    process=("globalTid",),
    correlation=(),
    only=("eventClass", (OS_CALL,)),
)

ENVIRONMENT_KEYS: Final = (
    "RANK",
    "WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NODEID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
)
"""The only environment variables of the profiled processes that are read."""
