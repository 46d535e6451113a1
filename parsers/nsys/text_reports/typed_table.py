"""Typed tables of ``nsys stats`` text: columns with units, cells with their state."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.units import COLUMN_UNITS_NS
from ccltui.parsers.window import Window

EXACT: Final = 0
CUT: Final = 1
"""The text was cut after the decimal mark: the digits shown are exact, never above the value."""
UNKNOWN: Final = 2
"""The text was cut inside the integer part: the value is unknown."""
MISSING: Final = 3
"""An empty cell."""

Format = Literal["column", "table", "csv", "tsv", "json", "none"]
NameSource = Literal["banner", "title", "file name", "columns", "none"]


class NumberColumn(Struct, frozen=True):
    """Numbers of one column, exactly as printed: ``mantissa / 10**decimals`` in ``unit``.

    ``mantissa`` is int64, ``state`` uint8 (EXACT, CUT, UNKNOWN, MISSING), both of one length.
    ``loses`` describes the precision that the output lacks (fractions, digits), "" if only the
    last digit is rounded.
    """

    name: str
    header: str
    unit: str
    mantissa: I64
    decimals: int
    state: npt.NDArray[np.uint8]
    loses: str = ""

    def __len__(self) -> int:
        return len(self.mantissa)

    @property
    def known(self) -> Bool:
        """Rows with a value, including cut ones."""
        return self.state <= CUT

    def floats(self) -> npt.NDArray[np.float64]:
        """Return values in ``unit``, NaN where unknown."""
        values = self.mantissa / 10.0**self.decimals
        return np.where(self.known, values, np.nan)

    def ns(self) -> I64:
        """Return values in ns, rounded to the nearest; -1 where unknown (see ``known``).

        Raises:
            TraceError: The unit is not a unit of time, or a time does not fit into 64 bits.
        """
        unit_ns = COLUMN_UNITS_NS.get(self.unit)
        if unit_ns is None:
            raise TraceError(self._why_no_time())
        scale = 10**self.decimals
        known = self.mantissa[self.known]
        largest = max(int(known.max(initial=0)), -int(known.min(initial=0)))
        if largest * unit_ns >= scale << 62:  # so that the sum of two fits into 64 bits
            raise TraceError(f"{self.header}: a time is longer than 146 years")
        if unit_ns % scale == 0:
            values = self.mantissa * (unit_ns // scale)
        else:
            values = np.rint(self.mantissa * (unit_ns / scale)).astype(np.int64)
        return np.where(self.known, values, -1)

    @property
    def step_ns(self) -> float:
        """One unit of the last printed digit in ns; 0 for columns that are no times."""
        return COLUMN_UNITS_NS.get(self.unit, 0) / 10.0**self.decimals

    def cell(self, row: int) -> str:
        """Return the number as text with a decimal point; "" where unknown."""
        if self.state[row] > CUT:
            return ""
        digits = f"{abs(int(self.mantissa[row])):0{self.decimals + 1}d}"
        sign = "-" if self.mantissa[row] < 0 else ""
        if not self.decimals:
            return sign + digits
        return f"{sign}{digits[: -self.decimals]}.{digits[-self.decimals :]}"

    def _why_no_time(self) -> str:
        if not self.unit:
            return f"the header of {self.name} names no unit (--nohdrunit): state it with --unit"
        return f"{self.header} is no time"


class TextColumn(Struct, frozen=True):
    """Texts of one column; ``cut`` (bool) marks those whose end is missing. "" is missing."""

    name: str
    header: str
    values: tuple[str, ...]
    cut: Bool
    unit: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> str:
        """Return the text, with ``…`` where its end is missing."""
        return self.values[row] + ("…" if self.cut[row] else "")


Column = NumberColumn | TextColumn


class Provenance(Struct, frozen=True):
    """Origin of a table, read from its banner. ``window`` is the one given to nsys."""

    database: str = ""
    nsys_version: str = ""
    arguments: tuple[str, ...] = ()
    window: Window | None = None
    nvtx: str = ""
    command: str = ""
    """Shell command that filtered the table (``--output @grep …``); rows may be missing."""


NO_PROVENANCE: Final = Provenance()


class Section(Struct, frozen=True):
    """One report of a file: its table, or the reason that there is none (``absent``)."""

    report: str
    written_report: str
    name_source: NameSource
    title: str
    format: Format
    line: int
    columns: tuple[Column, ...] = ()
    provenance: Provenance = NO_PROVENANCE
    absent: str | None = None
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Column | None:
        """Return the first column of that name (without unit), None if there is none."""
        return next((column for column in self.columns if column.name == name), None)

    def number(self, name: str) -> NumberColumn:
        """Return a column of numbers. Raises TraceError if there is none of that name."""
        column = self.column(name)
        if not isinstance(column, NumberColumn):
            raise TraceError(f"{self.report} has no numbers named {name}", line=self.line)
        return column

    def text(self, name: str) -> TextColumn:
        """Return a column of texts. Raises TraceError if there is none of that name."""
        column = self.column(name)
        if not isinstance(column, TextColumn):
            raise TraceError(f"{self.report} has no texts named {name}", line=self.line)
        return column


class StatsText(Struct, frozen=True):
    """Every report of one file, in the order of the file; no section if it is no nsys output."""

    path: str
    sections: tuple[Section, ...]
    notes: tuple[Note, ...] = ()

    @property
    def tables(self) -> tuple[Section, ...]:
        """Sections with a table."""
        return tuple(section for section in self.sections if section.columns)

    def find(self, report: str) -> Section | None:
        """Return the first table of a report by current name, else its absent section, or None."""
        same = [section for section in self.sections if section.report == report]
        return next((section for section in same if section.columns), same[0] if same else None)
