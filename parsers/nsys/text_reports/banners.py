"""Parse the lines around tables: banners, titles, reasons for a missing table, progress bars."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ccltui.parsers.nsys.text_reports.report_names import report_name, report_of_statistics
from ccltui.parsers.nsys.text_reports.typed_table import NO_PROVENANCE, NameSource, Provenance
from ccltui.parsers.window import Window

_PROCESSING = re.compile(
    r"^\s*(?:[$>] )?Processing \[(?P<db>[^\]]*)\] with \[(?P<script>[^\]]+)\]"
    r"(?:\((?P<args>[^)]*)\))?(?: to \[(?P<file>[^\]]*)\])?"
    r"(?: to process \[@(?P<command>.*?)\])?\.\.\.[ ]?(?P<rest>.*)$"
)
_EXPORTING = re.compile(
    r"^\s*Exporting \[(?P<script>\S+\.py)(?P<args>[^\]]*?) (?P<db>[^\]]+)\](?: to [^.]+)?\.\.\."
    r"[ ]?(?P<rest>.*)$"
)
_EXECUTING = re.compile(
    r"^\s*\[\d+/\d+\] Executing '(?P<report>[\w.-]+)' stats report(?P<rest>.*)$"
)
_TITLE = re.compile(r"^\s*\*\* (?P<title>.{1,200}) \((?P<report>[\w.-]+)\):\s*$")
_STATISTICS = re.compile(r"^\s*(?P<title>[A-Z][\w /-]+) Statistics(?: \((?P<unit>\w+)\))?:?\s*$")
_ABSENT = re.compile(r"^\s*(?P<what>SKIPPED|ERROR): (?P<why>.+?)\s*$")
_UNKNOWN_REPORT = re.compile(r"Report '(?P<report>[^']+)' could not be found")
_SKIPPED_PATH = re.compile(r"^(?P<db>.+?) (?P<why>does not contain .+)$")
_WRITTEN = re.compile(r"^\s*PROCESSED\b")
_VERSION = re.compile(
    r"(?:nsight-systems|NsightSystems(?:-cli)?)[-/](?P<version>20\d\d\.\d+(?:\.\d+)*)",
    re.IGNORECASE,
)
_PROGRESS = re.compile(r"\[[=\s]*\d+%[=\s]*\]|^(?:Processing|Exporting) \d+ events")
_DEPRECATED = re.compile(r"^DEPRECATED - Use \S+ instead$")


@dataclass(frozen=True, slots=True)
class Heading:
    """Facts about the next table, from the lines before its header."""

    line: int
    report: str = ""
    written_report: str = ""
    name_source: NameSource = "none"
    title: str = ""
    unit: str = ""  # of a 2019 title, for columns that name none
    provenance: Provenance = NO_PROVENANCE
    absent: str | None = None


def is_progress(text: str) -> bool:
    """Return whether a piece of a line is a progress bar; a line may have hundreds."""
    return _PROGRESS.search(text) is not None


def read_banner(text: str, line: int) -> tuple[Heading, str] | None:
    """Return the heading of a banner and the rest of its line; None for any other line."""
    match = _PROCESSING.match(text) or _EXPORTING.match(text)
    if match is not None:
        return _of_script(match.groupdict(), line)
    match = _EXECUTING.match(text)
    if match is None:
        return None
    written = match["report"]
    return Heading(line, report_name(written), written, "banner"), match["rest"]


def read_title(text: str, heading: Heading | None, line: int) -> Heading | None:
    """Return the heading that a title line starts or completes; None for any other line."""
    match = _TITLE.match(text)
    if match is not None:
        base = heading or Heading(line)
        title = "" if _DEPRECATED.match(match["title"]) else match["title"]
        report = report_name(match["report"])
        return replace(
            base, report=report, written_report=match["report"], name_source="title", title=title
        )
    match = _STATISTICS.match(text)
    if match is None:
        return None
    unit = match["unit"] or ""
    report = report_of_statistics(match["title"], unit)
    if not report:
        return None
    base = heading if heading and heading.report in ("", report) else Heading(line)
    title = f"{match['title']} Statistics"
    unit = {"nanoseconds": "ns"}.get(unit, unit)
    return replace(base, report=report, name_source="title", title=title, unit=unit)


def read_absence(text: str, heading: Heading | None, line: int) -> Heading | None:
    """Return the heading of a report without a table, with nsys's reason; None for other lines."""
    match = _ABSENT.match(text)
    if match is None:
        if heading is not None and _WRITTEN.match(text):
            return replace(heading, absent="nsys wrote this report to a file of its own")
        return None
    why = match["why"]
    unknown = _UNKNOWN_REPORT.search(why)
    if unknown is not None:
        base = Heading(line, report_name(unknown["report"]), unknown["report"], "banner")
        return replace(base, absent=f"nsys knew no report {unknown['report']}")
    if match["what"] == "ERROR" and heading is None:
        return None  # errors of other programs
    skipped = _SKIPPED_PATH.match(why)
    reason = f"the capture {skipped['why']}" if skipped else why
    return replace(heading or Heading(line), absent=reason)


def _of_script(fields: dict[str, str | None], line: int) -> tuple[Heading, str]:
    script = fields["script"] or ""
    name = script.rpartition("/")[2]
    provenance = _provenance(fields, script)
    heading = Heading(
        line, report_name(name), name.removesuffix(".py"), "banner", "", "", provenance
    )
    if fields.get("file"):
        heading = replace(heading, absent="nsys wrote this report to a file of its own")
    return heading, fields["rest"] or ""


def _provenance(fields: dict[str, str | None], script: str) -> Provenance:
    version = _VERSION.search(script)
    arguments = tuple(filter(None, (fields.get("args") or "").strip(" ()").split(":")))
    keys = dict(part.partition("=")[::2] for part in arguments if "=" in part)
    return Provenance(
        database=fields["db"] or "",
        nsys_version=version["version"] if version else "",
        arguments=arguments,
        window=_window(keys),
        nvtx=keys.get("nvtx", ""),
        command=fields.get("command") or "",
    )


def _window(keys: dict[str, str]) -> Window | None:
    try:
        start, end = (int(keys[key]) if key in keys else None for key in ("start", "end"))
    except ValueError:
        return None
    return None if start is None and end is None else Window(start, end)
