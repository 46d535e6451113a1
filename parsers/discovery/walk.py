"""Walk a directory of users' files: every real file once, also with links.

`each` calls a function on many files, in threads where each call waits for a file system.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct
from msgspec import field as struct_field

from ccltui.parsers.columns import Note
from ccltui.parsers.safe_text import natural_key, printable

MAX_FILES = 200_000
MAX_LINKED = 20_000
"""Most files and folders behind links out of the directory, all links together.

A link to a home folder or to a file system would cost a minute: every file is opened to tell what
it is. Files of four ranks each of 5,000 fit.
"""

_LINK_ERRORS = {
    errno.ENOENT: "a link to nothing: {target} is not there",
    errno.ENOTDIR: "a link to nothing: {target} is not there",
    errno.ELOOP: "a link that leads back to itself",
}
_TYPES = (
    (stat.S_ISFIFO, "a named pipe: never opened"),
    (stat.S_ISSOCK, "a socket: never opened"),
    (stat.S_ISCHR, "a device: never opened"),
    (stat.S_ISBLK, "a device: never opened"),
)


class Entry(Struct, frozen=True):
    """A directory entry that is no folder. ``path`` is relative, as the system spells it."""

    path: str
    real_path: str
    size_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    identity: tuple[int, ...] = ()  # equal for hard links of one file; empty when unknown
    linked: bool = False  # reached through a symlink
    problem: str | None = None  # then it must not be opened


class Walk(Struct):
    """Entries in natural order of paths, and what was not followed."""

    entries: list[Entry] = struct_field(default_factory=list)
    notes: list[Note] = struct_field(default_factory=list)


class _File(Struct, frozen=True):
    """A directory entry that may be a regular file; its status is not read yet."""

    path: str
    real_path: str
    linked: bool
    problem: str | None = None

    def entry(self) -> Entry:
        try:
            return _entry(self, os.stat(self.real_path))  # noqa: PTH116  (Path costs as much again)
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            return Entry(self.path, self.real_path, linked=self.linked, problem=problem)


class _Folder(Struct, frozen=True):
    path: str  # "" for the root
    real_path: str
    depth: int
    linked: bool = False

    def child(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


def walk(root: str, max_depth: int) -> Walk:
    """All files below ``root``, at most ``max_depth`` folders down.

    Real folders come before linked ones, and no folder is entered twice, so neither a loop nor
    a farm of links costs more than the files themselves. What links out of ``root`` lead to is
    searched level by level until ``MAX_LINKED`` files and folders were seen. Raises OSError when
    ``root`` itself cannot be listed.
    """
    os.scandir(root).close()
    return _Walker(os.path.realpath(root), max_depth).run()


def entry_of(path: str, shown_path: str) -> Entry:
    """The entry of a single file that the user named; a problem when it is no regular file."""
    return _File(shown_path, os.path.realpath(path), linked=False).entry()


class _Walker:
    def __init__(self, root: str, max_depth: int) -> None:
        self.max_depth = max_depth
        self.root = root
        self.found = Walk()
        self.entered: dict[str, str] = {}
        self.links: list[tuple[_Folder, str]] = []
        self.num_outside = 0
        self.files: list[_File] = []

    def run(self) -> Walk:
        self._enter(_Folder("", self.root, 0))
        while self.links:
            pending, self.links = self.links, []
            for folder, name in sorted(
                pending, key=lambda link: natural_key(link[0].child(link[1]))
            ):
                self._follow(folder, name)
        self.found.entries += each(_File.entry, self.files)
        self.found.entries.sort(key=lambda entry: natural_key(entry.path))
        return self.found

    def _note(self, code: str, message: str) -> None:
        self.found.notes.append(Note(code, message))

    def _enter(self, first: _Folder) -> None:
        queue = deque([first])
        while queue:
            folder = queue.popleft()
            self.entered[folder.real_path] = folder.path
            try:
                with os.scandir(folder.real_path) as listing:
                    entries = sorted(listing, key=lambda entry: natural_key(entry.name))
            except OSError as error:
                where = printable(folder.path)
                self._note("unreadable_folder", f"{where}: cannot be listed: {error.strerror}")
                continue
            for entry in entries:
                if not self._has_room(folder, first):
                    return
                if len(self.found.entries) + len(self.files) >= MAX_FILES:
                    self._note(
                        "too_many_files", f"only the first {MAX_FILES:,} files were looked at"
                    )
                    return
                below = self._sort_out(folder, entry)
                if below is not None:
                    queue.append(below)

    def _has_room(self, folder: _Folder, link: _Folder) -> bool:
        """Count an entry of a folder; False where those outside of the root are too many."""
        if not folder.linked or _is_below(folder.real_path, self.root):
            return True
        self.num_outside += 1
        if self.num_outside <= MAX_LINKED:
            return True
        if self.num_outside == MAX_LINKED + 1:
            text = "links lead out of the directory, and of what is there only the first"
            self._note(
                "linked_folder",
                f"{printable(link.path)}: {text} {MAX_LINKED:,} files and folders were looked at",
            )
        return False

    def _sort_out(self, folder: _Folder, entry: os.DirEntry[str]) -> _Folder | None:
        path = folder.child(entry.name)
        if entry.is_symlink():
            self.links.append((folder, entry.name))
        elif entry.is_dir(follow_symlinks=False):
            return self._folder(path, entry.path, folder.depth + 1, linked=folder.linked)
        elif entry.name.startswith("."):
            self._add(Entry(path, entry.path, problem="a hidden file: not read"))
        else:
            self.files.append(_File(path, entry.path, folder.linked))
        return None

    def _folder(self, path: str, real_path: str, depth: int, *, linked: bool) -> _Folder | None:
        if path.rpartition("/")[2].startswith("."):
            self._note("hidden_folder", f"{printable(path)}: a hidden folder, not searched")
        elif depth > self.max_depth:
            levels = f"{self.max_depth} level{'' if self.max_depth == 1 else 's'}"
            self._note("depth_limit", f"{printable(path)}: more than {levels} down, not searched")
        elif real_path in self.entered:
            same = printable(self.entered[real_path]) or "the directory itself"
            self._note("linked_folder", f"{printable(path)}: the same folder as {same}")
        else:
            return _Folder(path, real_path, depth, linked)
        return None

    def _follow(self, folder: _Folder, name: str) -> None:
        path, link = folder.child(name), f"{folder.real_path.rstrip('/')}/{name}"
        try:
            status = Path(link).stat()
        except OSError as error:
            self._add(Entry(path, link, linked=True, problem=_broken_link(link, error)))
            return
        real_path = os.path.realpath(link)
        if not stat.S_ISDIR(status.st_mode):
            hidden = "a hidden file: not read" if name.startswith(".") else None
            self._add(_entry(_File(path, real_path, True, hidden), status))
        elif _is_below(folder.real_path, real_path):
            self._note(
                "symlink_loop", f"{printable(path)}: a link to a folder above it, not followed"
            )
        else:
            below = self._folder(path, real_path, folder.depth + 1, linked=True)
            if below is not None:
                self._enter(below)

    def _add(self, entry: Entry) -> None:
        self.found.entries.append(entry)


def _is_below(path: str, folder: str) -> bool:
    """Whether a real path is that of ``folder`` or of something in it."""
    return (path + "/").startswith(folder.rstrip("/") + "/")


def _broken_link(link: str, error: OSError) -> str:
    text = _LINK_ERRORS.get(error.errno or 0, "a link that cannot be followed: {why}")
    try:
        target = printable(str(Path(link).readlink()))
    except OSError:
        target = "its target"
    return text.format(target=target, why=error.strerror)


def _entry(file: _File, status: os.stat_result) -> Entry:
    for is_type, why in _TYPES:
        if is_type(status.st_mode):
            return Entry(file.path, file.real_path, linked=file.linked, problem=why)
    return Entry(
        file.path,
        file.real_path,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        _identity(status),
        file.linked,
        file.problem,
    )


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Equal for two names of one file; empty on file systems that number none."""
    if not status.st_ino:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_In = TypeVar("_In")
_Out = TypeVar("_Out")

_AT_ONCE: Final = 32
"""Threads that wait. A call to a remote server takes about a millisecond and no CPU."""
_PROBED: Final = 8
_SLOW_S: Final = 0.0002
"""Waiting per call above which threads pay: starting them and passing results cost 50 us a call."""
_BATCH: Final = 256


def each(function: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Return ``function`` of each item, in order; an exception of it is raised here."""
    return list(each_in_turn(function, items))


def each_in_turn(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Yield ``function`` of each item, in order.

    Some calls are made one after another and timed: only where they wait longer than threads cost
    are the others made concurrently, some hundred ahead of what was yielded.
    """
    rest = iter(items)
    while probed := list(islice(rest, _PROBED)):
        waits = []
        for item in probed:
            wall, used = time.perf_counter(), time.thread_time()
            found = function(item)
            waits.append(time.perf_counter() - wall - (time.thread_time() - used))
            yield found
        # The median: a process that takes the CPU adds to some of them.
        if sorted(waits)[len(waits) // 2] > _SLOW_S:
            yield from _concurrently(function, rest)
            return
        for item in islice(rest, _BATCH):
            yield function(item)


def _concurrently(function: Callable[[_In], _Out], items: Iterator[_In]) -> Iterator[_Out]:
    batch = list(islice(items, _BATCH))
    if not batch:  # the import takes as long as 70 waits
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (slow file systems only)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while batch:
            yield from threads.map(function, batch)
            batch = list(islice(items, _BATCH))
