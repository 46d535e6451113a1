"""Notes on device events whose times are not believed, or that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace

DEAD_CLOCK: Final = "device_clock"
MESSAGES: Final = {
    DEAD_CLOCK: "the clock of the device was not recorded or is wrong: there are no device times",
    "at_zero": "device events at time 0, which stands for not measured, are counted, not timed",
    "before_launch": (
        "device events that begin more than 1 ms before their own launch are counted, not timed"
    ),
    "outside": "device events outside of the recorded time are counted, not timed",
    "overlong": (
        "device events that last more than 1 ms past the next start on their stream end there"
    ),
    "copies": "exact copies of device events are counted once",
}
"""Message of each code of a note; all but the first are fields of `Impossible`."""
DROPPED: Final = frozenset({"negative_duration", "bad_time"})
"""Codes of notes on events that readers left out because of their times."""


def lost_times(trace: RankTrace) -> int:
    """Return the number of device events of a rank that are not timed as they are recorded.

    Those that readers left out because of their times count too.
    """
    return sum(note.count for note in trace.notes if note.code in _OF_EVENTS)


_OF_EVENTS: Final = (MESSAGES.keys() | DROPPED) - {DEAD_CLOCK}
