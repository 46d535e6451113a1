"""What a binary file is: databases, reports, archives, pickles. Nothing is unpacked or run."""

from __future__ import annotations

import os
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, cast
from urllib.parse import quote

from ccltui.parsers.found_files import Kind
from ccltui.parsers.names import listed, shown
from ccltui.parsers.nsys.sqlite.journal_files import unfinished
from ccltui.parsers.text.file_heads import text_pieces

SQLITE_MAGIC = b"SQLite format 3\0"
PARQUET = b"PAR1"

_NSYS_TABLES = frozenset(
    {"META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS", "ANALYSIS_DETAILS"}
)
_REPORT_SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")
_SNAPSHOT_SUFFIXES = (".pickle", ".pkl")
_MEMBERS_LISTED = 6
_ARCHIVE_BYTES_READ = 1 << 25
_PIECE_BYTES = 1 << 16

_LISTING_ERRORS: tuple[type[Exception], ...] = (
    tarfile.TarError,
    RecursionError,
    IndexError,
    OverflowError,
    OSError,
    EOFError,
    ValueError,
)
_STANDS_FOR_ALL = ("StringIds.parquet", "StringIds.arrow")
_UNPACK = "unpack it first"
_MAGIC: tuple[tuple[bytes, Kind, str], ...] = (
    (b"PK\x03\x04", "archive", f"a zip archive or PyTorch checkpoint; an archive: {_UNPACK}"),
    (b"BZh", "archive", f"compressed with bzip2: {_UNPACK}"),
    (b"\xfd7zXZ\0", "archive", f"compressed with xz: {_UNPACK}"),
    (b"\x04\x22\x4d\x18", "archive", f"compressed with lz4: {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", "archive", f"a 7z archive: {_UNPACK}"),
    (b"\x1f\x8b", "archive", f"compressed twice: {_UNPACK}"),
    (b"\x28\xb5\x2f\xfd", "archive", f"compressed twice: {_UNPACK}"),
    (PARQUET, "unknown", "a Parquet file; of an nsys export StringIds.parquet stands for all"),
    (b"ARROW1", "unknown", "an Arrow file; of an nsys export StringIds.arrow stands for all"),
    (b"\xff\xff\xff\xff", "unknown", "an Arrow stream; of an nsys export StringIds.arrow stands"),
    (b"\x89HDF", "unknown", "an HDF5 file: export the nsys report to sqlite instead"),
    (b"\x89PNG", "unknown", "an image"),
    (b"\xff\xd8\xff", "unknown", "an image"),
    (b"%PDF", "unknown", "a PDF document"),
    (b"\x7fELF", "unknown", "a program or library"),
)


def is_tables_export(name: str, raw: bytes) -> bool:
    """Whether a file stands for an nsys export in tables: its strings, or all in one stream."""
    is_tables = raw.startswith((PARQUET, b"ARROW1", b"\xff\xff\xff\xff"))
    return is_tables and (name in _STANDS_FOR_ALL or name.endswith(".arrows"))


def is_recipe_table(name: str, raw: bytes) -> bool:
    """Whether a file is a summary of `nsys recipe` in Parquet."""
    return raw.startswith(PARQUET) and name in ("all_stats.parquet", "rank_stats.parquet")


def classify_binary(raw: bytes) -> tuple[Kind, str | None] | None:
    """Kind by magic bytes at the very start, None when none is known."""
    for magic, kind, problem in _MAGIC:
        if raw.startswith(magic):
            return kind, problem
    if len(raw) > 2 and raw[0] == 0x80 and 2 <= raw[1] <= 5:
        return "memory_snapshot", _PICKLE
    return None


_PICKLE = "a pickle (memory snapshots are such files): never loaded, it could run code"


def classify_opaque(name: str) -> tuple[Kind, str | None]:
    """Kind of bytes that no magic explains: the name is all there is."""
    lower = name.lower()
    if lower.endswith(_REPORT_SUFFIXES):
        return "nsys_report", (
            "an nsys report, which only nsys reads: run `nsys export -t sqlite` on it"
        )
    if lower.endswith(".xplane.pb"):
        return "tpu_trace", "a TPU profile in protocol buffers: its trace.json.gz is read"
    if lower.endswith(_SNAPSHOT_SUFFIXES):
        return "memory_snapshot", _PICKLE
    return "unknown", "binary data in no format known here"


def classify_sqlite(path: str) -> tuple[Kind, str | None]:
    """Whether an SQLite file is an export of nsys: by its table names, nothing else is read.

    The problem of an export is that a part of it is in a file beside it. Raises OSError.
    """
    # immutable: no lock, no journal is written beside the user's file.
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    try:
        beside = unfinished(path)
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            connection.text_factory = bytes
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') LIMIT 2000"
            names = {row[0].decode("utf-8", "replace") for row in connection.execute(query)}
    except UnicodeDecodeError:  # Python cannot even make an error of SQLite's words
        return "unknown", "an SQLite file that cannot be read: names in it are not UTF-8"
    except (sqlite3.Error, sqlite3.Warning, MemoryError, AttributeError) as error:
        return "unknown", f"an SQLite file that cannot be read: {shown(str(error)[:200])}"
    kernels = any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in names)
    if "StringIds" in names and (kernels or names & _NSYS_TABLES):
        return "nsys_sqlite", beside
    return "unknown", beside or "an SQLite file without the tables of an nsys export"


def is_tar(data: bytes) -> bool:
    """True when the first 512 bytes are a tar header (by its checksum)."""
    if len(data) < 512 or not data[:512].strip(b"\0"):
        return False
    try:
        tarfile.TarInfo.frombuf(data[:512], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def archive_problem(path: str) -> str:
    """One sentence that names the first members of a tar archive; nothing is unpacked."""
    names: list[str] = []
    complete = True
    try:
        with (
            closing(text_pieces(path, _PIECE_BYTES)) as pieces,
            tarfile.open(
                fileobj=cast(BinaryIO, _Limited(pieces)), mode="r|", errors="surrogateescape"
            ) as archive,
        ):
            # extend() keeps what it got before an error ends the archive
            names.extend(shown(entry.name[:120]) for entry in archive if entry.isfile())
    except _LISTING_ERRORS:
        complete = False
    count = f"{len(names)}" if complete else f"at least {len(names)}"
    inside = f" ({listed(names, _MEMBERS_LISTED)})" if names else ""
    return f"an archive of {count} file{'' if len(names) == 1 else 's'}{inside}: {_UNPACK}"


class _Limited:
    """A reader that fails after a fixed number of bytes: a listing must not cost minutes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._left = _ARCHIVE_BYTES_READ

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes, fewer at the end only."""
        self._left -= size
        if self._left < 0:
            raise OSError("the archive is longer than what is read for a listing")
        while len(self._held) < size and (piece := next(self._pieces, b"")):
            self._held += piece
        part, self._held = self._held[:size], self._held[size:]
        return part
