"""The reports of ``nsys stats``, computed here and equal to nsys's own.

Durations are never clipped and starts never moved: a window selects whole rows, as
``--filter-time`` does. Metrics of this package's parent clip instead, and say so.
"""

from ccltui.metrics.nsys_reports.make_report import REPORTS, make_pooled_report, make_report
from ccltui.metrics.nsys_reports.pooled import Chosen
from ccltui.metrics.nsys_reports.report import Report, ReportColumn
from ccltui.metrics.nsys_reports.row_filter import Filter, parse_range_filter

__all__ = [
    "REPORTS",
    "Chosen",
    "Filter",
    "Report",
    "ReportColumn",
    "make_pooled_report",
    "make_report",
    "parse_range_filter",
]
