"""Databases of rocprofv3 by the published schema: versions 3 and 4, with known rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

UUID: Final = "_00005f20_2c1c_7d0e_b8d1_0f6fb8e9a4a1"
BASE: Final = 8_819_330_200_000_000
REDUCE: Final = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
_COLUMNS: Final = {
    "metadata": "id tag value",
    "string": "id guid string",
    "info_node": "id guid hash machine_id system_name hostname",
    "info_process": "id guid nid ppid pid init fini start end command environment extdata",
    "info_thread": "id guid nid ppid pid tid name",
    "info_agent": "id guid nid pid type absolute_index logical_index type_index uuid name "
    "model_name vendor_name product_name user_name",
    "info_kernel_symbol": "id guid nid pid code_object_id kernel_name display_name",
    "event": "id guid category_id stack_id parent_stack_id correlation_id call_stack extdata",
    "arg": "id guid event_id position type name value",
    "region": "id guid nid pid tid start end name_id event_id extdata",
    "kernel_dispatch": "id guid nid pid tid agent_id kernel_id dispatch_id queue_id stream_id "
    "start end workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y "
    "grid_size_z event_id",
    "memory_copy": "id guid nid pid tid start end name_id dst_agent_id src_agent_id size queue_id "
    "stream_id event_id",
}
_COLUMNS_4: Final = {
    **_COLUMNS,
    "track": "id guid nid pid tid agent_id queue_id stream_id",
    "timestamp": "id value track_id",
    "region": "id track_id name_id start_id end_id event_id",
    "kernel_dispatch": "id track_id kernel_id dispatch_id start_id end_id workgroup_size_x "
    "workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z event_id",
    "memory_copy": "id track_id name_id start_id end_id dst_agent_id src_agent_id size event_id",
}
CATEGORIES: Final = ("HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "RCCL_API", "HSA_CORE_API",
                     "KERNEL_DISPATCH", "MEMORY_COPY")  # fmt: skip

Row = Mapping[str, object]


class Recording:
    """Rows of one recording; texts are numbered as they are named."""

    def __init__(self, pid: int = 5000, *, environment: str = "{}", host: str = "node-a") -> None:
        self.pid = pid
        self.rows: dict[str, list[dict[str, object]]] = {name: [] for name in _COLUMNS}
        self.texts: dict[str, int] = {}
        self.add("info_node", id=1, hostname=host, machine_id="m", hash=1)
        self.add("info_process", id=1, nid=1, pid=pid, environment=environment)
        self.add("info_thread", id=1, nid=1, pid=1, tid=pid + 7)
        self.add("info_agent", id=1, pid=1, type="CPU", absolute_index=0, type_index=0, name="EPYC")
        for number in (0, 1):
            names = {"name": "gfx942", "product_name": "AMD Instinct MI300X"}
            self.add("info_agent", id=2 + number, pid=1, type="GPU", absolute_index=4 + number,
                     type_index=number, **names)  # fmt: skip

    def add(self, table: str, **values: object) -> int:
        """Add a row; return its id."""
        number = len(self.rows[table]) + 1
        self.rows[table].append({"id": number, "guid": "g", **values})
        return number

    def text(self, value: str) -> int:
        """Return the id of a text."""
        return self.texts.setdefault(value, len(self.texts) + 1)

    def event(self, category: str, stack: int = 0, message: str = "") -> int:
        """Add an event; return its id."""
        extdata = json.dumps({"message": message}) if message else "{}"
        return self.add("event", category_id=self.text(category), stack_id=stack, extdata=extdata)

    def kernel(self, name: str, start: int, end: int, *, agent: int = 2, stack: int = 0) -> None:
        """Add a kernel of 4 groups of 256 work items."""
        known = [row["display_name"] for row in self.rows["info_kernel_symbol"]]
        if name not in known:
            self.add("info_kernel_symbol", display_name=name, kernel_name=f"{name}.kd")
            known.append(name)
        event = self.event("KERNEL_DISPATCH", stack)
        self.add("kernel_dispatch", nid=1, pid=1, tid=1, agent_id=agent, queue_id=1, stream_id=2,
                 kernel_id=known.index(name) + 1, dispatch_id=1, start=start, end=end,
                 workgroup_size_x=256, workgroup_size_y=1, workgroup_size_z=1, grid_size_x=1024,
                 grid_size_y=1, grid_size_z=1, event_id=event)  # fmt: skip

    def copy(self, way: str, start: int, end: int, source: int, target: int, size: int) -> None:
        """Add a copy between two agents."""
        self.add("memory_copy", nid=1, pid=1, tid=1, start=start, end=end, size=size,
                 name_id=self.text(f"MEMORY_COPY_{way}"), src_agent_id=source, dst_agent_id=target,
                 queue_id=1, stream_id=2, event_id=self.event("MEMORY_COPY"))  # fmt: skip

    def region(self, category: str, name: str, start: int, end: int, *, stack: int = 0,
               message: str = "", args: Sequence[tuple[str, str]] = ()) -> None:  # fmt: skip
        """Add a call or a range of a thread, with its arguments."""
        event = self.event(category, stack, message)
        self.add("region", nid=1, pid=1, tid=1, start=start, end=end, name_id=self.text(name),
                 event_id=event)  # fmt: skip
        for position, (key, value) in enumerate(args):
            self.add("arg", event_id=event, position=position, type="x", name=key, value=value)


def steps(recording: Recording, count: int = 5, *, late_ns: int = 0, agent: int = 2) -> None:
    """Add steps of two products and an all-reduce, which ends when the latest began it."""
    for step in range(count):
        begin = BASE + step * 5_000_000
        spans = (
            ("Cijk_Ailk_MT128", begin, begin + 350_000),
            ("Cijk_Ailk_MT64", begin + 400_000, begin + 700_000),
            (REDUCE, begin + 1_000_000 + late_ns, begin + 2_500_000),
        )
        for number, (name, start, end) in enumerate(spans):
            stack = 3 * step + number + 1
            recording.kernel(name, start, end, agent=agent, stack=stack)
            recording.region("HIP_RUNTIME_API_EXT", "hipLaunchKernel", start - 9000, start - 2000,
                             stack=stack)  # fmt: skip


def write(path: Path, *recordings: Recording, version: int = 3, suffix: str = UUID,
          views: bool = True) -> Path:  # fmt: skip
    """Write recordings into a database, each under an identifier of its own."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, recording in enumerate(recordings):
            end = suffix if number == 0 else f"{suffix}_{number}"
            _write_one(connection, recording, end, version)
        if views and suffix:
            for name in _COLUMNS_4 if version == 4 else _COLUMNS:
                connection.execute(
                    f"CREATE VIEW rocpd_{name} AS SELECT * FROM rocpd_{name}{suffix}"
                )
    return path


def _write_one(connection: sqlite3.Connection, one: Recording, end: str, version: int) -> None:
    rows = {name: [dict(row) for row in found] for name, found in one.rows.items()}
    rows["string"] = [{"id": number, "string": text} for text, number in one.texts.items()]
    rows["metadata"] = [{"id": 1, "tag": "schema_version", "value": str(version)}]
    if version == 4:
        _divide(rows)
    for name, columns in (_COLUMNS_4 if version == 4 else _COLUMNS).items():
        names = columns.split()
        declared = ", ".join(
            f'"{column}" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT'
            if column == "id"
            else f'"{column}"'
            for column in names
        )
        connection.execute(f"CREATE TABLE `rocpd_{name}{end}` ({declared})")
        marks = ", ".join("?" * len(names))
        connection.executemany(
            f"INSERT INTO `rocpd_{name}{end}` VALUES ({marks})",
            [[row.get(column) for column in names] for row in rows.get(name, [])],
        )


def _divide(rows: dict[str, list[dict[str, object]]]) -> None:
    """Move times and places of rows to the tables of version 4."""
    rows["track"], rows["timestamp"] = [], []
    place = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")
    for name in ("region", "kernel_dispatch", "memory_copy"):
        for row in rows[name]:
            track = {"id": len(rows["track"]) + 1, **{key: row.pop(key, None) for key in place}}
            rows["track"].append(track)
            row["track_id"] = track["id"]
            for key in ("start", "end"):
                number = len(rows["timestamp"]) + 1
                rows["timestamp"].append({"id": number, "value": row.pop(key)})
                row[f"{key}_id"] = number
