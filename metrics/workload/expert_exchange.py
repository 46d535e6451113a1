"""Count the tokens that expert-parallel ranks exchange, from the splits of all-to-alls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import RankTrace


_ALL_TO_ALL: Final = TYPES.index("AllToAll")
_ACTIVATIONS: Final = tuple(
    DTYPES.index(name) for name in ("Half", "BFloat16", "Float", "Float8") if name in DTYPES
)
"""Element types of activations. All-to-alls of integers exchange counts, not tokens."""
_MIN_PAIRED_SHARE: Final = 0.9
"""All-to-alls alternate between dispatch and return if so many pairs have mirrored splits."""


class Exchange(Struct):
    """Tokens sent between ranks.

    Attributes:
        sent: rows (elements, where ``width`` is 1) by pair of global ranks, source and target.
        calls: number of dispatches counted.
        unread: number of all-to-alls whose splits are not recorded in full.
        width: elements of a row, None where calls differ.
        alternates: whether dispatches and returns alternate on all ranks.
    """

    sent: defaultdict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    calls: int = 0
    unread: int = 0
    width: int | None = None
    alternates: bool = True

    def received(self) -> dict[int, float]:
        """Return the load of each rank: what all recorded ranks sent to it."""
        loads: defaultdict[int, float] = defaultdict(float)
        for (_, target), rows in self.sent.items():
            loads[target] += rows
        return dict(sorted(loads.items()))


def exchange_of(view: View) -> Exchange:
    """Sum the dispatches of tokens by all selected ranks; returns of results are excluded."""
    total, widths = Exchange(), set()
    for rank in view.ranks:
        if rank.rank is None:
            continue
        for group, rows in _by_group(rank):
            ranks = view.group(group).ranks if group >= 0 else ()
            if len(ranks) > 1:
                widths |= _add(total, rank, rows, ranks)
    total.width = widths.pop() if len(widths) == 1 else None
    return total


def _by_group(rank: RankView) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Selected calls that exchange activations, by group, in order of time."""
    calls = _dispatching(rank)
    rows = (calls.kind == _ALL_TO_ALL) & np.isin(calls.dtype, _ACTIVATIONS)
    return [
        (int(group), np.flatnonzero(rows & (calls.group == group)))
        for group in distinct_values(calls.group[rows])
    ]


def _dispatching(rank: RankView) -> Calls:
    """Return the selected calls; groups that no file names are inferred for all-to-alls alone."""
    calls = rank.selected_calls
    return rank.named(calls) if (calls.kind == _ALL_TO_ALL).any() else calls


def _add(
    total: Exchange, rank: RankView, rows: npt.NDArray[np.int64], ranks: Sequence[int]
) -> set[int]:
    calls = _dispatching(rank)
    splits = _splits(rank.trace, calls, rows, len(ranks))
    read = [row for row in rows.tolist() if row in splits]
    total.unread += len(rows) - len(read)
    pairs = [splits[a][1] == splits[b][0] for a, b in zip(read[::2], read[1::2], strict=False)]
    alternates = bool(pairs) and sum(pairs) >= _MIN_PAIRED_SHARE * len(pairs)
    total.alternates &= alternates
    widths = set()
    for row in read[::2] if alternates else read:
        sent, _ = splits[row]
        total.calls += 1
        if sum(sent) and int(calls.in_elems[row]) % sum(sent) == 0:
            widths.add(int(calls.in_elems[row]) // sum(sent))
        for target, count in zip(ranks, sent, strict=True):
            total.sent[rank.rank or 0, target] += count
    return widths


Split = tuple[int, ...]


def _splits(
    trace: RankTrace, calls: Calls, rows: npt.NDArray[np.int64], size: int
) -> dict[int, tuple[Split, Split]]:
    """Rows that each call sends to and receives from every member, by call.

    Calls with truncated lists are excluded, and those with empty splits: an empty split means equal
    parts, which do not depend on experts.
    """
    table = trace.collective_args
    of_call = calls.rows.events_of(trace).args[calls.rows.numbers]
    found = {}
    for row in rows.tolist():
        args = int(of_call[row])
        if args < 0:
            continue
        sent = _parsed(trace.text(int(table.in_split[args])), size)
        got = _parsed(trace.text(int(table.out_split[args])), size)
        if sent is not None:
            found[row] = (sent, got or ())
    return found


def split_sizes(trace: RankTrace, calls: Calls, row: int, size: int) -> Split | None:
    """Return what a call sends to each of ``size`` members; () for equal parts, None if unknown."""
    args = int(calls.rows.events_of(trace).args[calls.rows.numbers[row]])
    if args < 0:
        return None
    text = trace.text(int(trace.collective_args.in_split[args]))
    return () if text.strip("[] ") == "" and text else _parsed(text, size)


def _parsed(text: str, size: int) -> Split | None:
    parts = text.strip("[] ").replace(",", " ").split()
    if len(parts) != size or not all(part.isdecimal() and len(part) < 16 for part in parts):
        return None
    return tuple(int(part) for part in parts)


def matrix(exchange: Exchange) -> dict[str, dict[str, Any]]:
    """Return the sent rows by source (outer) and target (inner), global ranks as text."""
    table: dict[str, dict[str, Any]] = {}
    for (source, target), rows in sorted(exchange.sent.items()):
        table.setdefault(str(source), {})[str(target)] = rows
    return table
