"""Events of a load: bytes read, ranks loaded, files that failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError, defect_of, is_of_machine
from ccltui.parsers.system.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import FoundFile


class Progress(Struct, frozen=True):
    """Bytes of one file read so far."""

    path: str
    done_bytes: int
    total_bytes: int


class Loaded(Struct, frozen=True):
    """One rank of a file is in columns; ``cached`` when they came from the store."""

    path: str
    trace: RankTrace
    cached: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Previewed:
    """The beginning of a rank (``trace.read_share`` of its file), until all of it is loaded.

    It is in no cache, and only a screen should show it.
    """

    path: str
    trace: RankTrace


class Failed(Struct, frozen=True):
    """One file gave nothing; ``error`` is one line with the file and the reason.

    ``is_lost``: the content of the file is not known to be wrong. It could not be opened, or its
    columns not be stored: no room, no descriptor, no memory. ``defect``: traceback, where the
    reader failed and not the file.
    """

    path: str
    error: str
    is_lost: bool = False
    defect: str = ""

    @classmethod
    def of(cls, path: str, error: TraceError) -> Failed:
        """Return the failure of a file whose reader raised ``error``."""
        return cls(path, str(error), is_of_machine(error), defect_of(error))


LoadEvent = Progress | Loaded | Previewed | Failed


def loaded(
    found: FoundFile, traces: Sequence[RankTrace], *, cached: bool, seconds: float
) -> list[LoadEvent]:
    """Return one event for each rank of a file."""
    return [Loaded(found.path, shown(t, found), cached=cached, seconds=seconds) for t in traces]


def shown(trace: RankTrace, found: FoundFile) -> RankTrace:
    """Return the trace with the path by which its file was found this time; none is stored."""
    source = msgspec.structs.replace(trace.source, path=found.path, real_path=found.real_path)
    return dataclasses.replace(trace, source=source)
