"""Find the places of a searched name: times, collectives or rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I32, I64
from ccltui.tui.state.event_table import event_table
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.name_search import Among, Search

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_SEEN = 3


class Hits(Struct, frozen=True):
    """Ascending ``places`` of hits, in the unit of :func:`ccltui.tui.moves.search_steps.place`.

    Times on the timeline, collectives in Alignment, rows in Events. ``seen`` lists existing names
    where nothing matches.
    """

    places: I64
    seen: tuple[str, ...] = ()


def hits(view: View, findings: Findings, search: Search) -> Hits:
    """Search the names of a pane. Raises re.error for a bad pattern."""
    if search.among is Among.ROWS:
        return _rows(view, findings, search)
    if search.among is Among.COLLECTIVES:
        return _collectives(view, findings, search)
    return _times(view, search)


def _rows(view: View, findings: Findings, search: Search) -> Hits:
    table = event_table(view, findings, search.rank, search.listing)
    return _found(search, table.name[table.order], np.arange(len(table)), table.text)


def _times(view: View, search: Search) -> Hits:
    trace = view.facts.ranks[search.rank].trace
    gpu = trace.group("gpu")
    starts = view.on_job_clock(search.rank, gpu.start_ns) - view.origin_ns
    return _found(search, gpu.name, starts, trace.text)


def _collectives(view: View, findings: Findings, search: Search) -> Hits:
    """Match the type of a collective, or the kernel of the rank (else of the first member)."""
    communicator = (findings.communicators or ())[search.communicator]
    member = communicator.labels.index(search.rank) if search.rank in communicator.labels else 0
    label = communicator.labels[member]
    calls, trace = view.facts.named_calls[label], view.facts.ranks[label].trace
    rows = view.arrivals.groups[communicator.number].match.rows[communicator.row, member]
    here = np.flatnonzero(rows >= 0)
    kernels = np.full(len(rows), -1, np.int64)
    kernels[here] = calls.rows.events_of(trace).name[calls.rows.numbers[rows[here]]]
    pairs, names = np.unique(
        np.stack([communicator.kind_id.astype(np.int64), kernels]), axis=1, return_inverse=True
    )

    def text(name: int) -> str:
        kind, kernel = pairs[:, name].tolist()
        return f"{communicator.kind[kind]} {trace.text(kernel)}".rstrip()

    return _found(search, names, np.arange(len(rows)), text)


def _found(search: Search, names: I32 | I64, places: I64, text: Callable[[int], str]) -> Hits:
    distinct, counts = np.unique(names, return_counts=True)
    found = re.compile(search.pattern, re.IGNORECASE).search
    matching = [name for name in distinct.tolist() if found(text(name))]
    if matching:
        return Hits(np.unique(places[np.isin(names, matching)]))
    frequent = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    seen = tuple(text(name) for name, _ in frequent.most_common(_SEEN))
    return Hits(np.empty(0, np.int64), seen)
