"""Compute the reports of ``nsys stats``, with results equal to those of nsys.

A window selects whole rows, as ``--filter-time`` does: durations are never clipped and starts
never moved. The metrics of the parent package clip instead and document it.
"""

from ccltui.metrics.nsys_reports.make_report import (
    PREFIX_PARTS,
    REPORTS,
    make_pooled_report,
    make_report,
)
from ccltui.metrics.nsys_reports.pooled import Chosen
from ccltui.metrics.nsys_reports.report import Report, ReportColumn
from ccltui.metrics.nsys_reports.row_filter import Filter, parse_range_filter

__all__ = [
    "PREFIX_PARTS",
    "REPORTS",
    "Chosen",
    "Filter",
    "Report",
    "ReportColumn",
    "make_pooled_report",
    "make_report",
    "parse_range_filter",
]
