"""Find rows by their ids, for ids that are mostly consecutive numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.parsers.array_types import I32, I64

_NONE: Final = -1
_MAX_TABLE_RATIO: Final = 8
"""A table of ids is quicker than a search up to so many ids in its range per row."""


def first_rows(keys: I64, wanted: I64) -> I32:
    """Return the first row of ``keys`` that equals each of ``wanted``, int32, -1 for none.

    Args:
        keys: id of each row, negative where it has none.
        wanted: ids to find.
    """
    known = np.arange(len(keys), dtype=np.int32)
    if len(keys) and keys.min() < 0:
        known = known[keys >= 0]
        keys = keys[known]
    if not len(known) or not len(wanted):
        return np.full(len(wanted), _NONE, np.int32)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= _MAX_TABLE_RATIO * len(keys):  # ids are consecutive numbers
        table = np.full(high - low + 2, _NONE, np.int32)
        table[keys[::-1] - low] = known[::-1]  # the first of several with one number
        # numbers outside of the table: its last entry, -1
        return table.take(np.clip(wanted - low, -1, high - low + 1))
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    rows = order[at]
    return np.where(keys[rows] == wanted, known[rows], np.int32(_NONE))
