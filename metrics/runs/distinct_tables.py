"""Tables of ``nsys stats`` in several texts, each recording counted once.

A text may be a copy of another, the same report in another format or unit, or hold the reports of
several recordings. Counts of one recording that is printed twice must not be summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.parsers.nsys.text_reports.typed_table import EXACT, NumberColumn, TextColumn

if TYPE_CHECKING:
    from ccltui.parsers.nsys.text_reports.typed_table import Section, StatsText

_NAMES: Final = ("Range", "Name", "Operation")
_COUNTS: Final = ("Instances", "Count", "Num Calls", "Calls")
_ENOUGH_DIGITS: Final = 6
"""Decimal digits of times that must agree for two tables to be of one recording.

Other hosts of a job have the same names and counts, and one chance in a million to have the same
times to six digits."""


class Distinct(Struct, frozen=True):
    """Tables of one report, each of a recording of its own.

    Attributes:
        tables: path of the text and table.
        repeats: path of a text that was left out, and of the text whose recording it repeats.
    """

    tables: tuple[tuple[str, Section], ...]
    repeats: tuple[tuple[str, str], ...] = ()


def distinct_tables(texts: Sequence[StatsText], reports: Sequence[str]) -> Distinct:
    """Return the tables of the first of ``reports`` that each text has, recordings counted once.

    Of two tables of one recording the whole one is taken, then the one with more rows.
    """
    found: list[tuple[str, Section]] = []
    repeats: dict[tuple[str, str], None] = {}
    for text in texts:
        for table in _of(text, reports):
            same = next((at for at, (_, one) in enumerate(found) if is_same(one, table)), None)
            if same is None:
                found.append((text.path, table))
                continue
            kept, left = found[same], (text.path, table)
            if _worth(table) > _worth(kept[1]):
                found[same], kept, left = left, left, kept
            if left[0] != kept[0]:
                repeats[left[0], kept[0]] = None
    return Distinct(tuple(found), tuple(repeats))


def _of(text: StatsText, reports: Sequence[str]) -> list[Section]:
    """Tables of the first report that the text has."""
    for report in reports:
        found = [one for one in text.tables if one.report.partition(":")[0] == report]
        if found:
            return found
    return []


def _worth(table: Section) -> tuple[bool, bool, int]:
    origin = table.provenance
    return not origin.command, origin.window is None, len(table)


def is_same(a: Section, b: Section) -> bool:
    """Return whether two tables of a report are of one recording: by its file, or by their rows.

    Nodes may each have recorded into a file of one name (``/tmp/report1``): where rows of the same
    window differ, so do the recordings.
    """
    files = [_recording(one) for one in (a, b)]
    digits = _agreeing_digits(a, b)
    if all(files) and files[0] == files[1]:
        return digits is not None or a.provenance.window != b.provenance.window
    return digits is not None and digits >= _ENOUGH_DIGITS


def _recording(table: Section) -> str:
    """Path of the recording without its ending: .nsys-rep and .sqlite are the same one."""
    path = table.provenance.database
    return str(PurePosixPath(path).with_suffix("")) if path else ""


def _agreeing_digits(a: Section, b: Section) -> float | None:
    """Digits to which times of the rows that both have agree; None where a row differs."""
    rows = [_rows(one) for one in (a, b)]
    digits = 0.0
    shared = rows[0].keys() & rows[1].keys()
    if 2 * len(shared) < min(map(len, rows)):
        return 0.0  # most rows of the shorter one have no like: names are of other widths
    for name in shared:
        (count, total, step), (other, total_b, step_b) = rows[0][name], rows[1][name]
        coarser = max(step, step_b)
        if count != other or abs(total - total_b) > coarser:
            return None
        digits += float(np.log10(max(total / coarser, 1)))
    return digits


def _rows(table: Section) -> dict[str, tuple[int, int, float]]:
    """Count, total time and its last printed digit in ns of each name that is there once."""
    names = next((c for c in table.columns if c.name in _NAMES), None)
    counts = next((c for c in table.columns if c.name in _COUNTS), None)
    total = table.column("Total Time")
    if not (
        isinstance(names, TextColumn)
        and isinstance(counts, NumberColumn)
        and isinstance(total, NumberColumn)
        and total.step_ns
    ):
        return {}
    times, step = total.ns(), total.step_ns
    usable = np.flatnonzero((total.state == EXACT) & (counts.state == EXACT) & ~names.cut)
    found: dict[str, tuple[int, int, float]] = {}
    twice = set()
    for row in usable.tolist():
        name = names.values[row]
        twice |= {name} & found.keys()
        found[name] = (int(counts.mantissa[row]), int(times[row]), step)
    return {name: row for name, row in found.items() if name not in twice}
