"""Tables of rocprofv3 in csv: kernels of AMD devices, and what lies beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Report, Rule

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.text.file_sample import FileSample

ROCPROF_VERSION: Final = 1
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""


def _is_kernels(sample: FileSample) -> Match | None:
    from ccltui.parsers.rocprof.sniff_rocprof import kernel_table  # noqa: PLC0415

    return kernel_table(sample)


def _is_beside(sample: FileSample) -> Match | None:
    from ccltui.parsers.rocprof.sniff_rocprof import other_table  # noqa: PLC0415

    return other_table(sample)


def _read(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui.parsers.rocprof.kernel_trace import read_kernel_trace  # noqa: PLC0415

    return read_kernel_trace(
        path, shown=shown, scratch=scratch, progress=progress, cancelled=cancelled
    )


ROCPROF_TRACE: Final = Format(
    kind="rocprof_trace",
    description="kernel_trace.csv of rocprofv3: kernels of the devices of a process",
    sniff=(Rule(Priority.TEXT_BANNER, _is_kernels),),
    source="nsys",  # device work and host calls without metadata, as the exports of nsys
    read=_read,
    version=ROCPROF_VERSION,
    family="rocprof",
    several_ranks=True,
    rank_in_name=True,
    read_by_line=True,
)
ROCPROF_TABLE: Final = Format(
    kind="rocprof_table",
    description="another csv of rocprofv3: calls, copies and markers belong to kernel_trace.csv",
    sniff=(Rule(Priority.TEXT_BANNER, _is_beside),),
)
