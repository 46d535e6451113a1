"""Add the metadata of collectives in an execution trace to those of a Kineto trace.

Nodes and events are joined by the number of the operator, which both files state, or by two
numbers that differ by one constant; names must agree. Only what is missing is filled in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import structs

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import (
    MISSING,
    CollectiveArgs,
    Events,
    Group,
    Note,
    ProcessGroup,
    RankTrace,
    Strings,
)
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.format import Companion
from ccltui.parsers.kineto.execution_trace import Call, ExecutionTrace, read_execution_trace

_HOST: Final[tuple[Group, ...]] = ("cpu_ops", "annotations")
_AGREEMENT: Final = 0.95
"""Share of joined events whose names must agree; where fewer do, the runs differ."""
_LOOKED_AT: Final = 2000


def lacks_metadata(trace: RankTrace) -> bool:
    """Whether a collective of the rank does not state its operation or its group."""
    args = trace.collective_args
    return bool(((args.op < 0) | (args.group < 0)).any())


def with_execution_trace(trace: RankTrace, companion: Companion) -> RankTrace:
    """Add the metadata of an execution trace where collectives of the rank lack it."""
    if not lacks_metadata(trace):
        return trace
    try:
        with contained(companion.path):
            path = Path(companion.real_path)
            return joined(trace, read_execution_trace(path, shown=companion.path))
    except TraceError as error:
        return _noted(trace, Note("execution_trace_unread", str(error)))


def joined(trace: RankTrace, execution: ExecutionTrace) -> RankTrace:
    """Return the rank with what ``execution`` adds, and a note of how many calls it described.

    Where the two do not belong together only a note is added.
    """
    found = _calls_of_rows(trace, execution)
    if found is None:
        text = f"{execution.path}: its operators are not those of this trace; it is not used"
        return _noted(trace, Note("execution_trace_unfit", text))
    described, added = _described(trace, found)
    if not added:
        return trace
    text = f"collectives are described by {execution.path} (schema {execution.schema})"
    return _noted(described, *execution.notes, Note("execution_trace", text, count=added))


def _noted(trace: RankTrace, *notes: Note) -> RankTrace:
    return structs.replace(trace, notes=(*trace.notes, *notes))


def _calls_of_rows(trace: RankTrace, execution: ExecutionTrace) -> dict[int, Call] | None:
    """The call of each row of the rank's collective arguments; None where too few agree."""
    calls = {call.record_id: call for call in execution.calls}
    found: dict[int, Call] = {}
    agreed = compared = 0
    for group in _HOST:
        events = trace.group(group)
        ids = _record_ids(trace, events, execution.names)
        if ids is None:
            continue
        for row in np.flatnonzero(events.args >= 0).tolist():
            node = execution.names.get(int(ids[row]))
            if node is None:
                continue
            compared += 1
            if node == trace.text(int(events.name[row])):
                agreed += 1
                call = calls.get(int(ids[row]))
                if call is not None:  # the node of a damaged file may not describe a collective
                    found[int(events.args[row])] = call
    return found if compared and agreed >= _AGREEMENT * compared else None


def _record_ids(trace: RankTrace, events: Events, names: Mapping[int, str]) -> I64 | None:
    """Number of the operator of each event, as the execution trace counts; None if it is unknown.

    Kineto writes it since about 2024. Before, it counts operators on its own, and the two
    differ by as many as ran before.
    """
    stated = np.append(trace.collective_args.record_id, MISSING)[events.args]
    if (stated > 0).any():
        return stated
    rows = np.flatnonzero(events.external_id >= 0)
    if not len(rows):
        return None
    offset = _offset(trace, events, rows[:_LOOKED_AT], names)
    return (
        None
        if offset is None
        else np.where(events.external_id >= 0, events.external_id + offset, MISSING)
    )


def _offset(trace: RankTrace, events: Events, rows: I64, names: Mapping[int, str]) -> int | None:
    """Return the number to add to Kineto's numbers so that the names agree."""
    of_name: dict[str, list[int]] = {}
    for number, name in names.items():
        of_name.setdefault(name, []).append(number)
    votes: Counter[int] = Counter()
    for row in rows.tolist():
        numbers = of_name.get(trace.text(int(events.name[row])), ())
        if len(numbers) <= _RARE:
            votes.update(number - int(events.external_id[row]) for number in numbers)
    for offset, _ in votes.most_common(3):
        shifted = [names.get(int(events.external_id[row]) + offset) for row in rows.tolist()]
        known = [
            (name, trace.text(int(events.name[row])))
            for name, row in zip(shifted, rows.tolist(), strict=True)
            if name is not None
        ]
        if known and sum(a == b for a, b in known) >= _AGREEMENT * len(known):
            return offset
    return None


_RARE: Final = 400
"""Names of more operators than that do not show how two counts differ."""


def _described(trace: RankTrace, found: Mapping[int, Call]) -> tuple[RankTrace, int]:
    """Return the rank with the metadata of the calls, and the number of rows completed."""
    args = trace.collective_args
    columns: dict[str, Any] = {
        name: np.array(getattr(args, name)) for name, _ in CollectiveArgs.COLUMNS
    }
    texts = _Texts(trace.strings)
    groups = _Groups(trace)
    for row, call in found.items():
        if columns["op"][row] < 0 and call.op:
            columns["op"][row] = texts.id_of(call.op)
        if columns["dtype"][row] < 0 and call.dtype:
            columns["dtype"][row] = texts.id_of(call.dtype)
        if columns["group"][row] < 0 and call.group is not None:
            columns["group"][row] = groups.index_of(call.group)
        for name in ("group_size", "seq", "in_elems", "out_elems"):
            if columns[name][row] < 0:
                columns[name][row] = getattr(call, name)
        for name in ("in_split", "out_split"):
            text = getattr(call, name)
            if columns[name][row] < 0 and text:
                columns[name][row] = texts.id_of(text)
    more = [columns[name] != getattr(args, name) for name, _ in CollectiveArgs.COLUMNS]
    described = structs.replace(
        trace,
        strings=texts.finish(),
        collective_args=CollectiveArgs(**columns),
        process_groups=groups.finish(),
    )
    return described, int(np.any(more, axis=0).sum())


class _Texts:
    """Ids of the rank's strings; new ones are put behind them."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._new: dict[str, int] = {}

    def id_of(self, text: str) -> int:
        known = self._strings.find(text)
        if known >= 0:
            return known
        return self._new.setdefault(text, len(self._strings) + len(self._new))

    def finish(self) -> Strings:
        return Strings.of([*self._strings, *self._new]) if self._new else self._strings


class _Groups:
    """Process groups of the rank; a group that execution traces number gets its ranks if it can.

    Such a number is of one process alone. A group as large as the world holds all ranks; if
    there are several of that size it is unknown which of another rank is the same.
    """

    def __init__(self, trace: RankTrace) -> None:
        self._groups = list(trace.process_groups)
        self._trace = trace
        self._of_world: str | None = None

    def index_of(self, group: ProcessGroup) -> int:
        known = self._known(group)
        if known is None:
            return MISSING
        if known not in self._groups:
            self._groups.append(known)
        return self._groups.index(known)

    def _known(self, group: ProcessGroup) -> ProcessGroup | None:
        same = [one for one in self._groups if one.name == group.name and group.name]
        if len(same) == 1 and (not group.ranks or same[0].ranks == group.ranks):
            return same[0]
        if group.ranks or not group.name.isdecimal() or group.description:
            return group
        if group.size == 1 and self._trace.rank is not None:
            return ProcessGroup("", "", (self._trace.rank,), 1)
        if group.size < 1 or group.size != self._trace.world_size:
            return None
        if self._of_world not in (None, group.name):
            return None
        self._of_world = group.name
        return ProcessGroup("", "", tuple(range(group.size)), group.size)

    def finish(self) -> tuple[ProcessGroup, ...]:
        return tuple(self._groups)
