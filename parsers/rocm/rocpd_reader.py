"""Read a database of rocprofv3 (rocpd) as traces: one rank for each device of a process.

SQLite itself writes its rows as the tables of an export of nsys, which its reader then reads: no
row becomes an object of Python, so memory does not grow with the file. Tables are found by their
names, with or without the identifier of a recording behind them; one file may hold several
recordings. Views are not read: they only join these tables.

Source: schema of rocpd, versions 3 and 4, in rocprofiler-sdk (rocpd_tables.sql). Version 4 keeps
times in rocpd_timestamp, and thread and device in rocpd_track.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Unpack

import msgspec
from msgspec import Struct, field, structs

from ccltui.parsers.columns import Note, RankTrace
from ccltui.parsers.errors import TraceError, raise_if
from ccltui.parsers.format import ReadOptions
from ccltui.parsers.nsys.report_export import read_made_export
from ccltui.parsers.nsys.sqlite import export_schema
from ccltui.parsers.nsys.sqlite.database import (
    MAX_CELL_BYTES,
    STEPS_BETWEEN_CHECKS,
    damage_of,
    read_only_uri,
    require_finished,
)
from ccltui.parsers.nsys.sqlite.table_scans import decoded, quoted
from ccltui.parsers.rocm import TABLE
from ccltui.parsers.rocm.kernel_trace import as_rocprof
from ccltui.parsers.safe_text import printable

_MOST_TABLES: Final = 2000
_MOST_SMALL_ROWS: Final = 1 << 16  # processes, agents and hosts of one recording
_MOST_PIDS: Final = 1 << 22
_MOST_TIME: Final = 1 << 62
_GROUP_BITS: Final = 40
_NAME_BITS: Final = 32
"""Ids of texts: the recording, whether it is the name of a kernel, and the id in its table."""
_UNKNOWN_NAME: Final = 1
_COPIES: Final = {
    "HOST_TO_DEVICE": 1, "DEVICE_TO_HOST": 2, "DEVICE_TO_DEVICE": 8, "HOST_TO_HOST": 9,
}  # fmt: skip
_DOMAIN: Final = export_schema.DOMAIN_CREATED
_NCCL: Final = 1  # number of the domain of RCCL's calls; 0 is the default domain
_HOST: Final = re.compile(r"[\w.-]{1,255}")
_VARIABLE: Final = re.compile(r'"?(\d{1,7})"?')
_SIZES: Final = {
    **{"0": 1, "1": 1, "2": 4, "3": 4, "4": 8, "5": 8, "6": 2, "7": 4, "8": 8, "9": 2},
    **{"10": 1, "11": 1, "int8": 1, "char": 1, "uint8": 1, "int32": 4, "int": 4, "uint32": 4},
    **{"int64": 8, "uint64": 8, "float16": 2, "half": 2, "float32": 4, "float": 4, "float64": 8},
    **{"double": 8, "bfloat16": 2, "float8e4m3": 1, "float8e5m2": 1},
}
"""Bytes of ncclDataType_t by number and by name in lower case."""
_TARGETS: Final = {
    export_schema.KERNELS: "start end deviceId streamId correlationId globalPid demangledName "
    "gridX gridY gridZ",
    export_schema.COPIES: "start end deviceId streamId correlationId globalPid bytes copyKind",
    export_schema.API_CALLS: "start end globalTid correlationId nameId eventClass",
    export_schema.NVTX: "start end eventType text jsonText globalTid domainId",
}


def read_rocpd(path: Path, **options: Unpack[ReadOptions]) -> Sequence[RankTrace]:
    """Read a database: one trace for each device that a process used.

    Raises:
        TraceError: It is no such database, is damaged, or holds no work of a device and no call.
        CancelledError: It was asked for.
    """
    conversion = _Conversion(path, options.get("shown", str(path)), options.get("cancelled"))
    ranks = read_made_export(path, conversion.write, **options)
    return [_completed(as_rocprof(rank, conversion.notes()), conversion) for rank in ranks]


def _completed(rank: RankTrace, found: _Conversion) -> RankTrace:
    hosts = set(found.hosts)
    return structs.replace(
        rank,
        truncated=rank.truncated or found.damage is not None,
        host=hosts.pop() if len(hosts) == 1 else rank.host,
    )


class _Recording(Struct):
    """The tables of one recording: name and columns by what they hold."""

    number: int
    tables: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)

    def has(self, base: str, *columns: str) -> bool:
        """Return whether there is a table with these columns."""
        return base in self.tables and self.tables[base][1].issuperset(columns)

    def source(self, base: str) -> str:
        """Return a table as it is named in a query."""
        return f"source.{quoted(self.tables[base][0])}"

    @property
    def first_id(self) -> int:
        """Return the id of its first text."""
        return self.number << _GROUP_BITS

    @property
    def first_kernel(self) -> int:
        """Return the id of its first name of a kernel."""
        return self.first_id + (1 << _NAME_BITS)


class _Conversion:
    """Writes a database as the tables of an export of nsys."""

    def __init__(self, path: Path, shown: str, cancelled: Callable[[], bool] | None = None) -> None:
        self._path, self._shown, self._cancelled = path, shown, cancelled
        self._pids: set[int] = set()
        self._environment: list[Mapping[str, int]] = []
        self.hosts: list[str] = []
        self.dropped = 0
        self.damage: str | None = None

    def notes(self) -> list[Note]:
        """Return what the traces do not hold."""
        message = (
            "read from a database of rocprofv3: without process groups; times are those of the "
            "clock of the host"
        )
        notes = [Note("rocprof_trace", message)]
        if self.damage is not None:
            text = f"pages of the database are damaged, rows may be missing or wrong: {self.damage}"
            notes.append(Note("damaged_database", text))
        if self.dropped:
            text = "rows without a device, or an end after a start, are left out"
            notes.append(Note("rocprof_rows_dropped", text, count=self.dropped))
        return notes

    def write(self, target: Path) -> None:
        """Write the export. Raises TraceError and CancelledError."""
        require_finished(self._path, self._shown)
        with self._guarded(), closing(sqlite3.connect(target, uri=True, timeout=0)) as connection:
            self._connection = connection
            self._prepare()
            recordings = self._recordings()
            if not any(one.tables.keys() & _EVENTS for one in recordings):
                raise TraceError("a database without the tables of rocprofv3", path=self._shown)
            for recording in recordings:
                self._convert(recording)
            self._write_environment()
            connection.commit()
        self.damage = damage_of(self._path, self._cancelled)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, MemoryError, UnicodeDecodeError) as error:
            raise_if(self._cancelled, self._shown)
            why = printable(" ".join(str(error).split())[:200]) or "not enough memory"
            raise TraceError(
                f"cannot be read as a database of rocprofv3 ({why})", path=self._shown
            ) from error

    def _prepare(self) -> None:
        execute = self._connection.execute
        for setting in ("trusted_schema = OFF", "journal_mode = OFF", "synchronous = OFF"):
            execute(f"PRAGMA {setting}")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        self._connection.text_factory = decoded
        self._connection.create_function("message_in", 1, _message, deterministic=True)
        self._connection.create_function("bytes_of", 2, _bytes, deterministic=True)
        if self._cancelled is not None:
            is_cancelled = self._cancelled
            self._connection.set_progress_handler(lambda: int(is_cancelled()), STEPS_BETWEEN_CHECKS)
        execute("ATTACH DATABASE ? AS source", (read_only_uri(self._path),))
        execute("PRAGMA source.mmap_size = 0")  # else a file that shrinks raises SIGBUS
        for table, columns in _TARGETS.items():
            typed = ", ".join(f"{quoted(name)} {_type(name)}" for name in columns.split())
            execute(f"CREATE TABLE {table} ({typed})")
        execute(f"CREATE TABLE {export_schema.STRINGS} (id INTEGER PRIMARY KEY, value TEXT)")
        execute(f"CREATE TABLE {export_schema.GPUS} (id INTEGER PRIMARY KEY, name TEXT)")
        strings = f"INSERT INTO {export_schema.STRINGS} VALUES (?, ?)"
        execute(strings, (_UNKNOWN_NAME, "kernel without a name"))

    def _recordings(self) -> list[_Recording]:
        """Return the recordings of the file, by what stands behind the names of their tables."""
        query = "SELECT name FROM source.sqlite_master WHERE type = 'table' AND sql LIKE ?"
        found: dict[str, _Recording] = {}
        for (name,) in self._connection.execute(query, ("CREATE TABLE%",)).fetchmany(_MOST_TABLES):
            match = TABLE.fullmatch(str(name))
            if match is None:
                continue
            # Columns that are computed are not listed: expressions of a file never run.
            listed = self._connection.execute(f"PRAGMA source.table_info({quoted(str(name))})")
            columns = frozenset(str(row[1]) for row in listed)
            one = found.setdefault(match["suffix"], _Recording(len(found) + 1))
            one.tables[match["base"]] = (str(name), columns)
        return list(found.values())

    def _convert(self, recording: _Recording) -> None:
        self._map_processes(recording)
        self._map_agents(recording)
        self._map(recording, "thread", "info_thread", "tid")
        self._map(recording, "track", "track", "pid", "tid", "agent_id", "queue_id", "stream_id")
        self._map(recording, "moment", "timestamp", "value")
        self._map(recording, "event", "event", "category_id", "stack_id", "correlation_id")
        self._add_texts(recording)
        self._add_kernels(recording)
        self._add_copies(recording)
        self._add_regions(recording)
        for name in ("process", "agent", "thread", "track", "moment", "event"):
            self._connection.execute(f"DROP TABLE map_{name}")

    def _map(self, recording: _Recording, name: str, base: str, *columns: str) -> None:
        """Copy integers of a table by its id: a row is joined once, however often an id occurs."""
        declared = ", ".join(f"{column} INTEGER" for column in columns)
        self._connection.execute(f"CREATE TABLE map_{name} (id INTEGER PRIMARY KEY, {declared})")
        if not recording.has(base, "id"):
            return
        known = recording.tables[base][1]
        values = ", ".join(
            f"CAST({quoted(one)} AS INTEGER)" if one in known else "NULL" for one in columns
        )
        self._connection.execute(
            f"INSERT OR IGNORE INTO map_{name} SELECT CAST(id AS INTEGER), {values} "
            f"FROM {recording.source(base)}"
        )

    def _rows(self, recording: _Recording, base: str, *columns: str) -> list[tuple[object, ...]]:
        """Return the rows of a small table, None for columns that it lacks."""
        if not recording.has(base, "id"):
            return []
        known = recording.tables[base][1]
        listed = ", ".join(quoted(one) if one in known else "NULL" for one in columns)
        query = f"SELECT {listed} FROM {recording.source(base)}"
        return self._connection.execute(query).fetchmany(_MOST_SMALL_ROWS)

    def _map_processes(self, recording: _Recording) -> None:
        """Number processes by their pid, and apart where two hosts have the same."""
        execute = self._connection.execute
        execute("CREATE TABLE map_process (id INTEGER PRIMARY KEY, number INTEGER)")
        for row in self._rows(recording, "info_process", "id", "pid", "environment"):
            number = row[1] if isinstance(row[1], int) and 0 < row[1] < _MOST_PIDS else 1
            while number in self._pids:
                number += 1
            self._pids.add(number)
            if isinstance(row[0], int):
                execute("INSERT OR IGNORE INTO map_process VALUES (?, ?)", (row[0], number))
            self._environment.append(_environment(row[2]))
        for (host,) in self._rows(recording, "info_node", "hostname"):
            if isinstance(host, str) and _HOST.fullmatch(host):
                self.hosts.append(host)

    def _map_agents(self, recording: _Recording) -> None:
        """Number devices among those of the machine, else among all agents, else by their rows."""
        execute = self._connection.execute
        execute("CREATE TABLE map_agent (id INTEGER PRIMARY KEY, device INTEGER)")
        numbers = ("type_index", "absolute_index")
        names = ("product_name", "model_name", "name")
        rows = self._rows(recording, "info_agent", "id", "type", *numbers, *names)
        devices = [row for row in rows if isinstance(row[0], int) and row[1] != "CPU"]
        chosen = next(
            (place for place in (2, 3) if _are_numbers([row[place] for row in devices])), None
        )
        for row in devices:
            device = row[chosen] if chosen is not None else row[0]
            execute("INSERT OR IGNORE INTO map_agent VALUES (?, ?)", (row[0], device))
            name = next((one for one in row[4:] if isinstance(one, str) and one), "AMD GPU")
            execute(f"INSERT OR IGNORE INTO {export_schema.GPUS} VALUES (?, ?)", (device, name))

    def _add_texts(self, recording: _Recording) -> None:
        insert = f"INSERT OR IGNORE INTO {export_schema.STRINGS} SELECT ? + id, "
        within = f"WHERE typeof(id) = 'integer' AND id BETWEEN 0 AND {(1 << _NAME_BITS) - 1}"
        if recording.has("string", "id", "string"):
            source = recording.source("string")
            self._connection.execute(
                f"{insert} CAST(string AS TEXT) FROM {source} {within}", (recording.first_id,)
            )
        known = [
            quoted(name)
            for name in ("display_name", "kernel_name")
            if recording.has("info_kernel_symbol", "id", name)
        ]
        if known:
            name = f"CAST(coalesce({', '.join([*known, 'NULL'])}) AS TEXT)"
            bare = f"CASE WHEN {name} LIKE '%.kd' THEN substr({name}, 1, length({name}) - 3)"
            self._connection.execute(
                f"{insert} {bare} ELSE {name} END FROM "
                f"{recording.source('info_kernel_symbol')} {within}",
                (recording.first_kernel,),
            )

    def _insert(self, source: str, table: str, values: str, joined: str, where: str) -> int:
        """Insert the rows that have a start and an end; return how many."""
        before = self._connection.total_changes
        self._connection.execute(
            f"INSERT INTO {table} SELECT {values} FROM {source} AS r {joined} "
            f"WHERE begin > 0 AND begin <= finish AND finish < {_MOST_TIME} AND {where}"
        )
        return self._connection.total_changes - before

    def _count_dropped(self, source: str, inserted: int) -> None:
        (whole,) = self._connection.execute(f"SELECT count(*) FROM {source}").fetchone()
        self.dropped += int(whole) - inserted

    def _joins(self, recording: _Recording, base: str) -> str:
        """Return the tables that a row of events needs."""
        found = []
        if recording.has(base, "track_id"):
            found.append("LEFT JOIN map_track AS t ON t.id = r.track_id")
        if recording.has(base, "start_id", "end_id"):
            found.append("LEFT JOIN map_moment AS b ON b.id = r.start_id")
            found.append("LEFT JOIN map_moment AS f ON f.id = r.end_id")
        event = "r.event_id" if recording.has(base, "event_id") else "NULL"
        found.append(f"LEFT JOIN map_event AS e ON e.id = {event}")
        found.append(f"LEFT JOIN map_process AS p ON p.id = {self._of(recording, base, 'pid')}")
        return " ".join(found)

    def _of(self, recording: _Recording, base: str, name: str) -> str:
        """Return a column of a row of events, of its track where that has it, else NULL."""
        if recording.has(base, name):
            return f"CAST(r.{quoted(name)} AS INTEGER)"
        in_track = name in ("pid", "tid", "agent_id", "queue_id", "stream_id")
        return f"t.{name}" if in_track and recording.has(base, "track_id") else "NULL"

    def _times(self, recording: _Recording, base: str) -> tuple[str, str] | None:
        if recording.has(base, "start", "end"):
            return 'CAST(r."start" AS INTEGER)', 'CAST(r."end" AS INTEGER)'
        return ("b.value", "f.value") if recording.has(base, "start_id", "end_id") else None

    def _add_kernels(self, recording: _Recording) -> None:
        base = "kernel_dispatch"
        times = self._times(recording, base) if base in recording.tables else None
        if times is None:
            return
        of = {
            name: self._of(recording, base, name)
            for name in ("kernel_id", "agent_id", "stream_id", "queue_id")
        }
        name = f"{recording.first_kernel} + {of['kernel_id']}"
        grid = ", ".join(_blocks(recording, axis) for axis in "xyz")
        joined = (
            f"{self._joins(recording, base)} JOIN map_agent AS a ON a.id = {of['agent_id']} "
            f"LEFT JOIN {export_schema.STRINGS} AS s ON s.id = {name}"
        )
        values = (
            f"{times[0]} AS begin, {times[1]} AS finish, a.device, "
            f"coalesce({of['stream_id']}, {of['queue_id']}), {_CORRELATION}, {_PROCESS}, "
            f"coalesce(s.id, {_UNKNOWN_NAME}), {grid}"
        )
        source = recording.source(base)
        inserted = self._insert(source, export_schema.KERNELS, values, joined, "1")
        self._count_dropped(source, inserted)

    def _add_copies(self, recording: _Recording) -> None:
        base = "memory_copy"
        times = self._times(recording, base) if base in recording.tables else None
        if times is None:
            return
        of = {
            name: self._of(recording, base, name)
            for name in ("dst_agent_id", "src_agent_id", "stream_id", "queue_id", "size", "name_id")
        }
        ways = " ".join(f"WHEN s.value LIKE '%{way}' THEN {kind}" for way, kind in _COPIES.items())
        joined = (
            f"{self._joins(recording, base)} "
            f"LEFT JOIN map_agent AS d ON d.id = {of['dst_agent_id']} "
            f"LEFT JOIN map_agent AS o ON o.id = {of['src_agent_id']} "
            f"LEFT JOIN {export_schema.STRINGS} AS s "
            f"ON s.id = {recording.first_id} + {of['name_id']}"
        )
        values = (
            f"{times[0]} AS begin, {times[1]} AS finish, coalesce(d.device, o.device) AS place, "
            f"coalesce({of['stream_id']}, {of['queue_id']}), {_CORRELATION}, {_PROCESS}, "
            f"{of['size']}, CASE {ways} ELSE 0 END"
        )
        source = recording.source(base)
        where = "place IS NOT NULL"
        inserted = self._insert(source, export_schema.COPIES, values, joined, where)
        self._count_dropped(source, inserted)

    def _add_regions(self, recording: _Recording) -> None:
        """Add calls of HIP, markers and calls of RCCL; other calls are left out, as HSA's are."""
        base = "region"
        times = self._times(recording, base) if base in recording.tables else None
        if times is None:
            return
        kinds = self._categories(recording)
        name = f"{recording.first_id} + {self._of(recording, base, 'name_id')}"
        joined = (
            f"{self._joins(recording, base)} "
            f"LEFT JOIN map_thread AS h ON h.id = {self._of(recording, base, 'tid')} "
            f"JOIN {export_schema.STRINGS} AS s ON s.id = {name}"
        )
        begin = f"{times[0]} AS begin, {times[1]} AS finish"
        own = self._of(recording, base, "tid")
        thread = f"({_PROCESS} | (coalesce(h.tid, {own}, 0) & {(1 << export_schema.PID_BITS) - 1}))"
        calls = f"{begin}, {thread}, {_CORRELATION}, s.id, NULL"
        source, among = recording.source(base), _among(kinds.get("hip", ()))
        self._insert(source, export_schema.API_CALLS, calls, joined, among)
        text = "s.value"
        if recording.has("event", "id", "extdata"):
            event = recording.source("event")
            text = f"coalesce(message_in(CAST(x.extdata AS BLOB)), {text})"
            joined = f"{joined} LEFT JOIN {event} AS x ON x.rowid = e.id AND x.id = e.id"
        marks = f"{begin}, {export_schema.PUSHED}, {text}, NULL, {thread}, 0"
        self._insert(source, export_schema.NVTX, marks, joined, _among(kinds.get("marker", ())))
        ranges = f"{begin}, {export_schema.PUSHED}, s.value, c.payload, {thread}, {_NCCL}"
        self._add_rccl(recording, ranges, joined, _among(kinds.get("rccl", ())))

    def _add_rccl(self, recording: _Recording, values: str, joined: str, among: str) -> None:
        """Add calls of RCCL as ranges of the domain NCCL, with their sizes where recorded."""
        execute = self._connection.execute
        execute("CREATE TABLE map_call (id INTEGER PRIMARY KEY, payload TEXT)")
        if recording.has("arg", "event_id", "name", "value"):
            execute(
                "INSERT OR IGNORE INTO map_call SELECT e.id, bytes_of("
                "max(CASE WHEN a.name = 'count' OR a.name = 'sendcount' OR a.name = 'recvcount' "
                "THEN CAST(a.value AS BLOB) END), "
                "max(CASE WHEN a.name = 'datatype' THEN CAST(a.value AS BLOB) END)) "
                f"FROM {recording.source('arg')} AS a JOIN map_event AS e ON e.id = a.event_id "
                f"WHERE {among} GROUP BY e.id"
            )
        with_size = f"{joined} LEFT JOIN map_call AS c ON c.id = e.id"
        self._insert(recording.source("region"), export_schema.NVTX, values, with_size, among)
        created = (
            f"INSERT INTO {export_schema.NVTX} VALUES (0, NULL, {_DOMAIN}, 'NCCL', NULL, ?, ?)"
        )
        self._connection.executemany(
            created,
            [(number << export_schema.PID_BITS, _NCCL) for number in sorted(self._pids) or [1]],
        )
        execute("DROP TABLE map_call")

    def _categories(self, recording: _Recording) -> dict[str, list[int]]:
        """Return the ids of categories of regions, as rocprofv3 and rocprof-sys name them."""
        found: dict[str, list[int]] = {}
        query = (
            f"SELECT DISTINCT s.id - {recording.first_id}, s.value FROM map_event AS e "
            f"JOIN {export_schema.STRINGS} AS s ON s.id = {recording.first_id} + e.category_id"
        )
        for number, value in self._connection.execute(query).fetchmany(_MOST_SMALL_ROWS):
            words = str(value).upper()
            kind = next((kind for word, kind in _KINDS if word in words), None)
            if kind is not None:
                found.setdefault(kind, []).append(int(number))
        return found

    def _write_environment(self) -> None:
        """Write numbers of the environment where one process was recorded, under nsys's names."""
        if len(self._environment) != 1:
            return
        execute = self._connection.execute
        execute(f"CREATE TABLE {export_schema.CAPTURE} (name TEXT, value TEXT)")
        for key, number in self._environment[0].items():
            row = ("PROCESS_1:ENVIRONMENT_VARIABLE", f"{key}={number}")
            execute(f"INSERT INTO {export_schema.CAPTURE} VALUES (?, ?)", row)


_EVENTS: Final = frozenset({"kernel_dispatch", "memory_copy", "region"})
_KINDS: Final = (("RCCL", "rccl"), ("MARKER", "marker"), ("HIP", "hip"))
_CORRELATION: Final = "coalesce(nullif(e.stack_id, 0), nullif(e.correlation_id, 0))"
"""rocpd joins a launch and its kernel by the id of their stack; a correlation is the user's own."""
_PROCESS: Final = f"(coalesce(p.number, 1) << {export_schema.PID_BITS})"


def _type(column: str) -> str:
    return "TEXT" if column in ("text", "jsonText") else "INTEGER"


def _among(categories: Sequence[int]) -> str:
    return f"e.category_id IN ({', '.join(map(str, categories))})" if categories else "0"


def _blocks(recording: _Recording, axis: str) -> str:
    """Return groups of work items along an axis: the grid of rocpd counts work items."""
    whole, part = f"grid_size_{axis}", f"workgroup_size_{axis}"
    if not recording.has("kernel_dispatch", whole, part):
        return "NULL"
    grid, group = (f"CAST(r.{name} AS INTEGER)" for name in (whole, part))
    return f"CASE WHEN {grid} > 0 AND {group} > 0 THEN ({grid} - 1) / {group} + 1 END"


def _are_numbers(values: Sequence[object]) -> bool:
    """Return whether values are numbers of devices, each once."""
    numbers = [value for value in values if isinstance(value, int) and 0 <= value < 1 << 16]
    return 0 < len(values) == len(numbers) == len(set(numbers))


def _message(extdata: object) -> str | None:
    """Return the text of a marker, which rocprofv3 keeps in JSON beside the name of the call."""
    if not isinstance(extdata, bytes) or b'"message"' not in extdata:
        return None
    try:
        found = msgspec.json.decode(extdata)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) and message else None


def _bytes(count: object, datatype: object) -> str | None:
    """Return the size of a call's count as nsys writes it in a payload, None where unknown."""
    if not isinstance(count, bytes) or not isinstance(datatype, bytes):
        return None
    name = datatype.decode("ascii", "replace").lower().removeprefix("nccl")
    if not count.isdigit() or len(count) > 18 or name not in _SIZES:
        return None
    return f'{{"Message size [bytes]": {int(count) * _SIZES[name]}}}'


def _environment(value: object) -> dict[str, int]:
    """Return the numbers of the permitted variables alone: an environment holds secrets."""
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    stated = {
        key: _VARIABLE.fullmatch(str(found.get(key))) for key in export_schema.ENVIRONMENT_KEYS
    }
    return {key: int(match[1]) for key, match in stated.items() if match is not None}
