"""Facts about one event, and links to others: what the inspector shows and prints."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ccltui.parsers.columns import GROUPS, Group

Value = int | float | str | tuple[str, ...]

NS: Final = "ns"
INSTANT: Final = "ns since the origin"
"""A time on the corrected clock, in ns since the earliest event of the job."""
BYTES: Final = "bytes"
PERCENT: Final = "%"
GBPS: Final = "GB/s"


class EventRef(Struct, frozen=True):
    """A row of a group of events of a rank."""

    rank: str
    group: Group
    row: int

    @classmethod
    def of(cls, rank: str, group: str, row: int) -> EventRef:
        """Return the row of a group by its name. Raises KeyError where there is no such group."""
        known: dict[str, Group] = {name: name for name in GROUPS}
        return cls(rank, known[group], row)


class Fact(Struct, frozen=True):
    """A property of an event; ``value`` None where it is not recorded, ``why`` says why not."""

    name: str
    value: Value | None = None
    unit: str = ""
    why: str = ""


class Link(Struct, frozen=True):
    """Another event and its relation to this one.

    ``start_ns`` is on the corrected clock since the origin of the job.
    """

    relation: str
    event: EventRef
    name: str
    start_ns: int
    dur_ns: int
    note: str = ""


class EventReport(Struct, frozen=True):
    """What is known of one event.

    ``start_ns`` is on the corrected clock since the origin of the job; ``is_complete`` is False
    while the fields that are read from the file are missing.
    """

    event: EventRef
    name: str
    start_ns: int
    dur_ns: int
    facts: tuple[Fact, ...]
    links: tuple[Link, ...]
    is_complete: bool = True

    def fact(self, name: str) -> Fact | None:
        """Return the fact of a name, None where it does not apply to such an event."""
        return next((one for one in self.facts if one.name == name), None)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON: facts that are not recorded are null, with the reason."""
        return {
            **_place(self),
            "facts": [
                {
                    "name": one.name,
                    "value": list(one.value) if isinstance(one.value, tuple) else one.value,
                    "unit": one.unit or None,
                    "reason": one.why or None,
                }
                for one in self.facts
            ],
            "links": [
                {"relation": one.relation, **_place(one), "note": one.note or None}
                for one in self.links
            ],
        }


def _place(of: EventReport | Link) -> dict[str, Any]:
    return {
        **{"rank": of.event.rank, "group": of.event.group, "row": of.event.row},
        **{"name": of.name, "start_ns": of.start_ns, "dur_ns": of.dur_ns},
    }
