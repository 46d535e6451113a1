"""The column store: what was read once is mapped the next time.

One folder a trace file: ``columns.bin`` (every column raw, little-endian, 64-byte aligned)
and ``manifest.json`` (what stands where, and the file's facts). A folder is written under
a temporary name and renamed, so readers see a whole one or none; a folder that is removed
while it is mapped stays readable. Nothing here is pickled and nothing is executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from parsers.columns import (
    CollectiveArgs,
    Device,
    Events,
    Note,
    ProcessGroup,
    RankSource,
    RankTrace,
    Samples,
    SourceFile,
    Track,
)
from parsers.placement import Place, StoredColumn, map_columns

STORE_VERSION = 3
_ALIGNMENT = 64
_SAMPLE_BYTES = 64 * 1024
_WRITERS = 2  # of one file's ranks, whose columns may still have to be put in order
_DEFAULT_LIMIT_BYTES = 20 << 30
SCRATCH_PREFIX = ".writing-"
_ABANDONED_S = 3600
COLUMNS_NAME = "columns.bin"
MANIFEST_NAME = "manifest.json"
EXPORT_NAME = "export.sqlite"
"""What nsys writes into a scratch folder; a killed reader leaves it behind."""


class _Manifest(msgspec.Struct, frozen=True):
    version: int
    columns: tuple[StoredColumn, ...]
    total_bytes: int
    source: SourceFile
    rank: int | None
    rank_source: RankSource
    tracks: tuple[Track, ...]
    process_groups: tuple[ProcessGroup, ...]
    devices: tuple[Device, ...]
    world_size: int | None
    backend: str
    nccl_version: str
    host: str
    base_ns: int
    counts: dict[str, int]
    notes: tuple[Note, ...]
    truncated: bool


def default_cache_dir() -> Path:
    """``CCLTUI_CACHE_DIR``, else ``ccltui`` in the user's cache directory."""
    stated = os.environ.get("CCLTUI_CACHE_DIR")
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "ccltui"
    try:
        return Path.home() / ".cache" / "ccltui"
    except RuntimeError:  # no HOME and no entry in the password file
        return Path(tempfile.gettempdir()) / f"ccltui-{os.getuid()}"


class Store:
    """Columns of trace files under ``directory``; every failure to write is silent loss of speed.

    Entries do not name their files: ``source.path`` of a loaded trace is empty.

    ``limit_bytes`` bounds its entries; the least recently used go first. Nothing else is removed.
    """

    def __init__(self, directory: Path, *, limit_bytes: int = _DEFAULT_LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes

    def key(self, path: Path, parser_version: int, beside: Path | None = None) -> str:
        """Name of the entry: real path, size, time, first and last bytes, versions.

        The same of the file ``beside`` it, which adds to its columns.
        """
        digest = hashlib.blake2b(digest_size=20)
        digest.update(repr((parser_version, STORE_VERSION, sys.byteorder)).encode())
        for one in (path,) if beside is None else (path, beside):
            status = one.stat()
            facts = (os.fsencode(one.resolve()), status.st_size, status.st_mtime_ns)
            digest.update(repr(facts).encode())
            with one.open("rb") as file:
                digest.update(file.read(_SAMPLE_BYTES))
                file.seek(max(status.st_size - _SAMPLE_BYTES, 0))
                digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def load(self, key: str) -> RankTrace | None:
        """Mapped columns of an entry, None when there is none or it is not whole."""
        folder = self.directory / key
        try:
            manifest = msgspec.json.decode(
                (folder / MANIFEST_NAME).read_bytes(), type=_Manifest, strict=True
            )
            trace = _mapped(manifest, folder / COLUMNS_NAME)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):
            os.utime(folder / MANIFEST_NAME)  # the clock of least recent use
        return trace

    def save(self, key: str, trace: RankTrace) -> bool:
        """Write an entry; False where the directory cannot take it (full, read-only)."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self.directory))
        except OSError:
            return False
        try:
            _write(scratch, trace)
            scratch.rename(self.directory / key)
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            return (self.directory / key).is_dir()  # another writer was first: equal content
        return True

    def load_parts(self, key: str) -> tuple[RankTrace, ...] | None:
        """Every rank of a file that may hold several, None unless all are there."""
        first = self.load(key)
        if first is None:
            return None
        others = [self.load(_part_key(key, part)) for part in range(1, first.source.parts)]
        parts = [first, *others]
        return None if None in others else tuple(part for part in parts if part is not None)

    def save_parts(self, key: str, parts: Sequence[RankTrace]) -> bool:
        """Write every rank of one file, the first one last: it stands for all."""
        with ThreadPoolExecutor(_WRITERS) as threads:
            others = threads.map(lambda n: self._save_part(key, parts, n), range(1, len(parts)))
            return all(others) and self._save_part(key, parts, 0)

    def _save_part(self, key: str, parts: Sequence[RankTrace], number: int) -> bool:
        return self.save(_part_key(key, number), parts[number])

    def trim(self) -> None:
        """Remove least recently used entries above the limit, and scratch of killed writers."""
        total = 0
        for used, size, folder in sorted(self._entries(), reverse=True):
            total += size
            abandoned = folder.name.startswith(SCRATCH_PREFIX) and used < time.time() - _ABANDONED_S
            if total > self.limit_bytes or abandoned:
                shutil.rmtree(folder, ignore_errors=True)

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """(time of last use, bytes, folder) of what a store wrote, whatever lies beside it.

        The user may have named a directory that holds other things.
        """
        with contextlib.suppress(OSError):
            for folder in list(self.directory.iterdir()):
                with contextlib.suppress(OSError):
                    files = {file.name: file.stat() for file in folder.iterdir()}
                    if not files.keys() <= {COLUMNS_NAME, MANIFEST_NAME, EXPORT_NAME}:
                        continue
                    if len(files) < 2 and not folder.name.startswith(SCRATCH_PREFIX):
                        continue
                    begun = folder.stat().st_mtime  # all there is of a writer that has just started
                    used = max((s.st_mtime for s in files.values()), default=begun)
                    yield used, sum(s.st_size for s in files.values()), folder


def release(trace: RankTrace) -> None:
    """Give back the memory that mapped columns take: they are read again when they are used.

    Columns that are not mapped stay as they are. For ranks of gigabytes, after each rank.
    """
    for events in trace.events.values():
        base: Any = events.start_ns
        while isinstance(base, np.ndarray | memoryview):
            base = base.base if isinstance(base, np.ndarray) else base.obj
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
            return


def _part_key(key: str, part: int) -> str:
    return f"{key}-{part}" if part else key


def _arrays(trace: RankTrace) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    yield "strings/blob", trace.strings.blob
    yield "strings/offsets", trace.strings.offsets
    for group, events in trace.events.items():
        for column, _ in Events.COLUMNS:
            yield f"{group}/{column}", getattr(events, column)
        for column, _ in Events.SPARSE:
            if len(getattr(events, column)):
                yield f"{group}/{column}", getattr(events, column)
    for column, _ in CollectiveArgs.COLUMNS:
        yield f"collectives/{column}", getattr(trace.collective_args, column)
    for column, _ in Samples.COLUMNS:
        yield f"samples/{column}", getattr(trace.samples, column)


def _write(folder: Path, trace: RankTrace) -> None:
    columns = []
    offset = 0
    with (folder / COLUMNS_NAME).open("wb") as file:
        for name, array in _arrays(trace):
            is_same = _is_same(array)
            columns.append(StoredColumn(name, array.dtype.str, len(array), offset, is_same))
            written = array[:1] if is_same else array
            file.write(np.ascontiguousarray(written).data)
            padding = -written.nbytes % _ALIGNMENT
            file.write(bytes(padding))
            offset += written.nbytes + padding
    facts = {name: getattr(trace, name) for name in _FACTS}
    # Paths may be no text at all, and the reader of the entry knows by which it came.
    facts["source"] = msgspec.structs.replace(trace.source, path="", real_path="")
    manifest = _Manifest(
        version=STORE_VERSION,
        columns=tuple(columns),
        total_bytes=offset,
        **{**facts, "counts": dict(trace.counts)},
    )
    (folder / MANIFEST_NAME).write_bytes(msgspec.json.encode(manifest))


def _is_same(array: npt.NDArray[Any]) -> bool:
    if len(array) < 2 or array[0] != array[-1]:
        return False
    return array.strides == (0,) or bool((array == array[0]).all())


_FACTS = tuple(
    name
    for name in _Manifest.__struct_fields__
    if name not in ("version", "columns", "total_bytes")
)


def _mapped(manifest: _Manifest, path: Path) -> RankTrace:
    """Columns as views of one mapping; raises ValueError when the file does not fit."""
    if manifest.version != STORE_VERSION:
        raise ValueError(path)
    place = Place(path, manifest.columns, manifest.total_bytes)
    columns = map_columns(place)
    return RankTrace(
        strings=columns.strings,
        events=columns.events,
        collective_args=columns.collective_args,
        samples=columns.samples,
        place=place,
        **{name: getattr(manifest, name) for name in _FACTS},
    )
