"""Divide the collective kernels of a rank by type, group or dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool

Split = Callable[["View", "Calls"], Iterator[tuple[str, "Bool"]]]
"""Function that yields the name of each part and a mask of its calls."""


def by_type(_: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by their type."""
    for kind in distinct_values(calls.kind):
        yield TYPES[kind], calls.kind == kind


def by_group(view: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by the label of their communicator."""
    for group in distinct_values(calls.group):
        yield view.group_label(int(group)), calls.group == group


def by_dim(view: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by their parallel dimension."""
    dims, _ = view.dims_of(calls)
    for dim in distinct_values(dims):
        yield DIMS[dim], dims == dim


def parts_of(view: View, rank: RankView, split: Split) -> tuple[tuple[str, Intervals, int], ...]:
    """Return name, time inside the windows and number of starts inside of each non-empty part.

    Time includes that of kernels which started before a window: the union over all parts is
    ``rank.comm``. Parts may overlap in time, so their times do not sum to it.
    """
    return rank.remember(split, lambda: tuple(_parts(view, rank, split)))


def _parts(view: View, rank: RankView, split: Split) -> Iterator[tuple[str, Intervals, int]]:
    calls = rank.device_calls
    for name, rows in split(view, calls):
        start = calls.start_ns[rows]
        time = union(start, calls.end_ns[rows]) & rank.windows
        started = int(rank.windows.contains(start).sum())
        if len(time) or started:
            yield name, time, started
