"""Summary rows of nccl-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
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
        "file": path,
    }
