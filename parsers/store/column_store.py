"""Store of columns: a file that was read once is mapped the next time.

One folder a trace file: ``columns.bin`` (every column raw, little-endian, 64-byte aligned) and
``manifest.json`` (position and checksum of each column, and the file's facts; on a line of its own,
the checksum of these). A folder is written under a temporary name and renamed, so that readers see
a complete one or none; a folder that is removed while it is mapped stays readable. Entries of other
users are read only from a store that is shared with a group. The size of ``columns.bin`` is
compared when it is mapped, and the checksum of each column at its first use (`stored_columns`); a
damaged entry is read from its trace again. A file that is cut while it is mapped ends the process
with one line (`_cut_files.pyx`). Nothing here is pickled and nothing is executed.

An entry is named after what the file is, not where it lies: a directory that is moved, mounted
elsewhere or copied with its times opens without reading.

`trim` removes what a store has above its limit. A file that is removed stays readable where it is
mapped only as far as one kernel: over NFS the pages of a file that another node removed are gone,
and touching them ends the process. A process that maps entries of a store on such a file system
therefore lists them in a file of the folder ``in_use``, which it touches every hour and removes at
its end. `trim` leaves out what such files list, unless they are of this node, or have not been
touched for hours, as of a node that failed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import mmap
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.columns import (
    CollectiveArgs,
    ColumnFile,
    Device,
    Events,
    Note,
    ProcessGroup,
    RankSource,
    RankTrace,
    Samples,
    SourceFile,
    StoredColumn,
    Track,
    compressed_places,
)
from ccltui.parsers.scratch_folder import remove_abandoned
from ccltui.parsers.store.cache_place import store_limit
from ccltui.parsers.store.store_entry import (
    COLUMNS_NAME,
    EXPORT_NAME,
    FRESH_S,
    MANIFEST_NAME,
    SCRATCH_PREFIX,
    ForeignError,
    checked,
    flush,
    is_private,
    is_shared,
    let_group_read,
    put_in_place,
    read_plain,
    remove_entry,
    require_trusted,
    set_used,
    with_checksum,
    write_beside,
)
from ccltui.parsers.store.stored_columns import (
    PACKED_ROWS,
    FileMapping,
    StoredEvents,
    SummedFile,
    columns_of,
    is_intact,
    map_bytes,
    map_columns,
    mapping_of,
    open_columns,
    write_packed,
)
from ccltui.parsers.text.compression import read_ends

FOLDER: Final = "in_use"
TOUCHED_S: Final = 3600
EXPIRY_S: Final = 3 * TOUCHED_S
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "ramfs", "tmpfs"}
    | {"overlay", "apfs"}
)
"""File systems of one node; of others we cannot tell."""

_LISTS: Final[list[Path]] = []


def is_local(directory: Path) -> bool:
    """Whether only this node can reach a directory, by the type of its file system."""
    try:
        existing = next(place for place in (directory, *directory.parents) if place.exists())
        device = existing.stat().st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        lines = [line.split() for line in _MOUNTS.read_text("utf-8", "replace").splitlines()]
        types = {line[line.index("-") + 1] for line in lines if line[2:3] == [wanted]}
    except (OSError, ValueError, IndexError):
        return False
    return bool(types) and types <= _LOCAL


def pin(store: Path, keys: Iterable[str]) -> None:
    """List entries as in use until this process ends; nothing where no other node can see them."""
    if is_local(store.absolute()):
        return
    place = store / FOLDER / f"{_node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with contextlib.suppress(OSError):  # a store that cannot be written is trimmed by others only
        write_beside(store, place, "\n".join(keys).encode())
        if not _LISTS:
            atexit.register(_unpin, os.getpid())
            threading.Thread(target=_touch, name="pins", daemon=True).start()
        _LISTS.append(place)


def pinned(store: Path) -> frozenset[str]:
    """Return the keys of entries that processes of other nodes use; expired lists are removed."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for place in list((store / FOLDER).iterdir()):
            with contextlib.suppress(OSError):
                data, status = read_plain(place)
                if time.time() - status.st_mtime > EXPIRY_S:
                    place.unlink()
                elif not place.name.startswith(_node()):
                    found.update(data.decode("ascii", "replace").split())
    return frozenset(found)


def _node() -> str:
    try:
        return _BOOT.read_text("ascii").strip().replace("-", "")
    except (OSError, ValueError):
        return "unknown"


def _touch() -> None:
    while True:
        time.sleep(TOUCHED_S)
        for place in _LISTS:
            with contextlib.suppress(OSError):
                os.utime(place)


def _unpin(process: int) -> None:
    if os.getpid() != process:  # one that was forked from it
        return
    for place in _LISTS:
        with contextlib.suppress(OSError):
            place.unlink()


_ABANDONED_S: Final = 3600


def trim(directory: Path, limit_bytes: int) -> None:
    """Remove least recently used entries above the limit, and scratch of killed writers.

    What processes of other nodes have mapped stays, and counts.
    """
    with contextlib.suppress(OSError):
        remove_abandoned(directory, SCRATCH_PREFIX)
    used_elsewhere = pinned(directory)
    total = 0
    for used, size, folder in sorted(_entries(directory), reverse=True):
        total += size
        if folder.name.startswith(SCRATCH_PREFIX):
            is_excess = total > limit_bytes or used < time.time() - _ABANDONED_S
        else:
            is_excess = total > limit_bytes and folder.name.partition("-")[0] not in used_elsewhere
        if is_excess:
            shutil.rmtree(folder, ignore_errors=True)


def _entries(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """(time of last use, bytes, folder) of what a store wrote, ignoring all other files.

    The user may have named a directory that holds other things.
    """
    with contextlib.suppress(OSError):
        for folder in list(directory.iterdir()):
            with contextlib.suppress(OSError):
                files = {file.name: file.stat() for file in folder.iterdir()}
                if not files.keys() <= {COLUMNS_NAME, MANIFEST_NAME, EXPORT_NAME}:
                    continue
                if len(files) < 2 and not folder.name.startswith(SCRATCH_PREFIX):
                    continue
                begun = folder.stat().st_mtime  # all there is of a writer that has just started
                used = max((s.st_mtime for s in files.values()), default=begun)
                yield used, sum(s.st_size for s in files.values()), folder


STORE_VERSION = 8
_KEPT_GROUPS = 256
_STARTS = "/start_ns"
_WRITERS = 2  # of one file's ranks, whose columns may still have to be put in order
_UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, MemoryError, RecursionError)
"""What a damaged manifest, or columns that do not fit it, raise."""


class _Manifest(msgspec.Struct, frozen=True):
    version: int
    key: str  # name of the entry: a manifest of another one fits its own columns only
    columns: msgspec.Raw  # places of the columns, as of `ColumnFile`
    total_bytes: int
    source: SourceFile
    rank: int | None
    rank_source: RankSource
    tracks: tuple[Track, ...]
    process_groups: tuple[msgspec.Raw, ...]
    devices: tuple[Device, ...]
    world_size: int | None
    backend: str
    nccl_version: str
    host: str
    base_ns: int
    counts: dict[str, int]
    notes: tuple[Note, ...]
    truncated: bool
    read_share: float = 1.0


PartReader = Callable[[int], Callable[[], RankTrace]]
"""Returns, for the number of a part of a file, what reads that part again."""


class DamagedEntryError(ValueError):
    """A folder of the store is not a complete entry, or not one to be trusted."""

    @property
    def is_foreign(self) -> bool:
        """Whether the entry may be complete, but others could have written anything there."""
        return isinstance(self.__cause__, ForeignError)


class Store:
    """Columns of trace files under ``directory``.

    Entries do not name their files: ``source.path`` of a loaded trace is empty.

    ``limit_bytes`` bounds its entries (None: what the environment states); the least recently
    used, by day, are removed first. Nothing else is removed. ``lasts``: entries outlive the
    process, so they have to be complete after a crash too.
    """

    def __init__(
        self, directory: Path, *, limit_bytes: int | None = None, lasts: bool = True
    ) -> None:
        self.directory = directory
        self.limit_bytes = store_limit() if limit_bytes is None else limit_bytes
        self.lasts = lasts

    def key(self, path: Path, parser_version: int, companion: Path | None = None) -> str:
        """Name of the entry: size, time of the last change, first and last bytes, versions.

        The same of a ``companion`` file, which adds to its columns. Neither path nor owner is part
        of it; the time, to the nanosecond, stands for the bytes between, which are not read.
        Raises OSError.
        """
        other = "" if companion is None else read_ends(str(companion)).digest
        return self.key_of(read_ends(str(path)).digest, parser_version, other)

    @staticmethod
    def key_of(digest: str, parser_version: int, companion: str = "") -> str:
        """Name of the entry of a file whose ends, and those of its companion, are known."""
        versions = parser_version, STORE_VERSION, sys.byteorder
        text = repr((versions, digest, companion))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()

    @cached_property
    def _is_shared(self) -> bool:
        return is_shared(self.directory)

    @cached_property
    def _admits_no_strangers(self) -> bool:
        """Whether all entries are of users that are trusted, so that none has to be checked."""
        return self._is_shared or is_private(self.directory)

    def load(self, key: str) -> RankTrace | None:
        """Mapped columns of an entry, None when there is none or it cannot be used."""
        try:
            return self.open(key)
        except (OSError, DamagedEntryError):
            return None

    def open(self, key: str, read_again: Callable[[], RankTrace] | None = None) -> RankTrace:
        """Mapped columns of an entry. Raises OSError and DamagedEntryError.

        ``read_again`` as of `ColumnFile`.
        """
        with self.opened(key) as (text, descriptor):
            return _mapped(text, self.directory / key / COLUMNS_NAME, descriptor, read_again)

    @contextlib.contextmanager
    def opened(self, key: str) -> Iterator[tuple[bytes, int]]:
        """Open an entry: the text of its manifest, and a descriptor of its columns.

        Raises OSError, and DamagedEntryError where it is not to be trusted, or for whatever of
        `_UNREADABLE` is raised inside.
        """
        folder = self.directory / key
        files = folder / MANIFEST_NAME, folder / COLUMNS_NAME
        descriptor = -1
        try:
            if not self._admits_no_strangers:
                require_trusted((folder, *files), shared=False)
            text, listed = read_plain(files[0])
            descriptor = open_columns(files[1])
            status = os.fstat(descriptor)
            if not self._is_shared and {listed.st_uid, status.st_uid} - {0, os.geteuid()}:
                raise ForeignError(folder)
            yield checked(text), descriptor
        except _UNREADABLE as error:
            raise DamagedEntryError(folder) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if time.time() - min(status.st_mtime, listed.st_mtime) > FRESH_S:
            set_used(files)

    def save(self, key: str, trace: RankTrace) -> bool:
        """Write an entry like :meth:`write`, but return False on failure."""
        try:
            self.write(key, trace)
        except OSError:
            return False
        return True

    def write(self, key: str, trace: RankTrace) -> None:
        """Write an entry, in place of one that cannot be used.

        Raises OSError where the directory cannot take it (full, read-only, another user's).
        """
        with self.placed(key, lambda: self.load(key) is not None) as scratch:
            _write(scratch, key, trace)

    @contextlib.contextmanager
    def placed(self, key: str, is_usable: Callable[[], bool]) -> Iterator[Path]:
        """Make a folder, and rename it to an entry once its two files are written inside.

        ``is_usable`` tells whether an entry that is there already is kept. Raises OSError.
        """
        # Reading a store does not need it.
        from ccltui.parsers.scratch_folder import scratch_folder  # noqa: PLC0415

        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with scratch_folder(SCRATCH_PREFIX, self.directory, tidies=False) as scratch:
            yield scratch
            if is_shared(self.directory):
                let_group_read(scratch)
            if self.lasts:
                flush((scratch / COLUMNS_NAME, scratch / MANIFEST_NAME))
            set_used((scratch / COLUMNS_NAME, scratch / MANIFEST_NAME))
            put_in_place(scratch, self.directory / key, is_usable)

    def load_parts(
        self, key: str, reader: PartReader | None = None
    ) -> tuple[RankTrace, ...] | None:
        """Every rank of a file that may hold several, None unless all can be used."""
        try:
            return self.open_parts(key, reader)
        except (OSError, DamagedEntryError):
            return None

    def open_parts(self, key: str, reader: PartReader | None = None) -> tuple[RankTrace, ...]:
        """Every rank of a file that may hold several. Raises OSError and DamagedEntryError.

        ``reader`` serves where columns turn out to be damaged.
        """

        def part(number: int) -> RankTrace:
            again = None if reader is None else reader(number)
            return self.open(_part_key(key, number), again)

        first = part(0)
        return (first, *(part(number) for number in range(1, first.source.parts)))

    def intact_part(self, key: str, part: int) -> RankTrace | None:
        """A part of a file, None unless every column of it is as it was written."""
        trace = self.load(_part_key(key, part))
        if trace is None or trace.place is None:
            return None
        data = map_bytes(trace.place)
        return trace if all(is_intact(column, data) for column in trace.place.columns) else None

    def replace_parts(self, key: str, parts: Sequence[RankTrace]) -> None:
        """Write every rank of a file in place of a damaged entry, as far as that is possible."""
        with contextlib.suppress(OSError):
            for number in range(len(parts)):
                folder = self.directory / _part_key(key, number)
                if os.path.lexists(folder):
                    remove_entry(folder)
            self.write_parts(key, parts)

    def save_parts(self, key: str, parts: Sequence[RankTrace]) -> bool:
        """Write all ranks of a file like :meth:`write_parts`, but return False on failure."""
        try:
            self.write_parts(key, parts)
        except OSError:
            return False
        return True

    def write_parts(self, key: str, parts: Sequence[RankTrace]) -> None:
        """Write every rank of a file, the first one last as it marks the end. Raises OSError."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (only writers need it)

        def write(number: int) -> None:
            self.write(_part_key(key, number), parts[number])

        with ThreadPoolExecutor(_WRITERS) as threads:
            for _ in threads.map(write, range(1, len(parts))):
                pass
        write(0)

    def trim(self) -> None:
        """Remove least recently used entries above the limit, and scratch of killed writers."""
        trim(self.directory, self.limit_bytes)


def release(trace: RankTrace) -> None:
    """Give back the memory that mapped columns take: they are read again when they are used.

    Columns that are neither mapped nor packed stay. For ranks of gigabytes, after each rank.
    """
    mapped: FileMapping | None = None  # one holds all columns of a trace
    for events in trace.events.values():
        some = events.forget() if isinstance(events, StoredEvents) else events.start_ns
        mapped = mapped or mapping_of(some)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


def _part_key(key: str, part: int) -> str:
    return f"{key}-{part}" if part else key


class _PendingColumn(Struct, frozen=True):
    """A column to be written, as pieces; ``packs``: in as few bytes as its numbers need."""

    name: str
    pieces: Iterable[npt.NDArray[Any]]
    packs: bool = False
    is_sparse: bool = False


def _columns(trace: RankTrace) -> Iterator[_PendingColumn]:
    yield _PendingColumn("strings/blob", (trace.strings.blob,))
    yield _PendingColumn("strings/offsets", (trace.strings.offsets,))
    for group, events in trace.events.items():
        packs = events.comes_in_pieces and len(events) >= PACKED_ROWS
        for column, _ in Events.COLUMNS:
            yield _PendingColumn(f"{group}/{column}", events.pieces(column), packs)
        for column, _ in Events.SPARSE:
            yield _PendingColumn(f"{group}/{column}", events.pieces(column), is_sparse=True)
    for column, _ in CollectiveArgs.COLUMNS:
        yield _PendingColumn(f"collectives/{column}", (getattr(trace.collective_args, column),))
    for column, _ in Samples.COLUMNS:
        yield _PendingColumn(f"samples/{column}", (getattr(trace.samples, column),))


def _write(folder: Path, key: str, trace: RankTrace) -> None:
    columns = []
    with (folder / COLUMNS_NAME).open("wb") as opened:
        file = SummedFile(opened)
        for told in _columns(trace):
            column = _written(file, told)
            columns += [column] if column.length or not told.is_sparse else []
        total_bytes = file.tell()
    facts = {name: getattr(trace, name) for name in _FACTS}
    # Paths may be no text at all, and whoever opens the entry has the path.
    facts["process_groups"] = tuple(msgspec.Raw(_encoded(g)) for g in trace.process_groups)
    facts["source"] = msgspec.structs.replace(trace.source, path="", real_path="")
    manifest = _Manifest(
        version=STORE_VERSION,
        key=key,
        columns=msgspec.Raw(_encoded(columns)),
        total_bytes=total_bytes,
        **{**facts, "counts": dict(trace.counts)},
    )
    (folder / MANIFEST_NAME).write_bytes(with_checksum(msgspec.json.encode(manifest)))


def _written(file: SummedFile, column: _PendingColumn) -> StoredColumn:
    """Write a column; of one with a single value that alone, once it is known to be one."""
    begin, length = file.begin_column(), 0
    value: npt.NDArray[Any] = np.empty(0, np.int64)
    pieces = iter(column.pieces)
    num_pieces, is_same = 0, True
    for piece in pieces:
        value = value if length else piece[:1].copy()
        is_same = _holds_only(piece, value)
        if not is_same:
            every = chain(_repeated(value, length), (piece,), pieces)
            num_pieces, length = _write_rows(file, every, packs=column.packs)
            break
        length += len(piece)
    if is_same:
        file.write(value.data)
    return StoredColumn(
        column.name,
        value.dtype.str,
        length,
        begin,
        file.tell(),
        file.checksum,
        is_same=is_same and length > 1,
        packed=num_pieces,
        first=int(value[0]) if length and column.name.endswith(_STARTS) else 0,
    )


def _write_rows(
    file: SummedFile, pieces: Iterable[npt.NDArray[Any]], *, packs: bool
) -> tuple[int, int]:
    """Write the rows of a column; return the number of packed pieces, and of rows."""
    if packs:
        num_pieces, length, _ = write_packed(file, pieces)
        return num_pieces, length
    length = 0
    for piece in pieces:
        file.write(np.ascontiguousarray(piece).data)
        length += len(piece)
    return 0, length


def _repeated(value: npt.NDArray[Any], count: int) -> Iterator[npt.NDArray[Any]]:
    for begin in range(0, count, PACKED_ROWS):
        yield np.repeat(value, min(PACKED_ROWS, count - begin))


def _holds_only(piece: npt.NDArray[Any], value: npt.NDArray[Any]) -> bool:
    if not len(piece) or piece[-1] != value[0]:
        return not len(piece)
    return piece.strides == (0,) or bool((piece == value).all())


_FACTS = tuple(
    name
    for name in _Manifest.__struct_fields__
    if name not in ("version", "key", "columns", "total_bytes")
)


_encoded = msgspec.json.Encoder().encode


@lru_cache(_KEPT_GROUPS)
def _process_group(text: bytes) -> ProcessGroup:
    """Decode a group. All ranks of a job state the largest ones alike, with every rank in them."""
    return msgspec.json.decode(text, type=ProcessGroup)


def _mapped(
    text: bytes, path: Path, descriptor: int, read_again: Callable[[], RankTrace] | None
) -> RankTrace:
    """Columns as views of one mapping; raises ValueError when the file is not the one written."""
    manifest = msgspec.json.decode(text, type=_Manifest, strict=True)
    if (manifest.version, manifest.key) != (STORE_VERSION, path.parent.name):
        raise ValueError(path)
    place = ColumnFile(
        path,
        compressed_places(bytes(manifest.columns)),
        manifest.total_bytes,
        read_again=read_again,
    )
    columns = map_columns(place, descriptor)
    facts = {name: getattr(manifest, name) for name in _FACTS}
    facts["process_groups"] = tuple(_process_group(bytes(raw)) for raw in manifest.process_groups)
    return RankTrace(**columns_of(columns), place=place, **facts)
