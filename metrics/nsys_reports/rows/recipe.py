"""Declaration of a report: the function that makes it, and the data that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.parsers.nsys.report_tables import Part, RawColumns, ReportTables

Columns = tuple[ReportColumn, ...] | str
"""The columns of a report, or the reason why there are none."""

Make = Callable[[ReportTables, Filter], Columns]

KernelNames = Literal["base", "mangled", "nvtx-name"]
"""Arguments that choose how kernels are named: short name, symbol, prefixed by their range."""
ANY_KERNEL_NAME: Final[tuple[KernelNames, ...]] = ("nvtx-name", "base", "mangled")


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """An argument ``name=NUMBER`` of a report, and how the report is made with a value."""

    name: str
    default: int
    make: Callable[[int], Make]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Function that makes a report, and the parts of a capture that it needs.

    ``single_capture``: not defined for pooled captures. ``keeps_domains``: it selects ranges by
    their domain.
    """

    make: Make
    parts: frozenset[Part] = frozenset()
    raw: tuple[RawColumns, ...] = ()
    kernel_names: tuple[KernelNames, ...] = ()
    number: NumberArgument | None = None
    single_capture: bool = False
    keeps_domains: bool = False

    def usage(self, name: str) -> str:
        """Return the name with its arguments: ``cuda_gpu_kern_sum[:base|:mangled]``."""
        forms = "|".join(f":{one}" for one in self.kernel_names if one != "nvtx-name")
        prefix = "[:nvtx-name]" if "nvtx-name" in self.kernel_names else ""
        number = f"[:{self.number.name}=N]" if self.number else ""
        return name + prefix + (f"[{forms}]" if forms else "") + number


def absent(what: str) -> str:
    """Return the reason for a report without data, in the words of nsys."""
    return f"the capture does not contain {what}."
