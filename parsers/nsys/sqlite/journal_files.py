"""Check for a write-ahead log or a journal beside an SQLite file that belongs to its content.

Files are read without locks and without SQLite's recovery, which would write beside them. A file
with such a log or journal is rejected: its pages alone are an older state, or half of a change.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LOG_MAGIC: Final = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
_LOG_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_SALTS: Final = slice(16, 24)
_FRAME_SALTS: Final = slice(8, 16)


def unfinished(path: str) -> str | None:
    """Return why the pages of an SQLite file are not its whole content, and what to do.

    Returns:
        The message, or None if the pages are complete. Empty side files, and journals whose
        header SQLite has overwritten, are ignored.

    Raises:
        OSError: A side file cannot be read.
    """
    real_path = os.path.realpath(path)
    if _has_frames(_head(real_path + "-wal")):
        return (
            "rows of it may be in the -wal file beside it alone: merge them with "
            "`sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'`"
        )
    if _head(real_path + "-journal").startswith(_JOURNAL_MAGIC):
        return (
            "a change of it was broken off, as the -journal file beside it says: undo it with "
            "`sqlite3 FILE 'PRAGMA integrity_check'`"
        )
    return None


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_LOG_HEADER_BYTES + _FRAME_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _has_frames(log: bytes) -> bool:
    """Return whether a log has a frame of its current generation; SQLite ignores older ones."""
    frame = log[_LOG_HEADER_BYTES:]
    is_log = log.startswith(_LOG_MAGIC) and len(frame) == _FRAME_HEADER_BYTES
    return is_log and frame[_FRAME_SALTS] == log[_SALTS]
