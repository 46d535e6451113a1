"""Ranks of files that several were merged into, beside the files of the same ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from msgspec import Struct, field, structs

from ccltui.parsers.columns import CollectiveArgs, Group, Note, RankTrace, Samples, Strings
from ccltui.parsers.safe_text import listed

Place = tuple[str, int]
"""Path of a file, and the number of the rank in it."""

GUESSES: Final = frozenset({"order of devices", "order of processes"})
"""Sources of ranks that are numbered as they lie in a file."""
_COMPARED: Final[tuple[Group, ...]] = ("gpu", "cpu_ops", "annotations")


def place_in(trace: RankTrace) -> Place:
    """Return where a rank was read from."""
    return trace.source.path, trace.source.part


def without_columns(trace: RankTrace) -> RankTrace:
    """Return what is known of a rank without its events, for notes on files."""
    return structs.replace(
        trace,
        strings=Strings.of(()),
        events={},
        collective_args=CollectiveArgs.empty(),
        samples=Samples.empty(),
        place=None,
    )


def is_merged(trace: RankTrace) -> bool:
    """Whether a trace is one of several ranks of a file that its profiler writes for one."""
    source = trace.source
    return source.parts > 1 and source.format == "kineto" and not source.container


class MergedRanks(Struct, frozen=True):
    """Ranks that were read from merged files, and those that other files hold as well.

    Attributes:
        traces: all of them.
        repeats: file that holds the same rank, by place of the rank that is left out.
        prints: what the events of a rank are compared by, of all ranks.
    """

    traces: tuple[RankTrace, ...] = ()
    repeats: Mapping[Place, str] = field(default_factory=dict)
    prints: Mapping[Place, str] = field(default_factory=dict)

    def taken_in(
        self, wholes: Sequence[RankTrace], new: RankTrace
    ) -> tuple[MergedRanks, list[RankTrace]]:
        """Return this with a new rank, and the ranks of merged files that no other file holds.

        Args:
            wholes: Ranks that have a file of their own, ``new`` among them if it has one.
            new: The rank that was read last.
        """
        traces = self.traces
        if is_merged(new):
            others = (one for one in traces if place_in(one) != place_in(new))
            traces = tuple(sorted((*others, new), key=place_in))
        prints = dict(self.prints)
        prints.pop(place_in(new), None)
        for one in (*wholes, *traces):
            if place_in(one) not in prints:
                prints[place_in(one)] = _print_of(one)
        repeats: dict[Place, str] = {}
        kept: list[RankTrace] = []
        for path in sorted({one.source.path for one in traces}):
            parts = [one for one in traces if one.source.path == path]
            found = _same(parts, [*wholes, *kept], prints)
            repeats |= {place_in(part): other.source.path for part, other in found}
            rest = [part for part in parts if place_in(part) not in repeats]
            kept += _numbered(rest, found, [*wholes, *kept])
        return MergedRanks(traces, repeats, prints), kept

    def without_columns(self) -> MergedRanks:
        """Return this without events, which only the choice of ranks needs."""
        traces = tuple(without_columns(one) for one in self.traces)
        return structs.replace(self, traces=traces)

    def notes(self) -> list[Note]:
        """Return a note for each merged file of which ranks are left out."""
        notes = []
        for path in sorted({path for path, _ in self.repeats}):
            others = list(
                dict.fromkeys(other for (own, _), other in self.repeats.items() if own == path)
            )
            rest = [
                one
                for one in self.traces
                if one.source.path == path and place_in(one) not in self.repeats
            ]
            message = f"{path} holds the same ranks as {listed(others, 4)}: it is left out"
            if rest:
                names = listed([one.source.part_name for one in rest], 4)
                verb = "holds" if len(others) == 1 else "hold"
                message = (
                    f"of {path} only {names} counts: {listed(others, 4)} {verb} its other ranks"
                )
            notes.append(Note("merged_file", message))
        return notes

    @property
    def paths(self) -> frozenset[str]:
        """The merged files."""
        return frozenset(one.source.path for one in self.traces)

    def is_left_out(self, path: str) -> bool:
        """Whether other files hold all ranks of a file."""
        own = [place_in(one) for one in self.traces if one.source.path == path]
        return bool(own) and all(place in self.repeats for place in own)


def _print_of(trace: RankTrace) -> str:
    """Return what equal events have in common: their number and durations.

    Programs that merge may move times by a fraction of a microsecond, as they read them into
    floating-point numbers, and leave out groups of events, never those of the device. Durations
    are small enough to stay as they were.
    """
    if trace.read_share < 1:
        return ""
    for group in _COMPARED:
        events = trace.group(group)
        if len(events):
            digest = blake2b(np.sort(events.dur_ns).tobytes(), digest_size=16).hexdigest()
            return f"{group} {len(events)} {digest}"
    return ""


def _same(
    parts: Sequence[RankTrace], others: Sequence[RankTrace], prints: Mapping[Place, str]
) -> list[tuple[RankTrace, RankTrace]]:
    """Return pairs of a rank of a merged file and the same rank of another, each at most once.

    Ranks that do the same work may have equal events: the numbers of ranks then decide.
    """
    pairs: list[tuple[RankTrace, RankTrace]] = []
    left = list(parts)
    free = [one for one in others if prints[place_in(one)]]
    for by_number in (True, False):
        for part in list(left):
            number = part.source.part if part.rank is None else part.rank
            other = next(
                (
                    one
                    for one in free
                    if prints[place_in(one)] == prints[place_in(part)]
                    and (one.rank == number if by_number else _may_be(part, one))
                    and _groups_agree(part, one)
                ),
                None,
            )
            if other is not None:
                pairs.append((part, other))
                left.remove(part)
                free.remove(other)
    return pairs


def _numbered(
    rest: Sequence[RankTrace],
    pairs: Sequence[tuple[RankTrace, RankTrace]],
    others: Sequence[RankTrace],
) -> list[RankTrace]:
    """Withdraw ranks that are guesses where other files speak against them.

    They do where they hold a rank of the file under another number, or another rank under a number
    of the file.
    """
    claimed = {one.rank for one in others}
    is_right = all(part.rank == other.rank for part, other in pairs)
    is_right &= not any(one.rank in claimed for one in rest)
    return [
        one
        if is_right or one.rank_source not in GUESSES
        else structs.replace(one, rank=None, rank_source="none")
        for one in rest
    ]


def _may_be(part: RankTrace, other: RankTrace) -> bool:
    """Whether the number of a part is a guess, or the other has none."""
    return part.rank is None or other.rank is None or part.rank_source in GUESSES


def _groups_agree(part: RankTrace, other: RankTrace) -> bool:
    """Whether two traces may be one rank by the ranks that their collectives are among."""
    one, two = ranks_of_groups(part), ranks_of_groups(other)
    return one is None or two is None or one == two


def ranks_of_groups(trace: RankTrace) -> frozenset[int] | None:
    """Return the ranks that are in all groups of a trace's collectives, None: not stated."""
    rows = [events.args[events.args >= 0] for events in trace.events.values()]
    used = np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int32)
    groups = np.unique(trace.collective_args.group[used])
    stated = [
        frozenset(trace.process_groups[group].ranks)
        for group in groups.tolist()
        if group >= 0 and trace.process_groups[group].ranks
    ]
    return frozenset.intersection(*stated) if stated else None
