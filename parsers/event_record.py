"""What a file records about one event beyond the columns: launch arguments, inputs, stacks.

The columns hold what metrics need of every event. What is shown of a single event at a time is
read from its file when it is needed, so that jobs of millions of events stay small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from ccltui.parsers.columns import Group, RankTrace

Size3 = tuple[int, int, int]
MAX_TEXT: Final = 2_000
"""Characters of a text that are kept."""


class EventRecord(Struct, frozen=True):
    """Fields of one event as its file states them; None and "" where it does not.

    Attributes:
        grid: blocks of the launch in three directions.
        block: threads of a block in three directions.
        registers: registers of a thread.
        static_shared_bytes: shared memory of a block that the program fixes.
        dynamic_shared_bytes: shared memory of a block that the launch requests.
        shared_bytes: all shared memory of a block.
        occupancy_pct: achieved occupancy as the profiler estimates it.
        input_shapes: shapes of the inputs of an operator, JSON.
        input_types: their data types, JSON.
        inputs: values of inputs that are no tensors, JSON.
        call_stack: Python frames, the innermost first.
        further: other fields by name, as text.
    """

    grid: Size3 | None = None
    block: Size3 | None = None
    registers: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy_pct: float | None = None
    input_shapes: str = ""
    input_types: str = ""
    inputs: str = ""
    call_stack: tuple[str, ...] = ()
    further: tuple[tuple[str, str], ...] = ()


class SoughtEvent(Struct, frozen=True):
    """An event by which its record is found in a file; times in ns as the file counts them.

    ``correlation`` is -1 where the event has none; ``device`` and ``stream`` are -1 off a device.
    """

    group: Group
    name: str
    start_ns: int
    dur_ns: int
    correlation: int
    device: int
    stream: int


def sought_event(trace: RankTrace, group: Group, row: int) -> SoughtEvent:
    """Return what identifies a row of an event group in the file of its trace.

    Raises:
        IndexError: there is no such row.
    """
    events = trace.group(group)
    if not 0 <= row < len(events):
        raise IndexError(row)
    track = int(events.track[row])
    on = trace.tracks[track] if 0 <= track < len(trace.tracks) else None
    return SoughtEvent(
        group,
        trace.text(int(events.name[row])),
        int(events.start_ns[row]) - trace.base_ns,
        int(events.dur_ns[row]),
        int(events.correlation[row]),
        -1 if on is None else on.device,
        -1 if on is None else on.stream,
    )
