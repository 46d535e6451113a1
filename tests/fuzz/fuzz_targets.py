"""Every reader as a target: seeds, mutator, and what is compared when an input is read."""

from __future__ import annotations

import atexit
import contextlib
import gzip
import os
import pickle
import re
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

import fuzz_seeds as seeds
import kineto_fuzz
import msgspec
import numpy as np
from fuzz_guard import Target
from fuzz_mutators import any_bytes, database, json_tree, lines, mixed, packed, packets, pages
from kineto_fuzz import SIZES, contents, difference
from msgspec import structs

from ccltui.config import read_config
from ccltui.parsers.array_types import I64
from ccltui.parsers.cluster.machine_files import (
    read_cluster_benchmark,
    read_gpu_topology,
    read_ib_status,
    read_nccl_topology,
)
from ccltui.parsers.cluster.nccl_log import read_nccl_log
from ccltui.parsers.cluster.nccl_tests import read_nccl_tests
from ccltui.parsers.cluster.ras_json import read_ras
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.discovery.run_settings import run_sources
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.flight_recorder.read_dump import read_flight_dump
from ccltui.parsers.format import sought_event
from ccltui.parsers.formats import read_event_record
from ccltui.parsers.inspector.read_records import read_inspector
from ccltui.parsers.job import card_file
from ccltui.parsers.kineto.execution_join import joined
from ccltui.parsers.kineto.execution_trace import read_execution_trace
from ccltui.parsers.kineto.kineto_reader import read_kineto, read_preview
from ccltui.parsers.kineto.xla_profile import read_xla
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.report_export import sqlite_of
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.table_scans import new_texts
from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.nsys.text_trace import trace_rows
from ccltui.parsers.pftrace.pftrace_reader import read_pftrace
from ccltui.parsers.rocm.rocpd_reader import read_rocpd
from ccltui.parsers.runs.run_records import (
    ConfigError,
    read_completion,
    read_launch,
    read_profile_summary,
    read_step_log,
    read_train_config,
)
from ccltui.parsers.runs.training_log import read_training_log, run_end
from ccltui.parsers.runs.training_metrics import read_training_metrics
from ccltui.parsers.side.memory_snapshot import read_memory_snapshot
from ccltui.parsers.side.nccl_profiler import count_events
from ccltui.parsers.side.printed_tables import nvprof_tables, read_rocprof
from ccltui.parsers.side.result_files import names_of, read_expert_load, read_serving
from ccltui.parsers.side.workload_card import FIELDS, read_card
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.store_entry import COLUMNS_NAME, MANIFEST_NAME, with_checksum
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.file_sample import is_pickle, read_bounded
from ccltui.parsers.text.plain_pickle import read_plain_pickle
from ccltui.tui.input.recording import event_of, read_recording

SHOWN: Final = "input"


@contextlib.contextmanager
def decoder(compiled: bool) -> Any:
    """Read with compiled code, or without it, in the block."""
    before = os.environ.get("CCLTUI_ACCEL")
    os.environ["CCLTUI_ACCEL"] = "1" if compiled else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CCLTUI_ACCEL"]
        else:
            os.environ["CCLTUI_ACCEL"] = before


def one_of(data: bytes, share: int, salt: int = 0) -> bool:
    """Whether an input belongs to one ``share``-th of all; the same for the same bytes."""
    return zlib.crc32(data, salt) % share == 0


def result(read: Callable[[], object]) -> object:
    """Return what a reader returns, or the message with which it refuses."""
    try:
        return read()
    except TraceError as error:
        return f"refused: {error}"


def require_same(first: object, second: object, what: str) -> None:
    """Raise AssertionError where two results differ, with the first place that does."""
    if first != second and repr(first) != repr(second):  # NaN differs from itself
        found = kineto_fuzz.first_difference(first, second)
        raise AssertionError(f"{what}: {found}")


def same_packed(data: bytes, path: Path, read: Callable[[Path], object]) -> object:
    """Read a file; of one input in eight also its gzip, which must give the same."""
    first = result(lambda: read(path))
    if one_of(data, 8) and not data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        other = path.with_name("packed.gz")
        other.unlink(missing_ok=True)
        other.write_bytes(gzip.compress(data, 1, mtime=0))
        require_same(first, result(lambda: read(other)), "gzip")
    if isinstance(first, str) and first.startswith("refused: "):
        raise TraceError(first[9:])
    return first


def kineto(data: bytes, path: Path) -> None:
    """Both decoders, whole and in pieces; preview; records of events; raw against gzip."""
    found = difference(path, SIZES[zlib.crc32(data) % len(SIZES)])
    if found is not None:
        raise AssertionError(re.sub(r"in pieces of \d+", "in pieces", found))
    if one_of(data, 8, 1):
        read_preview(path, shown=SHOWN, piece_bytes=64 + len(data) // 2)
    if one_of(data, 8, 2):
        trace = read_kineto(path, shown=SHOWN)
        for group, events in trace.events.items():
            row = zlib.crc32(data, 3) % max(len(events), 1)
            if sought_event(trace, group, row).start_ns >= 0:
                with contextlib.suppress(TraceError):
                    _record(trace, group, row)
    if one_of(data, 8, 4):
        same_packed(data, path, lambda one: contents(read_kineto(one, shown=SHOWN)))


def flight_record(data: bytes, path: Path) -> None:
    """The values of a pickle that is read are those that `pickle` builds of it."""
    if is_pickle(data):
        read = read_plain_pickle(data, shown=SHOWN)
        if not read.cut:  # holds no opcode that could run anything; lengths of frames are not used
            with contextlib.suppress(UnicodeDecodeError, OverflowError, pickle.UnpicklingError):
                require_same(read.value, pickle.loads(data), "pickle")
    read_flight_dump(path, shown=SHOWN)


def inspector(data: bytes, path: Path) -> None:
    """All columns; raw against gzip, which the general decoder reads alone."""

    def read(one: Path) -> object:
        with decoder(one == path):
            found = read_inspector(one, shown=SHOWN)
        columns = {
            series: [column.tolist() for column in structs.astuple(found.records(place))]
            for place, series in enumerate(found.facts.series)
        }
        return sorted(columns.items()), found.facts.dropped

    same_packed(data, path, read)


def _record(trace: RankTrace, group: Any, row: int) -> None:
    try:
        read_event_record(trace, group, row)
    except TraceError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise


@cache
def _companion_trace() -> RankTrace:
    import json

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        events = [*seeds.companion_events(), *kineto_fuzz.EVENTS]
        path.write_text(json.dumps({"traceEvents": events}))
        return read_kineto(path, shown=SHOWN)


def execution(data: bytes, path: Path) -> None:
    """Nodes and groups, joined to a fixed Kineto trace; raw against gzip."""

    def read(one: Path) -> object:
        return contents(joined(_companion_trace(), read_execution_trace(one, shown=SHOWN)))

    same_packed(data, path, read)


def xla(data: bytes, path: Path) -> None:
    """All devices by both decoders; raw against gzip."""

    def read(one: Path) -> object:
        return [contents(trace) for trace in read_xla(one, shown=SHOWN)]

    with decoder(compiled=False):
        general = result(lambda: read(path))
    with decoder(compiled=True):
        compiled = same_packed(data, path, read) if general else None
    require_same(general, compiled, "compiled")


def pftrace(data: bytes, path: Path) -> None:
    """All ranks by both scanners, whole and in pieces; raw against gzip."""

    def read(one: Path, chunk_bytes: int = 1 << 20) -> object:
        return [
            (contents(trace), trace.samples.value.tolist(), trace.samples.name.tolist())
            for trace in read_pftrace(one, shown=SHOWN, chunk_bytes=chunk_bytes)
        ]

    with decoder(compiled=False):
        general = result(lambda: read(path))
    with decoder(compiled=True):
        if one_of(data, 4) and data.startswith(b"\n"):  # not compressed
            small = result(lambda: read(path, chunk_bytes=61))
            require_same(general, small, "in pieces")
        compiled = same_packed(data, path, read)
    require_same(general, compiled, "compiled")


def nsys_text(data: bytes, path: Path) -> None:
    """All sections, and the rows of a printed trace; raw against gzip."""

    def read(one: Path) -> object:
        stats = read_stats_text(one, shown=SHOWN)
        return _plain(stats), result(lambda: _plain(trace_rows(stats, SHOWN)))

    same_packed(data, path, read)


def nsys_sqlite(data: bytes, path: Path) -> None:
    """Every rank, and the tables of reports, from pages in compiled code and from SQLite."""
    found = []
    for compiled in (True, False):
        with decoder(compiled):
            found.append((
                result(lambda: [contents(trace) for trace in read_nsys(path, shown=SHOWN)]),
                result(lambda: _plain(read_report_tables(path, shown=SHOWN))),
            ))  # fmt: skip
    _require_same_rows(path, found)


def rocpd(_data: bytes, path: Path) -> None:
    for trace in read_rocpd(path, shown=SHOWN):
        contents(trace)


def _require_same_rows(path: Path, found: Sequence[object]) -> None:
    """Require equal results of the two readers where SQLite finds no damage in a file.

    Which rows are left of a damaged file depends on the order of reading.
    """
    if found[0] == found[1]:
        return
    with contextlib.suppress(sqlite3.Error, UnicodeError), closing(sqlite3.connect(path)) as opened:
        if opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]:
            require_same(found[0], found[1], "pages and SQLite")


def _plain(value: Any) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if isinstance(value, str | int | float | None) else type(value).__name__


def sqlite_pages(_data: bytes, path: Path) -> None:
    """Rows of one table from pages and from SQLite."""
    found = []
    for compiled in (True, False):
        with decoder(compiled):
            found.append(result(lambda: _rows(path)))
    _require_same_rows(path, found)


def _rows(path: Path) -> object:
    texts = {"text": new_texts()}
    with closing(Database(path, SHOWN)) as opened:
        if "events" not in opened.tables:
            return sorted(opened.tables)
        columns = ["start", "end", None, "absent", "kind", "text"]
        blocks: list[Sequence[I64]] = list(opened.numbers("events", columns, texts, None))
    rows = [row for block in blocks for row in zip(*(c.tolist() for c in block), strict=True)]
    known = [text.decode("utf-8", "replace") for text, _ in texts["text"].values()]  # as shown
    return [(*row[:-1], None if row[-1] < 0 else known[row[-1]]) for row in rows]


def arrow(_data: bytes, path: Path) -> None:
    """A stream of tables, copied to SQLite."""
    target = path.with_name("copy.sqlite")
    target.unlink(missing_ok=True)
    sqlite_of(path, target, shown=SHOWN)


def card(_data: bytes, path: Path) -> None:
    """A workload card, and every value that it has a name for."""
    found = read_card(path, shown_path=SHOWN)
    for name in (*FIELDS, "traces"):
        getattr(found, name)


def nccl_tests(_data: bytes, path: Path) -> None:
    for one in read_nccl_tests(path, shown=SHOWN):
        _plain(one)


def nvprof(_data: bytes, path: Path) -> None:
    _plain(nvprof_tables(read_bounded(path, shown=SHOWN)))


def training_log(_data: bytes, path: Path) -> None:
    _plain(read_training_log(path, shown=SHOWN))
    text = read_bounded(path, shown=SHOWN)
    run_end(text.end)


def serving(data: bytes, path: Path) -> None:
    def read(one: Path) -> object:
        found = read_serving(one, shown=SHOWN)
        names_of(found, SHOWN)
        return [_plain(experiment) for experiment in found]

    same_packed(data, path, read)


def expert_load(data: bytes, path: Path) -> None:
    same_packed(data, path, lambda one: [_plain(x) for x in read_expert_load(one, shown=SHOWN)])


def replay(_data: bytes, path: Path) -> None:
    for stroke in read_recording(str(path)).strokes:
        event_of(stroke)


@cache
def _entry() -> tuple[Path, bytes, bytes]:
    """Return a folder of a store, and the manifest and columns of the entry in it."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Store(folder, lasts=False).write("entry", _companion_trace())
    entry = folder / "entry"
    text = (entry / MANIFEST_NAME).read_bytes().rpartition(b"\n")[0]
    return folder, text, (entry / COLUMNS_NAME).read_bytes()


def store_manifest(data: bytes, _path: Path) -> None:
    """A manifest whose checksum is right: an entry is refused, or all of its columns read."""
    folder, _, _ = _entry()
    manifest = folder / "entry" / MANIFEST_NAME
    manifest.unlink(missing_ok=True)
    manifest.write_bytes(with_checksum(data))
    trace = Store(folder, lasts=False).load("entry")
    if trace is not None:
        contents(trace)


def store_files(data: bytes, _path: Path) -> None:
    """A manifest as it is in the file, with its checksum: what is accepted is unchanged."""
    folder, text, _ = _entry()
    manifest = folder / "entry" / MANIFEST_NAME
    manifest.unlink(missing_ok=True)
    manifest.write_bytes(data)
    if Store(folder, lasts=False).load("entry") is not None and data != with_checksum(text):
        raise AssertionError("a changed manifest was accepted")


NAMES: Final = (
    *("rank0.json", "a.json.gz", "workload_card.yaml", "a.txt", "a.sqlite", "a.nsys-rep", "a.pt"),
    *("x", "slurm-1.out", "train_config.toml", "nccl_topo.xml", "a_cuda_gpu_kern_sum.csv"),
    *(
        "launcher_metadata.json",
        "training_metrics.json",
        "RUN_COMPLETE.txt",
        "a.tar",
        "a.arrows",
        "a.pftrace",
    ),
)


def discovery(data: bytes, path: Path) -> None:
    """Any file under any name: it is listed, and with a problem where nothing reads it."""
    folder = path.parent / "found"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / NAMES[zlib.crc32(data) % len(NAMES)]).write_bytes(data)
    found = discover(folder)
    (one,) = found.files
    if one.kind == "unknown" and not one.problem:
        raise AssertionError("a file that nothing reads has no problem")
    for capture in found.captures:
        run_sources(found, capture)
        card_file(found, capture)


def compression(data: bytes, path: Path) -> None:
    """Text of gzip and zstd; what zlib decodes without error comes out without a note."""
    chunks = TextChunks(path, 1 << 12)
    text = b"".join(chunks)
    if data.startswith(b"\x1f\x8b"):
        try:
            expected = gzip.decompress(data)
        except (EOFError, OSError, zlib.error, MemoryError):
            return
        if chunks.notes or text != expected:
            raise AssertionError(f"gzip is not as zlib reads it: {chunks.notes!r:.200}")


_TEXT: Final = mixed(lines, lines, any_bytes)
_JSON: Final = mixed(json_tree, json_tree, json_tree, any_bytes)
_YAML: Final = mixed(lines, lines, json_tree, any_bytes)


def _kineto_mutator(dice: Any, data: bytes) -> bytes:
    """The changes of `kineto_fuzz` besides those of trees."""
    changed: bytes = kineto_fuzz.mutant(dice, data)
    return changed


def _compressed_tree() -> list[bytes]:
    return [*seeds.kineto()[-2:], *seeds.serving()[-2:]]


def _manifests() -> list[bytes]:
    return [_entry()[1]]


def _of(read: Callable[..., object], **names: Any) -> Callable[[bytes, Path], None]:
    """Return a run that reads the file and does no more."""

    def run(_data: bytes, path: Path) -> None:
        _plain(read(path, **names))

    return run


_SHOWN: Final = {"shown": SHOWN}
_SHOWN_PATH: Final = {"shown_path": SHOWN}
_PACKED_JSON: Final = packed(_JSON)

TARGETS: Final = {
    one.name: one
    for one in (
        Target("kineto", "PyTorch traces, both decoders", seeds.kineto,
               mixed(packed(mixed(_JSON, _kineto_mutator)), _JSON, _kineto_mutator), kineto),
        Target("execution", "PyTorch execution traces", seeds.execution, _PACKED_JSON, execution),
        Target("xla", "XLA profiles, both decoders", seeds.xla, _PACKED_JSON, xla),
        Target("pftrace", "Perfetto traces, both scanners", seeds.perfetto,
               mixed(packets, packets, packed(packets), any_bytes), pftrace),
        Target("nsys_text", "text of nsys stats", seeds.nsys_text,
               mixed(_TEXT, _TEXT, packed(_TEXT)), nsys_text),
        Target("nsys_sqlite", "nsys exports: pages, schemas", seeds.exports, database, nsys_sqlite),
        Target("rocpd", "databases of rocprofv3", seeds.rocpd_databases, database, rocpd),
        Target("sqlite_pages", "pages of SQLite, both readers", seeds.tables,
               mixed(pages, pages, database), sqlite_pages),
        Target("arrow", "nsys exports in Arrow", seeds.arrow, any_bytes, arrow),
        Target("card", "workload cards (YAML)", seeds.cards, _YAML, card),
        Target("benchmark", "cluster benchmarks (YAML)", lambda: [seeds.BENCHMARK], _YAML,
               _of(read_cluster_benchmark, **_SHOWN_PATH)),
        Target("nccl_topology", "NCCL topology (XML)", lambda: [seeds.XML], _TEXT,
               _of(read_nccl_topology, **_SHOWN)),
        Target("nccl_log", "NCCL logs", lambda: [seeds.NCCL_LOG], _TEXT,
               _of(read_nccl_log, **_SHOWN)),
        Target("nccl_tests", "nccl-tests", lambda: [seeds.NCCL_TESTS], _TEXT, nccl_tests),
        Target("gpu_topology", "nvidia-smi topo -m", lambda: [seeds.TOPOLOGY], _TEXT,
               _of(read_gpu_topology, **_SHOWN)),
        Target("ib_status", "ibstat", lambda: [seeds.IBSTAT], _TEXT,
               _of(read_ib_status, **_SHOWN)),
        Target("training_log", "training logs",
               lambda: [seeds.TITAN, seeds.MEGATRON, seeds.EPOCHS, seeds.NEMO, seeds.TRAINER,
                        seeds.MLPERF, seeds.STATE, seeds.RATES], _TEXT, training_log),
        Target("summed_table", "totals of rocprof", lambda: [seeds.ROCPROF], _TEXT,
               _of(read_rocprof, **_SHOWN)),
        Target("nvprof_table", "totals of nvprof", lambda: [seeds.NVPROF], _TEXT, nvprof),
        Target("step_log", "step logs (JSON lines)", lambda: [seeds.STEPS], _JSON,
               _of(read_step_log, **_SHOWN)),
        Target("training_metrics", "training metrics",
               lambda: [seeds.METRICS, seeds.OLD_METRICS], _JSON,
               _of(read_training_metrics, **_SHOWN)),
        Target("launch", "launcher metadata", lambda: [seeds.LAUNCH], _JSON,
               _of(read_launch, **_SHOWN)),
        Target("completion", "marks of complete runs", lambda: [seeds.COMPLETE], _TEXT,
               _of(read_completion, **_SHOWN)),
        Target("profile_summary", "profile summaries", lambda: [seeds.SUMMARY], _JSON,
               _of(read_profile_summary, **_SHOWN)),
        Target("serving", "serving results", seeds.serving, _PACKED_JSON, serving),
        Target("expert_load", "expert loads", seeds.expert_loads, _PACKED_JSON, expert_load),
        Target("flight_record", "dumps of the flight recorder", seeds.flight_records,
               mixed(any_bytes, _JSON), flight_record),
        Target("inspector", "records of NCCL Inspector", seeds.inspector_lines,
               mixed(lines, _JSON), inspector),
        Target("nccl_profiler", "events of NCCL's profiler plug-ins", seeds.profiler_events,
               mixed(lines, _JSON), _of(count_events, **_SHOWN)),
        Target("memory_snapshot", "memory snapshots", seeds.memory_snapshots,
               mixed(any_bytes, _JSON), _of(read_memory_snapshot, **_SHOWN)),
        Target("ras", "reports of RAS, in JSON", seeds.ras_reports, _JSON,
               _of(read_ras, **_SHOWN)),
        Target("train_config", "training configuration (TOML)", lambda: [seeds.TRAIN_CONFIG],
               _TEXT, _of(read_train_config), (ConfigError,)),
        Target("settings", "settings of the explorer (TOML)", lambda: [seeds.SETTINGS], _TEXT,
               lambda _, path: read_config(str(path)), (GrammarError,)),
        Target("replay", "recordings of keys", seeds.recording, _JSON, replay, (GrammarError,)),
        Target("store_manifest", "manifests of the store", _manifests, _JSON, store_manifest),
        Target("store_files", "files of the store",
               lambda: [with_checksum(_entry()[1])], mixed(any_bytes, _JSON), store_files),
        Target("discovery", "recognition of any file",
               lambda: [one for make in _EVERY for one in make()[:1]], mixed(any_bytes, _TEXT),
               discovery),
        Target("compression", "gzip and zstd", _compressed_tree, packed(any_bytes), compression),
    )
}  # fmt: skip
_EVERY: Final[tuple[Callable[[], list[bytes]], ...]] = (
    *(seeds.kineto, seeds.execution, seeds.xla, seeds.nsys_text, seeds.tables, seeds.cards),
    *(seeds.serving, seeds.perfetto, seeds.expert_loads, seeds.arrow, _compressed_tree),
    lambda: [seeds.BENCHMARK, seeds.NCCL_LOG],
    *(lambda one=one: [one] for one in (seeds.XML, seeds.NCCL_LOG, seeds.NCCL_TESTS)),
    *(lambda one=one: [one] for one in (seeds.TITAN, seeds.STEPS, seeds.METRICS)),
)
