"""Join device work that together executes one collective of one rank.

A copy engine executes a collective as several copies between devices. DeepEP exchanges the sizes
of a dispatch in a kernel of its own before the dispatch.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING, RankTrace
from ccltui.parsers.communication_kernels import bare_kernel_name, communication_kernel

_NOTIFY: Final = "notify_"
_MEMORY: Final = "memcpy"


def joined_rows(trace: RankTrace, rows: I64) -> tuple[I64, I64]:
    """Return the first row of each collective, and its duration to the end of its last row.

    Args:
        trace: the columns of the rank.
        rows: communication of the rank's ``gpu`` events, int64, ascending in time.

    Returns:
        The rows that begin a collective, int64 [n], and durations in ns, int64 [n].
    """
    gpu = trace.group("gpu")
    owner = _first_copies(trace, rows)
    follows = owner != np.arange(len(rows))
    exchanges = _announced(trace, rows)
    if not follows.any() and not len(exchanges[0]):
        return rows, gpu.dur_ns[rows]
    first, second = exchanges
    keep = ~follows
    keep[second] = False
    end = gpu.start_ns[rows] + gpu.dur_ns[rows]
    owner[second] = first
    last = end.copy()
    np.maximum.at(last, owner, end)
    return rows[keep], (last - gpu.start_ns[rows])[keep]


def _first_copies(trace: RankTrace, rows: I64) -> I64:
    """Position of the copy that begins the call of each row; a call is told by its number.

    Of every other row its own position. Kernels of other streams may begin between two copies of
    one call.
    """
    gpu, table = trace.group("gpu"), trace.collective_args
    owner = np.arange(len(rows))
    names = [i for i in distinct(gpu.category[rows]) if _MEMORY in trace.text(i).lower()]
    is_copy = any_name(trace.strings, gpu.category[rows], names)
    if not is_copy.any() or not len(table):
        return owner
    args = gpu.args[rows]
    numbered = (args >= 0) & (np.append(table.seq, MISSING)[args] >= 0)
    copies = np.flatnonzero(is_copy & numbered)
    begins = np.append(True, np.diff(args[copies]) != 0)[: len(copies)]
    owner[copies] = copies[np.maximum.accumulate(np.where(begins, np.arange(len(copies)), 0))]
    return owner


def _announced(trace: RankTrace, rows: I64) -> tuple[I64, I64]:
    """Positions of kernels that announce an exchange, and of the exchanges right after them.

    Both are of one library, operation and track, without another communication kernel of the
    track between them.
    """
    gpu = trace.group("gpu")
    nothing = np.empty(0, np.int64)
    announcing = {i: _exchange_of(trace.text(i)) for i in distinct(gpu.name[rows])}
    if not any(announcing.values()):
        return nothing, nothing
    firsts, seconds = [], []
    for track in np.unique(gpu.track[rows]).tolist():
        places = np.flatnonzero(gpu.track[rows] == track)
        names = gpu.name[rows[places]].tolist()
        for place, name, after in zip(places, names, names[1:], strict=False):
            wanted = announcing[name]
            if wanted and _scope_and_word(trace.text(after)) == wanted:
                firsts.append(int(place))
                seconds.append(int(places[np.searchsorted(places, place) + 1]))
    return np.array(firsts, np.int64), np.array(seconds, np.int64)


def _exchange_of(name: str) -> tuple[str, str] | None:
    """Return scope and word of the exchange that a kernel announces, None for other kernels."""
    known = communication_kernel(name)
    if known is None or known.library != "deepep":
        return None
    scope, _, last = bare_kernel_name(name).rpartition("::")
    return (scope, last.removeprefix(_NOTIFY)) if last.startswith(_NOTIFY) else None


def _scope_and_word(name: str) -> tuple[str, str]:
    """Return scope and first word of a kernel: ``dispatch`` of ``dispatch_hidden6144``."""
    scope, _, last = bare_kernel_name(name).rpartition("::")
    return scope, last.partition("_")[0]
