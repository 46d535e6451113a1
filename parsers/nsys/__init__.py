"""Nsight Systems: its sqlite exports, its reports and the text of ``nsys stats``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Report, Rule, binary_suffix

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.event_record import EventRecord, SoughtEvent
    from ccltui.parsers.text.file_sample import FileSample

NSYS_VERSION: Final = 6
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""

_ONLY_NSYS = "an nsys report, which only nsys reads: run `nsys export -t sqlite` on it"


def _is_sqlite(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import sqlite_export  # noqa: PLC0415

    return sqlite_export(sample)


def _is_tables(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import tables_export  # noqa: PLC0415

    return tables_export(sample)


def _is_recipe(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import recipe_table  # noqa: PLC0415

    return recipe_table(sample)


def _is_json_report(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import json_report  # noqa: PLC0415

    return json_report(sample)


def _is_printed(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import printed_report  # noqa: PLC0415

    return printed_report(sample)


def _is_printed_trace(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import printed_trace  # noqa: PLC0415

    return printed_trace(sample)


def _is_json_trace(sample: FileSample) -> Match | None:
    from ccltui.parsers.nsys.sniff_nsys import json_trace  # noqa: PLC0415

    return json_trace(sample)


def _unfinished(real_path: str) -> str | None:
    from ccltui.parsers.nsys.sqlite.database import unfinished  # noqa: PLC0415

    return unfinished(real_path)


def _has_kernels(real_path: str) -> bool | None:
    from ccltui.parsers.nsys.sniff_nsys import has_kernels  # noqa: PLC0415

    return has_kernels(real_path)


def _read_sqlite(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.nsys.nsys_reader import read_nsys  # noqa: PLC0415

    directory = next((one for one in scratch if os.access(one, os.W_OK)), None)
    return read_nsys(path, shown=shown, progress=progress, cancelled=cancelled, scratch=directory)


def _read_record(path: Path, sought: SoughtEvent, *, shown: str) -> EventRecord:
    from ccltui.parsers.nsys.event_in_export import read_nsys_record  # noqa: PLC0415

    return read_nsys_record(path, sought, shown=shown)


def _read_tables(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.nsys.report_export import read_tables  # noqa: PLC0415

    return read_tables(path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled)


def _read_report(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.nsys.report_export import read_report  # noqa: PLC0415

    return read_report(path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled)


def _read_text_trace(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.nsys.text_trace import read_text_trace  # noqa: PLC0415

    return read_text_trace(
        path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled
    )


def _tables_to_sqlite(path: Path, target: Path, *, shown: str) -> Path:
    from ccltui.parsers.nsys.report_export import sqlite_of  # noqa: PLC0415  (and pyarrow)

    return sqlite_of(path, target, shown=shown)


def _report_to_sqlite(path: Path, target: Path, *, shown: str) -> Path:
    from ccltui.parsers.nsys.report_export import export_report  # noqa: PLC0415

    return export_report(path, target, shown=shown)


NSYS_SQLITE: Final = Format(
    kind="nsys_sqlite",
    description="an sqlite export of an nsys report",
    sniff=(Rule(Priority.BINARY, _is_sqlite),),
    source="nsys",
    profiler="nsys",
    read=_read_sqlite,
    read_record=_read_record,
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reads_damaged=True,  # left out, the ranks of an incomplete export would be missing silently
    step_marks="nvtx",
    unfinished=_unfinished,
    has_kernels=_has_kernels,
    memory_form="export",
    reports="rows",
    card_name="nsys",
)
NSYS_TABLES: Final = Format(
    kind="nsys_tables",
    description="Parquet or Arrow tables of an export; one file stands for all",
    sniff=(Rule(Priority.BINARY, _is_tables),),
    source="nsys",
    profiler="nsys",
    read=_read_tables,
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    reads_damaged=True,
    step_marks="nvtx",
    reports="rows",
    to_sqlite=_tables_to_sqlite,
)
NSYS_REPORT: Final = Format(
    kind="nsys_report",
    description="a report (.nsys-rep, .qdrep), which nsys itself exports first",
    sniff=(binary_suffix(".nsys-rep", ".qdrep", ".qdstrm", problem=_ONLY_NSYS),),
    source="nsys",
    profiler="nsys",
    read=_read_report,
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reads_damaged=True,  # its problem, that nsys must export it, is solved by the reader
    step_marks="nvtx",
    exported_as="nsys_sqlite",
    reports="rows",
    to_sqlite=_report_to_sqlite,
    card_name="nsys",
)
NSYS_TEXT: Final = Format(
    kind="nsys_text",
    description="output of nsys stats in any of its formats",
    sniff=(
        Rule(Priority.BINARY, _is_recipe),
        Rule(Priority.JSON_CONTENT, _is_json_report),
        Rule(Priority.TEXT_BANNER, _is_printed),
    ),
    profiler="nsys",
    reports="text",
    has_own_metrics=True,
    read_by_line=True,
)
NSYS_TEXT_TRACE: Final = Format(
    kind="nsys_text_trace",
    description="output of nsys stats with a cuda_gpu_trace: device work with its times",
    sniff=(
        Rule(Priority.JSON_CONTENT, _is_json_trace),
        Rule(Priority.TEXT_BANNER, _is_printed_trace),
    ),
    source="nsys",
    profiler="nsys",
    read=_read_text_trace,
    version=NSYS_VERSION,
    family="nsys",
    several_ranks=True,
    rank_in_name=True,
    reports="text",
    has_own_metrics=True,
    read_by_line=True,
)
