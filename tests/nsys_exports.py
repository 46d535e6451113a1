"""Exports of nsys made by hand: small sqlite files whose truth is what the test wrote.

>>> export = Export(start_utc_ns=1_000)
>>> rank0 = export.process(100)
>>> rank0.kernel("gemm", 10, 40, device=0)
>>> export.write(path)
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct, field

SECRET = "hf_planted0secret0value"
COMMUNICATOR = 0xFEDC_BA98_7654_3210
"""Above 2**63, as about half of NCCL's are."""

TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA_CAPTURE": "name TEXT, value TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT, nameEnum INTEGER, value TEXT",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, bytes INTEGER, copyKind INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, bytes INTEGER, value INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, "
        "globalPid INTEGER, syncType INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start INTEGER, end INTEGER, deviceId INTEGER, graphId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, "
        "globalTid INTEGER, domainId INTEGER, jsonText TEXT, binaryData TEXT"
    ),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": (
        "domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, "
        "arrayOrUnionDetail INTEGER, offset INTEGER"
    ),
    "OSRT_API": (
        "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER"
    ),
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": (
        "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT"
    ),
    "GENERIC_EVENTS": "timestamp INTEGER, typeId INTEGER, data TEXT",
    "MPI_RANKS": "globalTid INTEGER, rank INTEGER",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, severity INTEGER, text TEXT",
}


class Export(Struct):
    """A recording; tables without rows are left out, as nsys leaves them out."""

    start_utc_ns: int | None = 1_700_000_000_000_000_000
    host: str = "node1"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    drop_columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment("HF_TOKEN", SECRET)
        self.add("StringIds", id=900_001, value=f"HF_TOKEN={SECRET}")
        self.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=self.host)
        self.add("TARGET_INFO_SYSTEM_ENV", name="Env", value=SECRET)
        if self.start_utc_ns is not None:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=self.start_utc_ns)

    def add(self, table: str, **values: Any) -> None:
        self.rows.setdefault(table, []).append(values)

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.add("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def environment(self, key: str, value: str) -> None:
        self.add(
            "META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=f'{key}="{value}"'
        )

    def process(self, pid: int, tid: int | None = None) -> Process:
        return Process(self, pid, pid if tid is None else tid)

    def write(self, path: Path) -> Path:
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, rows in self.rows.items():
                dropped = self.drop_columns.get(table, ())
                declared = [c.strip() for c in TABLES[table].split(",")]
                kept = [c for c in declared if c.split()[0] not in dropped]
                connection.execute(f"CREATE TABLE {table} ({', '.join(kept)})")
                names = [c.split()[0] for c in kept]
                marks = ", ".join("?" * len(names))
                connection.executemany(
                    f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
                    [[row.get(name) for name in names] for row in rows],
                )
        return path


class Process(Struct):
    """One process of a recording, on one thread; times are ns of the session."""

    export: Export
    pid: int
    tid: int
    launches: int = 0  # every process counts its own: correlations repeat between them

    @property
    def global_pid(self) -> int:
        return self._signed(self.pid << 24)

    @property
    def global_tid(self) -> int:
        return self._signed(self.pid << 24 | self.tid)

    @staticmethod
    def _signed(low: int) -> int:
        # The bits of the virtual machine above make real ids negative now and then.
        return (0x80FF << 48 | low) - (1 << 64)

    def kernel(
        self,
        name: str,
        start: int,
        end: int,
        *,
        device: int = 0,
        stream: int = 7,
        launched: int | None = None,
    ) -> None:
        """A kernel, with the call that launched it at ``launched`` for 2 ns, if given."""
        self.export.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=start,
            end=end,
            deviceId=device,
            contextId=1,
            streamId=stream,
            correlationId=self._launch(launched, "cudaLaunchKernel_v7000"),
            globalPid=self.global_pid,
            demangledName=self.export.string(name),
            shortName=self.export.string(name.partition("(")[0]),
        )

    def copy(
        self, start: int, end: int, size: int, *, kind: int = 1, device: int = 0, stream: int = 7
    ) -> None:
        self.export.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=start,
            end=end,
            deviceId=device,
            streamId=stream,
            correlationId=0,
            globalPid=self.global_pid,
            bytes=size,
            copyKind=kind,
        )

    def fill(self, start: int, end: int, size: int, *, device: int = 0, stream: int = 7) -> None:
        self.export.add(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            start=start,
            end=end,
            deviceId=device,
            streamId=stream,
            globalPid=self.global_pid,
            bytes=size,
        )

    def range(
        self,
        text: str,
        start: int,
        end: int | None,
        *,
        domain: int = 0,
        payload: dict[str, Any] | None = None,
        blob: bytes | None = None,
        registered: bool = False,
    ) -> None:
        self.export.add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=59,
            text=None if registered else text,
            textId=self.export.string(text) if registered else None,
            globalTid=self.global_tid,
            domainId=domain,
            jsonText=None if payload is None else json.dumps(payload),
            binaryData=blob,
        )

    def domain(self, number: int, name: str) -> None:
        self.export.add(
            "NVTX_EVENTS",
            start=0,
            eventType=75,
            text=name,
            globalTid=self.global_tid,
            domainId=number,
        )

    def nccl(self, rank: int, num_ranks: int, *, communicator: int = COMMUNICATOR) -> None:
        """The domain NCCL, and the creation of a communicator."""
        self.domain(1, "NCCL")
        payload = {
            "NCCL communicator ID": communicator,
            "No. of ranks": num_ranks,
            "Rank": rank,
            "CUDA device": 0,
        }
        self.range("ncclCommInitRankConfig", 0, 5, domain=1, payload=payload)

    def collective(
        self,
        name: str,
        start: int,
        end: int,
        *,
        size: int | None = None,
        communicator: int = COMMUNICATOR,
        **more: Any,
    ) -> None:
        payload = None
        if size is not None:
            stated = {"NCCL communicator ID": communicator, "Message size [bytes]": size}
            payload = {**stated, **more}
        self.range(name, start, end, domain=1, payload=payload, registered=True)

    def os_call(self, name: str, start: int, end: int, *, event_class: int = 27) -> None:
        self.export.add(
            "OSRT_API",
            start=start,
            end=end,
            eventClass=event_class,
            globalTid=self.global_tid,
            nameId=self.export.string(name),
        )

    def _launch(self, at: int | None, name: str) -> int:
        if at is None:
            return 0
        self.launches += 1
        self.export.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=at,
            end=at + 2,
            eventClass=0,
            globalTid=self.global_tid,
            correlationId=self.launches,
            nameId=self.export.string(name),
        )
        return self.launches
