"""Read a trace again whose stored columns turn out to be damaged when they are used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.parsers.errors import DamagedColumnsError, TraceError, contained
from ccltui.parsers.formats import in_memory, read_file
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.store.column_store import PartReader, Store

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.discovery.discover import FoundFile


def part_reader(found: FoundFile, directory: Path, key: str) -> PartReader:
    """Return what reads a part of a file again, which other processes can be sent."""
    return partial(_TraceReader, found, directory, key)


def report_damage_by(report: Callable[[str], None]) -> None:
    """Pass lines about damaged columns to ``report``; to begin with they go to standard error."""
    _report[:] = [report]


def report_damage(path: str, directory: Path) -> None:
    """Tell the user that a trace is read because its stored columns are damaged."""
    _report[0](f"{path}: its columns in {directory} are damaged, so the file is read again")


def _print_line(text: str) -> None:
    if sys.stderr is not None:
        print(f"ccltui: {safe_text(text)}", file=sys.stderr, flush=True)


_report: Final[list[Callable[[str], None]]] = [_print_line]


class _TraceReader(Struct, frozen=True):
    """Reads one part of a file; equal to another one of the same file, also in another process."""

    found: FoundFile
    directory: Path
    key: str
    part: int

    def __call__(self) -> RankTrace:
        """Return a part of a file whose columns in a store are damaged, and replace the entry.

        Raises:
            DamagedColumnsError: The file cannot be read, or is not the one that was stored.
        """
        found, store = self.found, Store(self.directory)
        repaired = store.intact_part(self.key, self.part)  # another process came first
        if repaired is not None:
            return repaired
        try:
            with contained(found.path):
                parts = _parts(found, store, self.key)
        except TraceError as error:
            text = f"its columns in {self.directory} are damaged, and it cannot be read again"
            raise DamagedColumnsError(f"{text} ({error})", path=found.path) from error
        report_damage(found.path, self.directory)
        if (self.directory / self.key).exists():  # a temporary directory is gone
            store.replace_parts(self.key, parts)
        return in_memory(parts[self.part])


def _parts(found: FoundFile, store: Store, key: str) -> tuple[RankTrace, ...]:
    other = None if found.companion is None else Path(found.companion.real_path)
    if store.key(Path(found.real_path), found.format.version, other) != key:
        raise TraceError("it has changed; run the command again")
    return tuple(
        read_file(
            Path(found.real_path),
            found.kind,
            shown=found.path,
            companion=found.companion,
            scratch=(store.directory,),
        )
    )
