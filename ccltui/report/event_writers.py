"""Write the report of one event as text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ccltui.parsers import numbers
from ccltui.parsers.numbers import decimal_size
from ccltui.report.printable_json import json_bytes
from ccltui.report.text_layout import table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.inspection.event_facts import EventReport, Fact, Value

_NS: Final = 1_000


def as_table(report: EventReport) -> bytes:
    """Return the facts, those that are not recorded with the reason, and the related events."""
    rows = [[fact.name, _text(fact)] for fact in report.facts]
    links = [
        [
            one.relation,
            one.event.rank,
            f"{one.event.group} {one.event.row}",
            numbers.instant(one.start_ns, _NS),
            numbers.duration(one.dur_ns),
            one.name,
            one.note,
        ]
        for one in report.links
    ]
    event = report.event
    lines = [f"rank {event.rank} {event.group} {event.row}: {report.name}", ""]
    lines += table(["fact", "value"], rows)
    if links:
        heading = ["related", "rank", "event", "start", "duration", "name", ""]
        lines += ["", *table(heading, links)]
    return text_bytes(lines)


def _text(fact: Fact) -> str:
    if fact.value is None:
        return f"not recorded: {fact.why}"
    return _value(fact.value, fact.unit)


def _value(value: Value, unit: str) -> str:
    if isinstance(value, tuple):
        return " < ".join(value)
    if isinstance(value, float):
        return f"{value:.4g} {unit}".rstrip()
    if isinstance(value, int) and unit == "ns":
        return numbers.duration(value)
    if isinstance(value, int) and unit == "bytes":
        return decimal_size(value)
    if isinstance(value, int) and unit:
        return numbers.instant(value, _NS)
    return str(value)


def as_json(report: EventReport) -> bytes:
    """Return the report as a JSON document."""
    return json_bytes(report.document(), indent=True)


WRITERS: Final[Mapping[str, Callable[[EventReport], bytes]]] = {
    "table": as_table,
    "json": as_json,
}
