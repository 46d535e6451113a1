"""Result of discovery: files with their format and rank, and the captures they form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from ccltui.parsers import numbers
from ccltui.parsers.columns import Note, RankSource
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.format import SOURCES, Companion, Format, Source
from ccltui.parsers.formats import format_of
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.text.compression import Compression

LEFT_OUT: Final = "left out: other files hold its ranks"
"""Said of a file that several ranks were merged into, beside the files of these ranks."""
NO_RANK: Final = "left out: no rank, device work, step or collective is in it"
_MAX_LOOKED_INTO: Final = 32
"""Captures whose files are read in search of one with kernels: a directory of small ones."""
_FILES_LOOKED_INTO: Final = 2
"""A rank without a device beside one that has it is rare; two such ranks alone are rarer."""


class FoundFile(msgspec.Struct, frozen=True):
    """One file below the directory that was opened.

    ``path`` is relative and safe to print; open ``real_path``. ``rank`` is provisional: it comes
    from the head or tail of the file, and the rank that the reader of the whole file finds
    replaces it.
    """

    path: str
    real_path: str
    kind: str  # of its format
    size_bytes: int
    compression: Compression = "none"
    rank: int | None = None
    rank_source: RankSource = "none"
    capture: str = ""
    duplicate_of: str | None = None  # path of the file it repeats: link, or equal content
    problem: str | None = None  # why it is not used, one sentence
    world_size: int | None = None
    companion: Companion | None = None  # the execution trace of the same rank
    start_ns: int | None = None  # times since the epoch of what was sampled of the file
    end_ns: int | None = None
    digest: str = ""  # of a file that is read into columns: see `RawEnds.digest`
    replica: str = ""  # "dp1": of a server whose replicas all number their ranks from 0
    first_rank: int = 0  # of the replica: added to the ranks that its files state
    changed_ns: int = 0  # when it was written last: what is kept of a file is of this content

    @property
    def format(self) -> Format:
        """The format of its kind."""
        return format_of(self.kind)


class Capture(msgspec.Struct, frozen=True, dict=True):
    """Traces that were recorded together: one timeline, one file a rank.

    ``files`` are traces of one source, sorted by rank, then path, without repetitions; files that
    state no rank come last. ``complete``: every rank of ``world_size`` is there, or, where no
    file states the world size, as many files as in the fullest capture of the directory.
    """

    name: str  # "" when the directory is one capture, else "iteration_5" or a folder
    iteration: int | None
    files: tuple[FoundFile, ...]
    ranks: tuple[int, ...]
    world_size: int | None
    complete: bool
    notes: tuple[Note, ...] = ()
    source: Source = "torch"
    is_unrelated: bool = False  # one of several recordings that only share a folder

    @cached_property
    def file_at(self) -> Mapping[str, FoundFile]:
        """The files by path: each rank that is read looks up its own."""
        return {found.path: found for found in self.files}


class Discovery(msgspec.Struct, frozen=True):
    """All files that were found, in natural order of paths, and the captures they form."""

    root: str
    files: tuple[FoundFile, ...]
    captures: tuple[Capture, ...]
    notes: tuple[Note, ...] = ()

    def files_of(self, *formats: Format) -> tuple[FoundFile, ...]:
        """Return the files of some formats without those that repeat another file."""
        kinds = {one.kind for one in formats}
        return tuple(f for f in self.files if f.kind in kinds and f.duplicate_of is None)

    def choose(
        self,
        *,
        iteration: int | None = None,
        capture: str | None = None,
        source: Source | None = None,
    ) -> Capture:
        """Return the capture to open: computation of a device first, then the most complete.

        Of the captures that fit, complete ones come before others, then those of more ranks, then
        those that are at least half as large as the largest of these, then the last. Captures that
        record no kernel are passed over where another does; the numbered iterations of a job record
        alike and are not looked into. Kineto traces come before files of nsys unless ``source`` is
        given.

        Args:
            iteration: Number of its folder ``iteration_N``.
            capture: Its name, or the unambiguous end of it.
            source: Profiler whose files it is of.

        Raises:
            NotFoundError: Nothing fits; the message lists what exists.
        """
        meant = () if capture is None else self._names_meant(capture)
        fitting = [
            found
            for found in self.captures
            if (iteration is None or found.iteration == iteration)
            and (capture is None or found.name in meant)
            and (source is None or found.source == source)
        ]
        fitting = [found for found in fitting if found.source == SOURCES[0]] or fitting
        if not fitting:
            raise NotFoundError(self._nothing_fits(iteration, capture), path=printable(self.root))
        best_first = _best_first(fitting)
        if _are_iterations(best_first):
            return best_first[0]
        looked_into = best_first[:_MAX_LOOKED_INTO]
        return next((one for one in looked_into if _may_compute(one)), best_first[0])

    def _names_meant(self, capture: str) -> tuple[str, ...]:
        names = [found.name for found in self.captures]
        wanted = capture.rstrip("/")
        if wanted in names:
            return (wanted,)
        ends = tuple(name for name in names if name.endswith("/" + wanted))
        return ends if len(ends) == 1 else ()

    def _nothing_fits(self, iteration: int | None, capture: str | None) -> str:
        if not self.captures:
            return f"no trace that can be opened; found {found_instead(self.files)}"
        asked = [] if iteration is None else [f"iteration {iteration}"]
        asked += [] if capture is None else [f"capture {capture!r}"]
        names = [found.name or "(the whole directory)" for found in self.captures]
        return f"no {' and '.join(asked)} here; there is {listed(names, 20)}"


def found_instead(files: Sequence[FoundFile]) -> str:
    """Describe what a directory holds where no trace in it can be opened."""
    if not files:
        return "no file at all"
    if len(files) == 1:
        (only,) = files
        return f"{only.path}: {only.problem or only.kind.replace('_', ' ')}"
    kinds = Counter(found.kind for found in files)
    return listed([_counted(n, kind) for kind, n in sorted(kinds.items())])


def _counted(count: int, kind: str) -> str:
    return numbers.counted(count, f"{kind.replace('_', ' ')} file")


def _best_first(captures: Sequence[Capture]) -> list[Capture]:
    alike: dict[tuple[bool, int], int] = {}
    for one in captures:
        alike[_completeness(one)] = max(_num_bytes(one), alike.get(_completeness(one), 0))

    def merit(place: int) -> tuple[bool, int, bool, int]:
        completeness = _completeness(captures[place])
        return (*completeness, 2 * _num_bytes(captures[place]) >= alike[completeness], place)

    return [captures[place] for place in sorted(range(len(captures)), key=merit, reverse=True)]


def _num_bytes(capture: Capture) -> int:
    return sum(file.size_bytes for file in capture.files)


def _completeness(capture: Capture) -> tuple[bool, int]:
    return capture.complete, len({f.path if f.rank is None else f.rank for f in capture.files})


def _are_iterations(captures: Sequence[Capture]) -> bool:
    numbers = {one.iteration for one in captures}
    return len(captures) == 1 or (None not in numbers and len(numbers) == len(captures))


def _may_compute(capture: Capture) -> bool:
    """Whether a file of a capture may hold kernels; its largest files are looked into."""
    largest = sorted(capture.files, key=lambda file: file.size_bytes, reverse=True)
    looks = [file.format.has_kernels for file in largest[:_FILES_LOOKED_INTO]]
    return any(
        look is None or look(file.real_path) is not False
        for look, file in zip(looks, largest, strict=False)
    )
