"""Summary rows of nccl-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.result import Reason

if TYPE_CHECKING:
    from ccltui.metrics.result import Code
    from ccltui.parsers.cluster.nccl_tests import NcclTest


def nccl_test_row(path: str, test: NcclTest) -> dict[str, Any]:
    """Return one test as a row: its best bus bandwidth and the message size of that."""
    best = np.fmax(test.out_busbw, test.in_busbw)
    known = np.isfinite(best)
    at = int(np.nanargmax(best)) if known.any() else None
    checked = test.wrong[test.wrong >= 0]
    return {
        "collective": test.collective,
        "max_busbw_GBps": None if at is None else float(best[at]),
        "at_bytes": None if at is None else int(test.size_bytes[at]),
        "average_busbw_GBps": test.average_busbw,
        "num_sizes": len(test),
        "num_ranks": test.ranks,
        "num_wrong": int(checked.sum()) if len(checked) else None,
        "nccl_version": test.nccl_version,
        "devices": list(test.device_names),
        "writer": test.writer,
        "file": path,
    }


def unread_parts(path: str, test: NcclTest) -> tuple[Reason, ...]:
    """Return why the rows of a test are not all that it measured, or not surely of one test."""
    return tuple(
        Reason(_PARTIAL[note.code], f"{path}: {note.message}")
        for note in test.notes
        if note.code in _PARTIAL
    )


_PARTIAL: Final[dict[str, Code]] = {
    "bad_row": "damaged_trace",
    "mixed_tests": "rank_conflict",
    "unfinished_test": "incomplete_run",
    "cut_file": "truncated_trace",
    "long_text": "truncated_trace",
}
