"""Find every file below a directory, its format and rank, and the captures the traces form.

On a network file system each opening of a file takes a millisecond or more, and a job has thousands
of files. So what earlier openings of a directory found out about its files is kept in the store. A
file of which path, inode, size and times are as they were is not opened again: its format, what it
states of its rank, and the digest of its ends are taken from there. All else, as captures and
duplicates, is computed anew at each opening.

The folder ``directories`` of the store has one file for each directory of traces, named by the real
path of that directory: msgpack, and behind it a checksum. One that is damaged, of another version
or of another user is ignored, and replaced.

A directory to which a job writes is watched: which files came, grew or went, and which are whole.
Each look is one walk of it and opens no file, but those that changed and are not known to be
traces: logs and dumps are read while they grow, and their first bytes tell them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from ccltui.parsers.columns import Note, RankSource
from ccltui.parsers.discovery.captures import (
    captures_of,
    is_of_replica,
    iteration_of,
    mapped_ranks,
    parse_rank_map,
    rank_in_name,
    rank_of,
    with_placed_ranks,
)
from ccltui.parsers.discovery.sniff import Sniffed, late_info, sniff
from ccltui.parsers.discovery.walk import Entry, Walk, each, entry_of, walk
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.format import SOURCES, UNKNOWN, Companion, RankInfo, Source
from ccltui.parsers.formats import all_formats, plug_in_problems
from ccltui.parsers.found_files import Capture, Discovery, FoundFile
from ccltui.parsers.safe_text import listed, natural_key, printable
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
from ccltui.parsers.text.compression import content_digest

FOLDER: Final = "directories"
RULES_VERSION: Final = 12
"""Raised whenever a rule that recognises files, or what is taken from their ends, changes."""
LEAST_FILES: Final = 8
"""Smaller directories are looked at anew: that takes less than a hundredth of a second."""
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


def with_companions(captures: Sequence[Capture], files: Sequence[FoundFile]) -> tuple[Capture, ...]:
    """Return the captures, each trace with the companion file of its rank where there is one.

    That is the one in the same folder; else the only one of the rank, where there is one capture
    of the source. Whether both recorded the same operators is checked when they are read.
    """
    known = [
        file
        for file in files
        if file.format.completes is not None
        and file.rank is not None
        and file.problem is None
        and file.duplicate_of is None
    ]
    return tuple(_completed(capture, captures, known) for capture in captures)


def _completed(
    capture: Capture, captures: Sequence[Capture], known: Sequence[FoundFile]
) -> Capture:
    fitting = [file for file in known if file.format.completes == capture.source]
    if not fitting:
        return capture
    alone = sum(one.source == capture.source for one in captures) == 1
    alone &= not any(file.replica for file in capture.files)
    paired = tuple(_paired(file, fitting, alone=alone) for file in capture.files)
    return msgspec.structs.replace(capture, files=paired)


def _paired(file: FoundFile, known: Sequence[FoundFile], *, alone: bool) -> FoundFile:
    stated = None if file.rank is None else file.rank - file.first_rank
    of_rank = [one for one in known if one.rank == stated]
    here = [one for one in of_rank if _folder(one) == _folder(file)]
    chosen = here or (of_rank if alone else [])
    if len(chosen) != 1:
        return file
    companion = Companion(chosen[0].path, chosen[0].real_path, chosen[0].digest)
    return msgspec.structs.replace(file, companion=companion)


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]


__all__ = ["Capture", "Discovery", "FoundFile", "discover", "look", "parse_rank_map"]

SKIPPED_PLUG_IN = "skipped_plug_in"
"""Code of a note on a format of another package that is not used."""
MAX_DEPTH: Final = 6
"""Levels of folders below the directory that are searched."""
_JUST_WRITTEN_NS = 120 * 10**9
_TRACE_SUFFIXES = (".json", ".gz", ".zst")
_NOT_OPENED = Sniffed("unknown")


class _Candidate(Struct):
    """One real file with all of its names, before it becomes a FoundFile."""

    entry: Entry
    sniffed: Sniffed
    aliases: list[Entry] = struct_field(default_factory=list)
    repeats: _Candidate | None = None

    @property
    def path(self) -> str:
        return self.entry.path

    @property
    def is_trace(self) -> bool:
        return self.sniffed.format.is_trace and self.sniffed.problem is None

    @property
    def is_opened(self) -> bool:
        return self.is_trace or (self.sniffed.format.is_trace and self.sniffed.format.reads_damaged)


def discover(
    path: str | Path,
    *,
    rank_map: Mapping[str, int] | None = None,
    max_depth: int = MAX_DEPTH,
    store: Path | None = None,
    walked: Walk | None = None,
) -> Discovery:
    """Return all files below ``path`` (a directory, or a single file as a directory of one).

    The result does not depend on the order of directory listings, nor on ``store``: where that is
    given, files that did not change since an earlier call are not opened again. ``walked`` is a
    listing of ``path`` that was made already, perhaps without some of its files.

    Raises:
        NotFoundError: ``path`` is absent.
        TraceError: ``path`` cannot be listed.
        GrammarError: ``rank_map`` names a file that is no trace here.
    """
    found = look(path, max_depth) if walked is None else walked
    known = None
    if store is not None and len(found.entries) >= LEAST_FILES:
        known = KnownFiles(store, os.path.realpath(path))
    candidates = _real_files(found.entries, known)
    _follow_stored_links(candidates, _base(path), single=len(found.entries) == 1)
    _mark_equal_content(
        [one for one in candidates if one.is_trace and one.sniffed.format.compares_content]
    )
    opened = [one for one in candidates if one.is_opened]
    opened.sort(key=lambda one: SOURCES.index(one.sniffed.format.source or SOURCES[-1]))
    ranks = _mapped(rank_map or {}, opened)
    files: list[FoundFile] = []
    notes = list(found.notes)
    for candidate in candidates:
        files += _found_files(candidate, ranks, notes)
    if known is not None:
        known.keep((one.entry, one.sniffed) for one in candidates)
    files = with_placed_ranks(_without_copies(_without_exported(files)))
    used = {source: _without_texts([f for f in files if _is_used(f, source)]) for source in SOURCES}
    captures = tuple(capture for source in SOURCES for capture in captures_of(used[source], source))
    captures = with_companions(captures, files)
    in_capture = {file.path: file for capture in captures for file in capture.files}
    files = [in_capture.get(file.path, file) for file in files]
    files.sort(key=lambda file: natural_key(file.path))
    notes += [*_duplicates(files), *_several(captures)]
    notes += [Note(SKIPPED_PLUG_IN, text) for text in plug_in_problems()]
    return Discovery(str(path), tuple(files), captures, tuple(notes))


def _is_used(file: FoundFile, source: Source) -> bool:
    if file.format.source != source or file.duplicate_of is not None:
        return False
    return file.problem is None or file.format.reads_damaged


def _without_texts(traces: list[FoundFile]) -> list[FoundFile]:
    """Leave out printed traces where the recording itself is here: they repeat its rows."""
    return [one for one in traces if one.format.reports != "text"] or traces


def _without_exported(files: list[FoundFile]) -> list[FoundFile]:
    """Mark reports next to their own export as repetitions of it."""
    exports = {
        (file.kind, file.path.rpartition(".")[0]): file.path
        for file in files
        if file.problem is None and file.duplicate_of is None
    }
    return [
        msgspec.structs.replace(file, duplicate_of=export)
        if (export := exports.get((file.format.exported_as, file.path.rpartition(".")[0])))
        else file
        for file in files
    ]


def _without_copies(files: list[FoundFile]) -> list[FoundFile]:
    """Mark files that repeat other traces, in formats that give way to these."""
    usable = [
        file
        for file in files
        if file.format.is_trace and file.problem is None and file.duplicate_of is None
    ]
    others = {
        "folder": [file for file in usable if not file.format.gives_way],
        "all": [file for file in usable if file.format.gives_way != "all"],
    }
    return [
        msgspec.structs.replace(file, duplicate_of=first.path)
        if file.format.gives_way and (first := _original(file, others[file.format.gives_way]))
        else file
        for file in files
    ]


def _original(file: FoundFile, others: Sequence[FoundFile]) -> FoundFile | None:
    """Return the first of other traces that a file repeats."""
    if file.format.gives_way == "all":
        return next(iter(others), None)
    folder = file.path.rpartition("/")[0]
    unknown = file.rank is None
    return next(
        (
            one
            for one in others
            if one.path.rpartition("/")[0] == folder
            and (unknown or one.rank is None or one.rank == file.rank)
        ),
        None,
    )


def _base(path: str | Path) -> str:
    real_path = os.path.realpath(path)
    return real_path if Path(real_path).is_dir() else str(Path(real_path).parent)


def look(path: str | Path, max_depth: int = MAX_DEPTH) -> Walk:
    """List a directory, or one file. Raises NotFoundError, TraceError."""
    where = printable(str(path))
    try:
        if Path(path).is_dir():
            return walk(str(path), max_depth)
        Path(path).stat()
    except FileNotFoundError as error:
        raise NotFoundError("no such file or directory", path=where) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise TraceError(f"cannot be opened: {why}", path=where) from error
    return Walk([entry_of(str(path), Path(path).name)])


def _real_files(entries: Iterable[Entry], known: KnownFiles | None) -> list[_Candidate]:
    """Return one candidate for each real file; names that are links to it become its aliases.

    Files that are not ``known`` are opened and recognised.
    """
    candidates: list[_Candidate] = []
    unknown: list[_Candidate] = []
    by_identity: dict[object, _Candidate] = {}
    for entry in sorted(entries, key=lambda entry: (entry.linked, natural_key(entry.path))):
        if entry.problem is not None:
            candidates.append(_Candidate(entry, Sniffed("unknown", entry.problem)))
            continue
        first = by_identity.get(entry.identity or entry.real_path)
        if first is not None:
            first.aliases.append(entry)
            continue
        sniffed = None if known is None else known.sniffed(entry)
        candidate = _Candidate(entry, sniffed or _NOT_OPENED)
        unknown += [] if sniffed is not None else [candidate]
        candidates.append(candidate)
        by_identity[entry.identity or entry.real_path] = candidate
    for candidate, sniffed in zip(unknown, each(_recognised, unknown), strict=True):
        candidate.sniffed = sniffed
    return candidates


def _recognised(candidate: _Candidate) -> Sniffed:
    entry = candidate.entry
    return sniff(entry.real_path, entry.path.rpartition("/")[2], entry.size_bytes)


def _follow_stored_links(candidates: list[_Candidate], base: str, *, single: bool) -> None:
    """Resolve symlinks that were stored as text, where the files that they name are here."""
    by_real_path = {candidate.entry.real_path: candidate for candidate in candidates}
    for candidate in [candidate for candidate in candidates if candidate.sniffed.link is not None]:
        target = _stored_target(candidate, by_real_path)
        meant = by_real_path.get(target)
        if meant is not None and meant.sniffed.link is None:
            meant.aliases.append(candidate.entry)
            candidates.remove(candidate)
        elif single and target.startswith(base.rstrip("/") + "/") and Path(target).is_file():
            entry = entry_of(target, candidate.path)
            candidate.entry = entry
            candidate.sniffed = sniff(target, Path(target).name, entry.size_bytes)
        elif candidate.sniffed.kind == "unknown" and candidate.path.endswith(_TRACE_SUFFIXES):
            link = printable(candidate.sniffed.link or "")
            why = f"a symlink stored as text; {link} is not among the files here"
            candidate.sniffed = replace(candidate.sniffed, problem=why, lasts=False)


def _stored_target(candidate: _Candidate, by_real_path: Mapping[str, _Candidate]) -> str:
    """Return the target of a stored link, through further ones; a circle ends where it began."""
    target = candidate.entry.real_path
    seen: set[str] = set()
    while target not in seen and (link := by_real_path.get(target)) and link.sniffed.link:
        seen.add(target)
        target = os.path.realpath(f"{target.rpartition('/')[0]}/{link.sniffed.link}")
    return target


def _mark_equal_content(traces: list[_Candidate]) -> None:
    """Keep one of traces with equal decompressed content: in an iteration, plain, shallow."""
    collisions: dict[bytes, list[_Candidate]] = defaultdict(list)
    for trace in traces:
        collisions[trace.sniffed.head_digest].append(trace)
    for same_head in collisions.values():
        if len(same_head) < 2:
            continue
        sizes = Counter(_plain_size(trace) for trace in same_head)
        first_of: dict[object, _Candidate] = {}
        for trace in sorted(same_head, key=_preference):
            # Plain files of different sizes differ: most collisions end here without reading.
            alone = sizes[None] == 0 and sizes[_plain_size(trace)] == 1
            digest = None if alone else _content(trace)
            first = first_of.setdefault(digest or trace.path, trace)
            if first is not trace:
                trace.repeats = first


def _content(trace: _Candidate) -> bytes | None:
    """Digest of the text of a trace, None where it cannot be read to its end."""
    if not trace.sniffed.content:
        found = content_digest(trace.entry.real_path) or b""
        trace.sniffed = replace(trace.sniffed, content=found)
    return trace.sniffed.content or None


def _plain_size(trace: _Candidate) -> int | None:
    """Size of the text where it is known without decompressing."""
    return trace.entry.size_bytes if trace.sniffed.compression == "none" else None


def _preference(trace: _Candidate) -> tuple[object, ...]:
    compressed = trace.sniffed.compression != "none"
    not_in_iteration = iteration_of(trace.path) is None
    return (not_in_iteration, compressed, trace.path.count("/"), natural_key(trace.path))


def _mapped(rank_map: Mapping[str, int], traces: list[_Candidate]) -> Mapping[str, int]:
    paths = {
        entry.path: entry.real_path for trace in traces for entry in (trace.entry, *trace.aliases)
    }
    return mapped_ranks(rank_map, paths)


def _found_files(
    candidate: _Candidate, ranks: Mapping[str, int], notes: list[Note]
) -> list[FoundFile]:
    """Return the candidate and its aliases; irregularities are appended to ``notes``."""
    entry, sniffed = candidate.entry, candidate.sniffed
    rank, source, info = _identity(candidate, ranks, notes)
    same_as = candidate.repeats
    main = FoundFile(
        printable(entry.path),
        entry.real_path,
        sniffed.kind,
        entry.size_bytes,
        sniffed.compression,
        rank,
        source,
        duplicate_of=None if same_as is None else printable(same_as.path),
        problem=sniffed.problem,
        world_size=info.world_size,
        start_ns=info.start_ns,
        end_ns=info.end_ns,
        digest=sniffed.digest,
        changed_ns=entry.mtime_ns,
    )
    if sniffed.open_end and time.time_ns() - entry.mtime_ns < _JUST_WRITTEN_NS:
        notes.append(Note("growing_file", f"{main.path}: has no end yet, perhaps still written"))
    repeated = main.duplicate_of or main.path
    aliases = [printable(alias.path) for alias in candidate.aliases]
    return [main, *(replace(main, path=p, duplicate_of=repeated, digest="") for p in aliases)]


def _identity(
    candidate: _Candidate, ranks: Mapping[str, int], notes: list[Note]
) -> tuple[int | None, RankSource, RankInfo]:
    sniffed, path = candidate.sniffed, candidate.path
    info = sniffed.info
    if not sniffed.format.rank_in_name:
        return None, "none", info
    aliases = [alias.path for alias in candidate.aliases]
    names = [path, *aliases]
    mapped = next((ranks[name] for name in names if name in ranks), None)
    if candidate.is_trace and info.rank is None and _must_read_end(candidate, mapped):
        late = late_info(candidate.entry.real_path, sniffed, candidate.entry.size_bytes)
        if sniffed.late is None and late != RankInfo():  # else perhaps an error of reading
            candidate.sniffed = replace(sniffed, late=late)
        info = info.completed(late)
    rank, source = rank_of(info.rank, mapped, path, aliases, info.world_size)
    if source == "distributedInfo":
        notes += _contradictions(printable(path), rank, mapped, rank_in_name(path))
    return rank, source, info


def _must_read_end(candidate: _Candidate, mapped: int | None) -> bool:
    plain = candidate.sniffed.compression == "none"
    return plain or (mapped is None and rank_in_name(candidate.path) is None)


def _contradictions(
    path: str, stated: int | None, mapped: int | None, named: int | None
) -> list[Note]:
    notes = []
    if mapped is not None and mapped != stated:
        message = f"{path} states rank {stated}; the rank map's {mapped} is not used"
        notes.append(Note("rank_map_ignored", message))
    if named is None or stated is None or named == stated:
        return notes
    if not is_of_replica(path, stated, named):
        message = f"{path} states rank {stated}, though its name contains {named}"
        notes.append(Note("rank_mismatch", message))
    return notes


def _duplicates(files: list[FoundFile]) -> list[Note]:
    repeated = [
        file for file in files if file.duplicate_of is not None and file.format.has_one_rank
    ]
    if not repeated:
        return []
    pairs = [f"{file.path} is {file.duplicate_of}" for file in repeated]
    message = f"the same trace under two names counts once: {listed(pairs, 4)}"
    return [Note("duplicate_file", message, count=len(repeated))]


def _several(captures: tuple[Capture, ...]) -> list[Note]:
    notes = []
    for source in SOURCES:
        names = [capture.name for capture in captures if capture.source == source]
        if len(names) > 1:
            message = f"{len(names)} captures: {listed(names, 20)}"
            notes.append(Note("several_captures", message, count=len(names)))
    return notes


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
