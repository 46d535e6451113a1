"""Write a report as bytes, one writer per format. UTF-8, lines end with a line feed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final, Protocol

from ccltui.parsers import plug_ins
from ccltui.parsers.errors import TraceError
from ccltui.report.json_document import Report, document, head, result_dict
from ccltui.report.result_rows import HEADER, Row, csv_text, rows_of
from ccltui.report.text_layout import table, text_bytes

_WIDEST_VALUE: Final = 32
"""Numbers and short names fit; a sentence or the name of a kernel does not move all numbers."""


class Writer(Protocol):
    """One output format."""

    def __call__(self, report: Report) -> bytes:
        """The whole report in this format."""


def write_table(report: Report) -> bytes:
    """Aligned text: the rows of all results, a blank line between metrics."""
    blocks = [
        rows_of(entry.result, entry.headline, detail=report.detail) for entry in report.entries
    ]
    lines = table(
        HEADER,
        [row.cells for block in blocks for row in block],
        align=("left", "left", "right"),
        widest={HEADER.index("value"): _WIDEST_VALUE},
    )
    return text_bytes(_spaced(lines, blocks))


def write_csv(report: Report) -> bytes:
    """Comma-separated rows under a header; an absent value is an empty cell."""
    blocks = (
        rows_of(entry.result, entry.headline, detail=report.detail) for entry in report.entries
    )
    return csv_text([HEADER, *(row.cells for block in blocks for row in block)]).encode()


def write_json(report: Report) -> bytes:
    """One document, indented by 2."""
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (tables need no orjson)

    return json_bytes(document(report), indent=True)


def write_jsonl(report: Report) -> bytes:
    """One JSON line per result, each with its trace and selection."""
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (as above)

    start = head(report)
    lines = (json_bytes({**start, **result_dict(entry.result)}) for entry in report.entries)
    return b"".join(lines)


def write_openmetrics(report: Report) -> bytes:
    """OpenMetrics text, which Prometheus reads."""
    from ccltui.report.openmetrics import openmetrics  # noqa: PLC0415  (prometheus_client)

    return openmetrics(report)


WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "json": write_json,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "openmetrics": write_openmetrics,
}


def writer_named(name: str) -> Writer:
    """Return the writer of a format, built in or of another package.

    Raises:
        TraceError: The writer of this name needs a package that is absent, or is one of a package
            that cannot be used.
    """
    if name == "openmetrics" and find_spec("prometheus_client") is None:
        raise TraceError(
            "--format openmetrics needs prometheus-client: install ccltui[openmetrics]"
        )
    if name in WRITERS:
        return WRITERS[name]
    entry = next(one for one in plug_ins.installed(plug_ins.WRITERS) if one.name == name)
    found = plugged_writer(entry)
    if isinstance(found, plug_ins.Skipped):
        raise TraceError(found.text)
    return found


def plugged_writer(entry: plug_ins.PlugIn) -> Writer | plug_ins.Skipped:
    """Return the writer of another package, which raises TraceError alone; or why there is none."""
    found = plug_ins.loaded(entry)
    if isinstance(found, plug_ins.Skipped):
        return found
    if entry.name in WRITERS:
        return entry.skipped(f"the name {entry.name!r} is already taken")
    if not callable(found):
        return entry.skipped(f"{entry.value} is a {type(found).__name__}, not a function")

    def write(report: Report) -> bytes:
        try:
            data = found(report)
            if isinstance(data, bytes):
                return data
            raise TypeError(f"it returned a {type(data).__name__}, not bytes")
        except (Exception, SystemExit) as error:
            reason = plug_ins.reason_of(error)
            problem = f"the writer plug-in {entry.name} of {entry.distribution} failed: {reason}"
            raise TraceError(problem) from error

    return write


def _spaced(lines: list[str], blocks: list[list[Row]]) -> list[str]:
    """The header, then the lines of each block after a blank line."""
    spaced = lines[:1]
    position = 1
    for block in blocks:
        spaced += ["", *lines[position : position + len(block)]]
        position += len(block)
    return spaced
