"""Watch a directory while a job writes to it: which files came, grew or went, and which are whole.

Each look is one walk of the directory and opens no file, but those that changed and are not known
to be traces: logs and dumps are read while they grow, and their first bytes tell them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ccltui.parsers.discovery.discover import look
from ccltui.parsers.discovery.sniff import sniff
from ccltui.parsers.discovery.walk import Entry, Walk
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.format import UNKNOWN
from ccltui.parsers.safe_text import printable

_GROWING: Final = "still growing"
Status = tuple[int, ...]


class Changes(Struct, frozen=True):
    """What differs from the look before, by path, safe to print."""

    new: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.new or self.grown or self.gone)


class Watch:
    """The files of one directory from look to look."""

    def __init__(self, path: str, interval_s: float) -> None:
        """Watch ``path``, which need not exist yet, every ``interval_s`` seconds."""
        self._path = path
        self._interval_ns = int(interval_s * 1e9)
        self._walk = Walk()
        self._looked = False
        self._known: dict[str, Status] = {}
        self._still: set[str] = set()
        self._held: dict[str, tuple[Status, str]] = {}
        self._opened: dict[str, Status] = {}
        self._read_while_growing: dict[str, bool] = {}

    def look(self, now_ns: int) -> Changes:
        """List the directory and return what changed; an absent one is empty.

        At the first look a file whose last change is older than the interval stands still; later
        on only one that two looks find the same, because clocks of file servers differ.
        """
        self._walk = self._listed()
        found = {entry.path: status_of(entry) for entry in self._walk.entries}
        times = {entry.path: entry.mtime_ns for entry in self._walk.entries}
        before, self._known = self._known, found
        first, self._looked = not self._looked, True
        grown = [path for path in found if path in before and found[path] != before[path]]
        if first:
            self._still = {p for p in found if now_ns - times[p] > self._interval_ns}
        else:
            self._still = {path for path in found if before.get(path) == found[path]}
        self._held = {p: one for p, one in self._held.items() if found.get(p) == one[0]}
        self._recognise()
        return Changes(
            tuple(printable(path) for path in found if path not in before),
            tuple(map(printable, grown)),
            tuple(printable(path) for path in before if path not in found),
        )

    def _listed(self) -> Walk:
        try:
            return look(self._path)
        except NotFoundError:
            return Walk()

    def _recognise(self) -> None:
        """Find out which growing files are logs or dumps; traces are not opened again."""
        for entry in self._walk.entries:
            is_open = entry.path in self._still or entry.problem is not None
            if is_open or not entry.size_bytes or entry.path in self._read_while_growing:
                continue
            name = entry.path.rpartition("/")[2]
            known = sniff(entry.real_path, name, entry.size_bytes).format
            if known is not UNKNOWN:
                may_grow = known.has_own_metrics or known.read_by_line
                self._read_while_growing[entry.path] = may_grow and not known.is_trace

    def waiting(self) -> dict[str, str]:
        """Return the files that are not opened, and why."""
        return {
            printable(path): self._held[path][1] if path in self._held else _GROWING
            for path in self._known
            if not self._is_ready(path)
        }

    def _is_ready(self, path: str) -> bool:
        if path in self._held:
            return False
        return path in self._still or self._read_while_growing.get(path, False)

    def is_due(self) -> bool:
        """Return whether the files to open are others than those opened last."""
        return self._ready() != self._opened

    def _ready(self) -> dict[str, Status]:
        return {path: status for path, status in self._known.items() if self._is_ready(path)}

    def take(self) -> Walk:
        """Return the listing of the files to open, and remember that they were opened."""
        self._opened = self._ready()
        entries = [entry for entry in self._walk.entries if entry.path in self._opened]
        return Walk(entries, list(self._walk.notes))

    def hold(self, reasons: Mapping[str, str]) -> bool:
        """Leave out files that their readers do not accept, until they change.

        Returns:
            Whether any of them was among the files taken last.
        """
        paths = [path for path in self._opened if printable(path) in reasons]
        for path in paths:
            self._held[path] = self._known[path], reasons[printable(path)]
        return bool(paths)

    def accept_all(self) -> None:
        """Open every file as it is: nothing changes any more."""
        self._held.clear()
        self._still = set(self._known)


def status_of(entry: Entry) -> Status:
    """What changes with a file: size, time of change, and device and inode."""
    return entry.size_bytes, entry.mtime_ns, *entry.identity[:2]
