"""What earlier openings of a directory found out about its files, kept in the store.

On a network file system each opening of a file takes a millisecond or more, and a job has thousands
of files. A file of which path, inode, size and times are as they were is not opened again: its
format, what it states of its rank, and the digest of its ends are taken from here. All else, as
captures and duplicates, is computed anew from these at each opening.

The folder ``directories`` of the store has one file for each directory of traces, named by the real
path of that directory: msgpack, and behind it a checksum. One that is damaged, of another version
or of another user is ignored, and replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ccltui.parsers.discovery.sniff import Sniffed
from ccltui.parsers.discovery.walk import Entry
from ccltui.parsers.formats import all_formats, plug_in_problems
from ccltui.parsers.store.store_entry import (
    FRESH_S,
    checked,
    is_shared,
    read_plain,
    require_trusted,
    set_used,
    with_checksum,
    write_beside,
)

FOLDER: Final = "directories"
RULES_VERSION: Final = 2
"""Raised whenever a rule that recognises files, or what is taken from their ends, changes."""
LEAST_FILES: Final = 32
"""Smaller directories are looked at anew: that takes less than a tenth of a second."""
_SETTLED_NS: Final = 2 * 10**9
"""Least age of a file's last change. A file that changes twice within one tick of the file system's
clock, which may be two seconds, has the same times before and after; `git` calls it racy."""


class _KnownFile(msgspec.Struct, frozen=True, array_like=True):
    path: bytes
    status: tuple[int, ...]
    sniffed: Sniffed


class _Listing(msgspec.Struct, frozen=True, array_like=True):
    rules: str
    files: list[_KnownFile]


class KnownFiles:
    """Files of one directory as the last opening found them."""

    def __init__(self, store: Path, directory: str) -> None:
        """Read what is known of a ``directory`` (its real path); nothing is raised."""
        self._begun_ns = time.time_ns()
        self._store = store
        name = hashlib.blake2b(os.fsencode(directory), digest_size=16).hexdigest()
        self._place = store / FOLDER / name
        self._rules = _rules()
        self._used_ns = self._begun_ns
        self._files = {known.path: known for known in self._read()}

    def sniffed(self, entry: Entry) -> Sniffed | None:
        """Return what is known of a file, None where it is new or has changed."""
        known = self._files.get(os.fsencode(entry.path))
        return known.sniffed if known is not None and known.status == _status(entry) else None

    def keep(self, files: Iterable[tuple[Entry, Sniffed]]) -> None:
        """Replace what is known by what holds now; a store that cannot be written is left."""
        kept: dict[bytes, _KnownFile] = {}
        changes = 0
        for entry, sniffed in files:
            if not sniffed.lasts or entry.ctime_ns > self._begun_ns - _SETTLED_NS:
                continue
            path = os.fsencode(entry.path)
            before = self._files.get(path)
            changes += before is None or before.sniffed is not sniffed
            kept[path] = _KnownFile(path, _status(entry), sniffed)
        if not changes and len(kept) == len(self._files):
            if self._begun_ns - self._used_ns > FRESH_S * 10**9:
                set_used((self._place,))
        elif len(kept) >= LEAST_FILES and not plug_in_problems():
            with contextlib.suppress(OSError, ValueError):  # a name or text that is no Unicode
                self._write(list(kept.values()))

    def _read(self) -> list[_KnownFile]:
        try:
            require_trusted((self._place,), shared=is_shared(self._store))
            text, status = read_plain(self._place)
            self._used_ns = status.st_mtime_ns
            listing = msgspec.msgpack.decode(checked(text), type=_Listing)
        except (OSError, ValueError, RecursionError):
            return []
        return listing.files if listing.rules == self._rules else []

    def _write(self, files: list[_KnownFile]) -> None:
        text = with_checksum(msgspec.msgpack.encode(_Listing(self._rules, files)))
        write_beside(self._store, self._place, text)


def _status(entry: Entry) -> tuple[int, ...]:
    """What changes with a file. Not its device, whose number may be another on each node."""
    return entry.size_bytes, entry.mtime_ns, entry.ctime_ns, *entry.identity[1:2]


def _rules() -> str:
    """Return what verdicts depend on besides the file: the rules of all formats."""
    known = [(one.kind, one.version, len(one.sniff)) for one in all_formats()]
    return hashlib.blake2b(repr((RULES_VERSION, known)).encode(), digest_size=16).hexdigest()
