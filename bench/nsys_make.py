"""Write a large export of Nsight Systems: one node of eight GPUs, one step repeated.

Rows are multiplied by SQL inside the database, so that gigabytes take a minute.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

RANKS: Final = 8
_KERNELS: Final = 200  # of each rank in a step
_COLLECTIVES: Final = 8
_STEP_NS: Final = 2_000_000
_KERNEL_NS: Final = 6_000
_STEP_BYTES: Final = 387_300  # size of the rows of one step in the file
_LATE_BY: Final = 5 * RANKS  # rows; enough that rows of the same process come before
_FIRST_PID: Final = 4_000
_VIRTUAL_MACHINE: Final = 0x80FF << 48
_COMMUNICATOR: Final = 0x1234_5678_9ABC_DEF0
_FIRST_UTC_NS: Final = 1_700_000_000_000_000_000

_STRINGS: Final = (
    "cudaLaunchKernel_v7000",
    "cudaEventRecord_v3020",
    "ncclAllReduce",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "read",
    *(f"void gemm_{index}<float, 128, 128, 8>(float const*, float*)" for index in range(40)),
)
_NAMES: Final = {text: index + 1 for index, text in enumerate(_STRINGS)}
_LAUNCH, _RECORD, _ALL_REDUCE, _COLLECTIVE, _READ = range(1, 6)

_KERNEL_COLUMNS: Final = (
    *("start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId"),
    *("globalPid", "demangledName", "shortName", "mangledName", "launchType", "cacheConfig"),
    *("registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
    *("staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal"),
    *("gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig"),
    *("qmdBulkReleaseDone", "qmdPreexitDone", "qmdLastCtaDone", "graphId"),
    *("clusterX", "clusterY", "clusterZ", "clusterSchedulingPolicy"),
)
_CALL_COLUMNS: Final = (
    *("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
    "callchainId",
)
_OS_COLUMNS: Final = (*_CALL_COLUMNS[:4], "correlationId", "nameId", "returnValue", "callchainId")
_RANGE_COLUMNS: Final = (
    *("start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid"),
    *("endGlobalTid", "textId", "domainId", "uint64Value", "int64Value", "doubleValue"),
    *("uint32Value", "int32Value", "floatValue", "jsonTextId", "jsonText", "binaryData"),
)
_TABLES: Final = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL_COLUMNS,
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNEL_COLUMNS,
    "NVTX_EVENTS": _RANGE_COLUMNS,
    "OSRT_API": _OS_COLUMNS,
}
_TEXTS: Final = ("text", "jsonText", "binaryData")
_MOVED: Final = {"start": _STEP_NS, "end": _STEP_NS, "correlationId": _KERNELS * 2}

Row = Sequence[int | str | None]


def export(path: Path, megabytes: int) -> int:
    """Write an export of about ``megabytes`` (1e6 bytes); return the number of its events."""
    steps = max(megabytes * 1_000_000 // _STEP_BYTES, 1)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for pragma in ("page_size = 4096", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {pragma}")
        _facts(database)
        return sum(
            _multiplied(database, table, columns, steps) for table, columns in _TABLES.items()
        )


def _facts(database: sqlite3.Connection) -> None:
    create = (
        "StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
        "META_DATA_EXPORT (name TEXT, value TEXT)",
        "TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)",
        "TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER)",
    )
    for table in create:
        database.execute(f"CREATE TABLE {table}")
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(_STRINGS, 1))
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2026.3.1')")
    database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (_FIRST_UTC_NS,))
    gpus = [(rank, "NVIDIA H100 80GB HBM3", 80 << 30, 132) for rank in range(RANKS)]
    database.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?)", gpus)


def _multiplied(
    database: sqlite3.Connection, table: str, columns: Sequence[str], steps: int
) -> int:
    """Write one table: rows before the steps, then those of a step repeated; return its rows."""
    types = ", ".join(f'"{name}" {"TEXT" if name in _TEXTS else "INTEGER"}' for name in columns)
    marks = ", ".join("?" * len(columns))
    rows = sorted(_step_rows(table), key=lambda row: row[0] or 0)
    # One late row, as nsys writes a few.
    rows.insert(len(rows) // 3 + _LATE_BY, rows.pop(len(rows) // 3))
    first = list(_first_rows()) if table == "NVTX_EVENTS" else []
    database.execute(f"CREATE TABLE {table} ({types})")
    database.execute(f"CREATE TEMP TABLE pattern ({types})")
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", first)
    database.executemany(f"INSERT INTO pattern VALUES ({marks})", rows)
    moved = ", ".join(_moved(name) for name in columns)
    with database:
        database.execute(
            "WITH RECURSIVE steps(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM steps"
            f" WHERE k + 1 < ?) INSERT INTO {table} SELECT {moved} FROM steps CROSS JOIN pattern",
            (steps,),
        )
    database.execute("DROP TABLE pattern")
    return len(first) + steps * len(rows)


def _moved(name: str) -> str:
    """Return the SQL expression of a column in step k."""
    if name == "text":
        return "CASE text WHEN 'step' THEN 'step ' || k ELSE text END"
    return f'"{name}" + k * {_MOVED[name]}' if name in _MOVED else f'"{name}"'


def _step_rows(table: str) -> Iterator[Row]:
    make = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": _calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": _kernels,
        "NVTX_EVENTS": _ranges,
        "OSRT_API": _os_calls,
    }[table]
    for rank in range(RANKS):
        yield from make(rank)


def _thread(rank: int) -> int:
    pid = _FIRST_PID + rank
    return (_VIRTUAL_MACHINE | pid << 24 | pid) - (1 << 64)


def _begin(rank: int, index: int) -> int:
    """Return when a rank launches a kernel; rank 5 is late for the collectives."""
    late = 3_000 if rank == 5 and _collective(index) else 0
    return 10_000 + index * (_STEP_NS - 100_000) // _KERNELS + rank * 37 + late


def _collective(index: int) -> bool:
    every = _KERNELS // _COLLECTIVES
    return index % every == every - 1


def _calls(rank: int) -> Iterator[Row]:
    for index in range(_KERNELS):
        begin, number = _begin(rank, index), 2 * index + 1
        thread = _thread(rank)
        yield (begin, begin + 1_500, 0, thread, number, _LAUNCH, 0, None)
        yield (begin + 1_800, begin + 2_300, 0, thread, number + 1, _RECORD, 0, None)


def _kernels(rank: int) -> Iterator[Row]:
    process = _thread(rank) & ~0xFFFFFF
    for index in range(_KERNELS):
        begin = _begin(rank, index) + 4_000
        end, name, stream = begin + _KERNEL_NS, 6 + index % 40, 7
        if _collective(index):
            end, name, stream = 20_000 + _begin(0, index) + _KERNEL_NS, _COLLECTIVE, 13
        details = (name, name, 0, 0, 96, 64, 16, 1, 256, 1, 1, 0, 49152, 0, 0, 0, 65536)
        yield (
            *(begin, end, rank, 1, None, stream, 2 * index + 1, process, name),
            *details,
            *(None, 0, None, None, None, None, 1, 1, 1, 0),
        )


def _range(rank: int, begin: int, end: int, **known: int | str) -> Row:
    given: dict[str, int | str] = {
        "start": begin,
        "end": end,
        "eventType": 59,
        "globalTid": _thread(rank),
        "domainId": 0,
        **known,
    }
    return [given.get(name) for name in _RANGE_COLUMNS]


def _ranges(rank: int) -> Iterator[Row]:
    yield _range(rank, 1_000, _STEP_NS - 10_000, text="step")
    sizes = f'{{"NCCL communicator ID":{_COMMUNICATOR},"Message size [bytes]":67108864}}'
    for index in range(_KERNELS):
        begin = _begin(rank, index)
        if _collective(index):
            known: dict[str, int | str]
            known = {"textId": _ALL_REDUCE, "domainId": 1, "jsonText": sizes}
            yield _range(rank, begin - 500, begin + 1_700, **known)
        else:
            text = f"model.layers.{index // 8}.mlp.{index % 8}"
            yield _range(rank, begin - 500, begin + 2_500, text=text)


def _first_rows() -> Iterator[Row]:
    for rank in range(RANKS):
        domain: dict[str, int | str]
        domain = {"eventType": 75, "text": "NCCL", "globalTid": _thread(rank), "domainId": 1}
        yield [0 if name == "start" else domain.get(name) for name in _RANGE_COLUMNS]
        payload = (
            f'{{"NCCL communicator ID":{_COMMUNICATOR},"No. of ranks":{RANKS},"Rank":{rank},'
            f'"CUDA device":{rank}}}'
        )
        yield _range(rank, 10, 500, text="ncclCommInitRankConfig", domainId=1, jsonText=payload)


def _os_calls(rank: int) -> Iterator[Row]:
    for index in range(_KERNELS // 4):
        begin = _begin(rank, 4 * index) + 100
        yield (begin, begin + 900, 27, _thread(rank) + 1, None, _READ, 0, None)
