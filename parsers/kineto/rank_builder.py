"""Build the columns of a rank from batches of events."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import NamedTuple

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import (
    GROUPS,
    CollectiveArgs,
    Device,
    Events,
    Group,
    ProcessGroup,
    Strings,
    Track,
)
from ccltui.parsers.kineto.collective_rows import input_kind
from ccltui.parsers.kineto.event_list import Batch, NoteLog
from ccltui.parsers.kineto.event_rows import EventRows, GroupColumns, Part
from ccltui.parsers.kineto.scanner.typed_event import Event, Scalar, Scanner, new_scanner
from ccltui.parsers.text.json_text import is_late, nanoseconds

_SCANNED_AT_ONCE = 1 << 15
"""Events whose rows the scanner holds: asking for them costs as much as a thousand events."""

_GROUP_OF_CATEGORY: dict[str, Group] = {
    "kernel": "gpu",
    "gpu_memcpy": "gpu",
    "gpu_memset": "gpu",
    "memcpy": "gpu",
    "memset": "gpu",
    "mtia_ccp_events": "gpu",
    "gpu_user_annotation": "gpu_annotations",
    "cuda_sync": "gpu_sync",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "hip_driver": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "cpu_op": "cpu_ops",
    "operator": "cpu_ops",
    "user_annotation": "annotations",
    "python_function": "python",
}


def group_of(category: Scalar) -> Group:
    """Return the column group of a category, in any case; "other" for unknown categories.

    A comma-joined category belongs to the group of its first known word.
    """
    if not isinstance(category, str):
        return "other"
    for part in category.lower().split(","):
        group = _GROUP_OF_CATEGORY.get(part.strip())
        if group is not None:
            return group
    return "other"


class Columns(NamedTuple):
    """Columns of a file; see :class:`ccltui.parsers.columns.RankTrace`.

    ``processes`` are the pids of the rows of each track, ``labels`` the names of processes ("" as
    the second key) and threads. Kernels are not yet joined to the calls that launched them: that
    is done in the rows of one rank.
    """

    events: dict[Group, Events]
    strings: Strings
    tracks: tuple[Track, ...]
    collective_args: CollectiveArgs
    process_groups: tuple[ProcessGroup, ...]
    processes: tuple[str, ...]
    labels: dict[tuple[str, str], str]


class Builder:
    """Builder of the columns of one rank; see `RankTrace` for their meaning.

    ``scanner`` is the compiled scanner of JSON, which fills most rows itself; None if it is not in
    use. Readers of other formats fill ``rows`` and ``labels``, and add parts.
    """

    def __init__(self, note_log: NoteLog, *, is_json: bool = True) -> None:
        self._note_log = note_log
        self.rows = EventRows()
        self._groups: dict[Group, GroupColumns] = {}
        self._group_of: dict[Scalar, Group] = {}
        self.labels: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[Scalar, Scalar], list[tuple[int, Event]]] = {}
        self._counts: Counter[tuple[Scalar, Scalar]] = Counter()
        self.events_kept = 0
        self.late_times = 0  # events whose time is a number, but too large for microseconds
        self.scanner: Scanner | None = None
        if is_json:
            self.scanner = new_scanner(
                self.rows.strings,
                self.rows.tracks,
                group_of,
                input_kind,
                self.rows.collectives.describe,
                launch=self.rows.launches.id_of,
            )

    def add(self, batch: Batch) -> None:
        """Add the complete events of a batch to the columns, others to counts and labels."""
        if batch.ordinals is None:
            self.take_scanned()  # they precede this batch
        self._counts.update((e.ph, e.cat) for e in batch.events)
        complete: dict[Group, list[int]] = {}
        parts: dict[Group, list[Part]] = {}
        group_of_category = self._group_of
        for index, event in enumerate(batch.events):
            phase = event.ph
            if phase == "X":
                group = group_of_category.get(event.cat)
                if group is None:
                    group = group_of_category[event.cat] = group_of(event.cat)
                complete.setdefault(group, []).append(index)
            elif phase in ("B", "E"):
                self._add_begin_or_end(batch, index, parts)
            elif phase == "M":
                self._label(event)
        for group, indices in complete.items():
            self._add_complete(group, indices, batch, parts)
        if parts or (self.scanner is not None and self.scanner.ordinal >= _SCANNED_AT_ONCE):
            self._add_scanned(parts)
        self.add_parts(parts)

    def take_scanned(self) -> None:
        """Append the rows that the compiled scanner holds; call it after the last batch."""
        parts: dict[Group, list[Part]] = {}
        self._add_scanned(parts)
        self.add_parts(parts)

    def add_parts(self, parts: dict[Group, list[Part]]) -> None:
        """Append rows, which follow in the file those that were added before."""
        for group, pieces in parts.items():
            if group not in self._groups:
                self._groups[group] = GroupColumns(group)
            self._groups[group].append(pieces)
            self.events_kept += sum(len(piece.ordinals) for piece in pieces)

    def _add_scanned(self, parts: dict[Group, list[Part]]) -> None:
        """Add the rows that the compiled scanner holds to those of this batch."""
        for index, columns in self.scanner.take().items() if self.scanner is not None else ():
            parts.setdefault(GROUPS[index], []).append(Part(columns, columns.pop("ordinal")))

    def _add_complete(
        self, group: Group, indices: list[int], batch: Batch, parts: dict[Group, list[Part]]
    ) -> None:
        """Append complete events with usable times; drop and count the others."""
        events = [batch.events[index] for index in indices]
        starts = [nanoseconds(event.ts) for event in events]
        durations = [nanoseconds(event.dur) for event in events]
        kept = [
            place
            for place, (start, duration) in enumerate(zip(starts, durations, strict=True))
            if start is not None and duration is not None and duration >= 0
        ]
        if len(kept) < len(events):
            self._note_unusable(indices, starts, durations, batch)
            events = [events[place] for place in kept]
            starts = [starts[place] for place in kept]
            durations = [durations[place] for place in kept]
            indices = [indices[place] for place in kept]
        if events:
            ordinals = indices
            if batch.ordinals is not None:
                ordinals = [batch.ordinals[index] for index in indices]
            part = self.rows.part(group, events, starts, durations, ordinals)  # type: ignore[arg-type]
            parts.setdefault(group, []).append(part)

    def _note_unusable(
        self,
        indices: list[int],
        starts: list[int | None],
        durations: list[int | None],
        batch: Batch,
    ) -> None:
        self.late_times += sum(map(is_late, (batch.events[index].ts for index in indices)))
        unread, negative = [], []
        for index, start, duration in zip(indices, starts, durations, strict=True):
            if start is None or duration is None:
                unread.append(index)
            elif duration < 0:
                negative.append(index)
        self._note_dropped("bad_time", unread, batch)
        self._note_dropped("negative_duration", negative, batch)

    def _note_dropped(self, code: str, indices: list[int], batch: Batch) -> None:
        if indices:
            offset = batch.offset_of(indices[0])
            self._note_log.add(code, _DROPPED[code], offset, len(indices))

    def _add_begin_or_end(self, batch: Batch, index: int, parts: dict[Group, list[Part]]) -> None:
        """Push a begin event on the stack of its thread; join an end to the begin on top."""
        event = batch.events[index]
        stack = self._open.setdefault((event.pid, event.tid), [])
        time = nanoseconds(event.ts)
        if time is None:
            self._note_dropped("bad_time", [index], batch)
        elif event.ph == "B":
            stack.append((time, event))
        elif not stack:
            self._note_dropped("unmatched_end", [index], batch)
        else:
            start, begin = stack.pop()
            if time < start:
                self._note_dropped("negative_duration", [index], batch)
                return
            ordinal = index if batch.ordinals is None else batch.ordinals[index]
            group = group_of(begin.cat)
            part = self.rows.part(group, [begin], [start], [time - start], [ordinal])
            parts.setdefault(group, []).append(part)

    def _label(self, event: Event) -> None:
        name = event.args.name if event.args is not None else None
        if event.name in ("process_name", "thread_name") and isinstance(name, str):
            thread = "" if event.name == "process_name" else str(event.tid)
            self.labels[str(event.pid), thread] = name

    def count(self, category: str, number: int) -> None:
        """Add to the number of complete events of a category."""
        self._counts["X", category] += number

    def counts(self) -> dict[str, int]:
        """Return the number of events by "phase:category", dropped ones included."""
        total: Counter[str] = Counter()
        for (phase, category), number in self._counts.items():
            total[f"{_name(phase)}:{_name(category)}"] += number
        if self.scanner is not None:
            for mark, category_id, number in self.scanner.take_counts():
                text = self.rows.strings.text_of(category_id) if category_id >= 0 else ""
                total[f"{mark}:{text}"] += number
        return dict(total)

    def finish(
        self,
        base_ns: int,
        table: tuple[ProcessGroup, ...],
        devices: tuple[Device, ...] = (),
        texts: I32 | None = None,
    ) -> Columns:
        """Return all columns, sorted, with absolute times. Call it once, at the end of the file.

        Ids are reassigned in an order that depends on the content alone: the same bytes give
        the same columns for every chunk size. Begin events without an end become a note.

        Args:
            base_ns: Added to every start.
            table: The process groups of the file's ``pg_config``.
            devices: The devices of the file, for the share of their SMs that a launch fills.
            texts: Ids of texts that are used besides those of events.
        """
        open_begins = sum(len(stack) for stack in self._open.values())
        if open_begins:
            message = "begin events without an end are dropped"
            self._note_log.add("unmatched_begin", message, None, open_begins)
        if self.scanner is not None:
            self.rows.collectives.add_described(*self.scanner.take_described())
        used = [self.rows.collectives.text_ids(), self.rows.launches.text_ids()]
        used += [] if texts is None else [texts]
        for columns in self._groups.values():
            used += columns.texts()
        strings, text_ids = self.rows.strings.finish(used)
        del used  # its views would keep the columns in memory
        tracks, processes, track_ids = self.rows.finish_tracks(self.labels)
        renumbered = {"name": text_ids, "category": text_ids, "track": track_ids}
        renumbered |= dict.fromkeys(("shapes", "input_types", "input_values"), text_ids)
        launches = partial(
            self.rows.launches.columns, text_ids=text_ids, tracks=tracks, devices=devices
        )
        events = {
            group: columns.finish(base_ns, renumbered, launches)
            for group, columns in sorted(self._groups.items(), key=lambda item: item[0])
        }
        args, groups = self.rows.collectives.finish(events, text_ids, table)
        return Columns(events, strings, tracks, args, groups, processes, self.labels)


_DROPPED = {
    "bad_time": "events without a readable ts and dur are dropped",
    "negative_duration": "events that end before they begin are dropped",
    "unmatched_end": "end events without their begin are dropped",
}


def _name(value: object) -> str:
    return "" if value is None else str(value)
