"""Device work of a rank by stream, and of one category of kernels, for the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ccltui.draw.lanes import Track
from ccltui.draw.stream_rows import Stream
from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.model.classify import COMM, COMP, MEM, any_name, distinct
from ccltui.metrics.model.kernel_names import bare_name, category_of
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import RankTrace

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View

Streams = Mapping[str, tuple[Stream, ...]]
"""Streams of each rank, by label."""

_PARTS = (COMP, COMM, MEM)
_PLACE = np.argsort(_PARTS).astype(np.uint8)
"""Place of each class in the parts of a stream."""

COMMUNICATION = "communication"
COPIES = "copies"


def streams_of(view: View, ranks: tuple[str, ...]) -> Streams:
    """Return streams of some ranks in order of number. Raises KeyError for an unknown rank."""
    return {label: tuple(_streams(view.facts.ranks[label])) for label in ranks}


def _streams(facts: RankFacts) -> list[Stream]:
    trace = facts.trace
    tracks = trace.group("gpu").track
    found = [(trace.tracks[i].stream if i >= 0 else -1, i) for i in distinct(tracks)]
    if (tracks < 0).any():
        found.append((-1, -1))
    return [_stream(facts, track) for _, track in sorted(found)]


def _stream(facts: RankFacts, track: int) -> Stream:
    trace = facts.trace
    gpu = trace.group("gpu")
    rows = np.flatnonzero(gpu.track == track)
    start, end, kind = gpu.start_ns[rows], gpu.end_ns[rows], facts.classes[rows]
    compute, comm, copies = (_track(facts, rows[kind == one]) for one in _PARTS)
    return Stream(
        label=f"s{trace.tracks[track].tid}" if track >= 0 else "s?",
        work=_track(facts, rows),
        parts=(compute, comm, copies),
        start_ns=start,
        end_ns=end,
        kind=_PLACE[kind],
        name=gpu.name[rows],
        text=partial(_bare, trace),
        track=track,
    )


def _bare(trace: RankTrace, name: int) -> str:
    return bare_name(trace.text(name))


def _track(facts: RankFacts, rows: npt.NDArray[np.intp]) -> Track:
    gpu = facts.trace.group("gpu")
    time = union(gpu.start_ns[rows], gpu.end_ns[rows])
    return Track.of(time.start_ns, time.end_ns)


def kernels_of(view: View, category: str) -> Mapping[str, Track]:
    """Return the times of kernels of a category on each selected rank, on its own clock."""
    return {
        rank.label: _track(rank.facts, np.flatnonzero(_is_of(rank.facts, category)))
        for rank in view.ranks
    }


def _is_of(facts: RankFacts, category: str) -> Bool:
    if category == COMMUNICATION:
        return np.asarray(facts.classes == COMM)
    if category == COPIES:
        return np.asarray(facts.classes == MEM)
    trace = facts.trace
    gpu = trace.group("gpu")
    named = [i for i in distinct(gpu.name) if category_of(trace.text(i)) == category]
    return np.asarray(any_name(trace.strings, gpu.name, named) & (facts.classes == COMP))
