"""Read what PyTorch recorded: Kineto traces, any valid Chrome-trace JSON, and execution traces.

`parsers.text.compression` gives the bytes; `event_list` cuts them into events and decodes them
(`scanner` does both in compiled code), `event_rows` and `collective_rows` hold their rows,
`rank_builder` fills the columns of a rank, and `kineto_reader` runs it all. Execution traces
(`execution_trace`) have shapes and groups without times: `execution_join` adds them to a rank.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import (
    Companion,
    Format,
    Match,
    Priority,
    RankInfo,
    Report,
    Rule,
    binary_suffix,
)

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.event_record import EventRecord, SoughtEvent
    from ccltui.parsers.text.file_sample import FileSample

PARSER_VERSION: Final = 11
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""


def _is_kineto(sample: FileSample) -> Match | None:
    from ccltui.parsers.kineto.sniff_chrome_trace import kineto_trace  # noqa: PLC0415

    return kineto_trace(sample)


def _is_kineto_fragment(sample: FileSample) -> Match | None:
    from ccltui.parsers.kineto.sniff_chrome_trace import kineto_fragment  # noqa: PLC0415

    return kineto_fragment(sample)


def _is_xla(sample: FileSample) -> Match | None:
    from ccltui.parsers.kineto.sniff_chrome_trace import xla_trace  # noqa: PLC0415

    return xla_trace(sample)


def _is_execution_trace(sample: FileSample) -> Match | None:
    keys = frozenset() if sample.json is None else sample.json.object_keys
    return Match() if "schema" in keys and keys & {"nodes", "start_ts"} else None


def _read_record(path: Path, sought: SoughtEvent, *, shown: str) -> EventRecord:
    from ccltui.parsers.kineto.event_in_json import read_json_record  # noqa: PLC0415

    return read_json_record(path, sought, shown=shown)


def _info_at_end(tail: bytes) -> RankInfo:
    from ccltui.parsers.kineto.sniff_chrome_trace import info_at_end  # noqa: PLC0415

    return info_at_end(tail)


def _is_finished(tail: bytes) -> bool:
    from ccltui.parsers.kineto.sniff_chrome_trace import ends_as_json  # noqa: PLC0415

    return ends_as_json(tail)


def _has_kernels(real_path: str) -> bool | None:
    from ccltui.parsers.kineto.sniff_chrome_trace import has_kernels  # noqa: PLC0415

    return has_kernels(real_path)


def _read_kineto(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.kineto.kineto_reader import read_ranks  # noqa: PLC0415

    return read_ranks(path, shown=shown, progress=progress, cancelled=cancelled)


def _read_xla(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.kineto.xla_profile import read_xla  # noqa: PLC0415

    return read_xla(path, shown=shown, progress=progress, cancelled=cancelled)


def _preview(path: Path, *, shown: str) -> RankTrace | None:
    from ccltui.parsers.kineto.preview import read_preview  # noqa: PLC0415

    return read_preview(path, shown=shown)


def _add_execution_trace(trace: RankTrace, companion: Companion) -> RankTrace:
    """Add the metadata of an execution trace where collectives of the rank lack it."""
    from ccltui.parsers.columns import Note  # noqa: PLC0415
    from ccltui.parsers.errors import TraceError, contained  # noqa: PLC0415
    from ccltui.parsers.kineto.execution_join import joined, lacks_metadata  # noqa: PLC0415
    from ccltui.parsers.kineto.execution_trace import read_execution_trace  # noqa: PLC0415

    if not lacks_metadata(trace):
        return trace
    try:
        with contained(companion.path):
            found = read_execution_trace(Path(companion.real_path), shown=companion.path)
            return joined(trace, found)
    except TraceError as error:
        note = Note("execution_trace_unread", str(error))
        return dataclasses.replace(trace, notes=(*trace.notes, note))


KINETO: Final = Format(
    kind="kineto",
    description="a Chrome trace of PyTorch: an object with traceEvents, or a bare list of events",
    sniff=(
        Rule(Priority.JSON_CONTENT, _is_kineto),
        Rule(Priority.JSON_FRAGMENT, _is_kineto_fragment),
    ),
    source="torch",
    profiler="torch",
    read=_read_kineto,
    version=PARSER_VERSION,
    family="kineto",
    rank_in_name=True,
    compares_content=True,
    preview=_preview,
    read_record=_read_record,
    add_companion=_add_execution_trace,
    info_at_end=_info_at_end,
    is_finished=_is_finished,
    has_kernels=_has_kernels,
    card_name="kineto_trace",
)
TPU_TRACE: Final = Format(
    kind="tpu_trace",
    description="a Chrome trace of an XLA profile, or that profile in protocol buffers",
    sniff=(
        Rule(Priority.JSON_CONTENT, _is_xla),
        binary_suffix(
            ".xplane.pb", problem="a TPU profile in protocol buffers: its trace.json.gz is read"
        ),
    ),
    source="torch",
    read=_read_xla,
    version=PARSER_VERSION,
    family="xla",
    several_ranks=True,
    compares_content=True,
    step_marks="xla",
    streams_are_serial=False,  # asynchronous operations share a row
    when_unreadable="profiles of TPUs ({files}) without a trace.json.gz that is readable",
)
EXECUTION_TRACE: Final = Format(
    kind="execution_trace",
    description="operators of PyTorch with shapes and dependencies, without times",
    sniff=(Rule(Priority.JSON_CONTENT, _is_execution_trace),),
    rank_in_name=True,
    completes="torch",
    card_name="torch_et",
)
