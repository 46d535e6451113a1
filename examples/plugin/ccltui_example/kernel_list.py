"""Text files that begin with ``kernels of rank N``, then have a kernel in every line.

This module declares the format. ccltui imports it whenever it looks at a directory, so the reader,
which needs numpy, is imported when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.parsers.format import Format, Match, Priority, RankInfo, Report, Rule

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.text.file_sample import FileSample

HEADER = "kernels of rank "


def _is_kernel_list(sample: FileSample) -> Match | None:
    if sample.text is None or not sample.text.startswith(HEADER):
        return None
    rank = sample.text.partition("\n")[0].removeprefix(HEADER)
    return Match(info=RankInfo(rank=int(rank))) if rank.isdecimal() else None


def _read(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    from ccltui_example.kernel_list_reader import read_kernel_list  # noqa: PLC0415

    return (read_kernel_list(path, shown=shown),)


KERNEL_LIST = Format(
    kind="kernel_list",
    description="one line for each kernel: name, start and end in microseconds",
    sniff=(Rule(Priority.TEXT_CONTENT, _is_kernel_list),),
    source="torch",
    read=_read,
    version=1,
    family="kernel_list",
)
