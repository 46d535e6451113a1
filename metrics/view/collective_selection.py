"""Select matched collectives and members by the options of a view, and their exposed waits.

    exposed wait  = time from the arrival of a rank to that of the last one, without computation
    beyond        = the part of it after the arrival of the last but one rank

Computation hides waiting: it costs the step nothing. Before the last but one rank arrives, another
rank is as late, and the last one alone is not the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import take_columns, take_rows, two_lowest
from ccltui.metrics.arrays.reductions import row_any
from ccltui.metrics.collectives.arrivals import GroupArrivals, Lateness, clock_free
from ccltui.metrics.collectives.lag_tables import Chosen, choose
from ccltui.metrics.collectives.matching.validity import pick
from ccltui.metrics.facts import fact
from ccltui.metrics.model.classify import distinct
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.overrides import positive_number
from ccltui.metrics.view.provenance import source_of
from ccltui.parsers.array_types import I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import RankTrace


ENDS_MUST_MEET: Final = "allreduce, allgather, reduce-scatter, barrier or all-to-all"


class Part(Struct, frozen=True):
    """The selected part of one group.

    Attributes:
        number: position of the group in ``view.arrivals.groups``.
        arrived: arrivals at all its collectives.
        rows: mask of the selected instances.
        columns: indices of the selected members.
    """

    number: int
    arrived: GroupArrivals
    rows: Bool
    columns: I64

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the selected members."""
        labels = self.arrived.labels
        return tuple(labels[column] for column in self.columns.tolist())

    @property
    def eligible(self) -> I64:
        """Selected instances for which a rank can be blamed."""
        return np.flatnonzero(self.rows & self.arrived.eligible)

    @property
    def usable(self) -> I64:
        """Selected instances that are complete and agree."""
        return np.flatnonzero(self.rows & self.arrived.match.usable)


def parts_of(view: View) -> list[Part]:
    """Return the selected instances of each group that has two selected ranks or more.

    An instance is selected where the call of its first member to arrive is.
    """
    return view.remember(parts_of, lambda: _parts(view))


def _parts(view: View) -> list[Part]:
    selected = {rank.label: _selected_rows(rank) for rank in view.ranks}
    parts = []
    for number, arrived in enumerate(view.arrivals.groups):
        columns = np.flatnonzero([label in selected for label in arrived.labels])
        if len(columns) >= 2:
            masks = [selected[arrived.labels[column]] for column in columns]
            rows = _rows_in_view(arrived, columns, masks)
            parts.append(Part(number, arrived, rows, columns))
    return parts


def chosen_of(view: View) -> list[Chosen]:
    """Return the eligible instances of each part that has any.

    Members are indices into ``view.ranks``.

    Raises:
        Refusal: no part has an eligible instance.
    """
    return view.remember(chosen_of, lambda: _chosen(view, parts_of(view)))


def _chosen(view: View, parts: Sequence[Part]) -> list[Chosen]:
    index = {rank.label: number for number, rank in enumerate(view.ranks)}
    floor_ns = view.arrivals.floor_ns
    chosen = []
    for part in parts:
        members = np.array([index[label] for label in part.labels])
        rows = part.rows & part.arrived.eligible
        chosen.append(choose(part.arrived, rows, part.columns, members, floor_ns))
    found = [one for one in chosen if len(one)]
    if not found:
        raise nothing_selected(view, parts)
    return found


def require_ranks(view: View) -> None:
    """Refuse a selection of fewer than two known ranks."""
    known = {rank.rank for rank in view.ranks if rank.rank is not None}
    if len(known) >= 2:
        return
    of = f" of {view.world_size}" if view.world_size else ""
    noun = "rank" if (view.world_size or len(known)) == 1 else "ranks"
    nameless = sum(rank.rank is None for rank in view.ranks)
    files = "one file does" if nameless == 1 else f"{nameless} files do"
    parts = [
        f"{len(known)}{of} {noun} found" if known or of or not nameless else "",
        "a comparison of ranks needs at least two",
        f"{files} not state a rank, which --rank-map can give" if nameless else "",
    ]
    raise refuse("single_rank", "; ".join(part for part in parts if part))


def source_of_times(view: View) -> tuple[str, list[str]]:
    """Return the family of events that times collectives, and warnings.

    Raises:
        Refusal: no rank has such events, or the times of a CPU-only trace are those of operators.
    """
    source, warnings = source_of(view.ranks)
    calls = sum(len(rank.recorded_calls) for rank in view.ranks)
    if source == "kernel":
        if not calls and not any(rank.facts.has_device for rank in view.ranks):
            raise without_device_times(view, "CPU-only trace without any recorded collective")
        return source, warnings
    if not all(_has_gloo(rank.trace) for rank in view.ranks if len(rank.recorded_calls)):
        raise without_device_times(
            view,
            "CPU-only trace: how long an operator runs on the host is not how long its "
            "collective takes",
        )
    return "annotation", [*warnings, "CPU-only trace: the times are those of gloo on the host"]


def nothing_selected(view: View, parts: Sequence[Part]) -> Refusal:
    """Return the refusal that explains why no instance is selected."""
    if not any(len(rank.recorded_calls) for rank in view.ranks):
        return refuse("no_collectives", "no rank has a collective")
    if any(part.arrived.eligible.any() for part in parts):
        return refuse("window_empty", "no matched collective lies in the selection")
    if not parts and view.matches.single_rank_groups:
        return refuse("unmatched_collectives", "no group has two of the ranks that are here")
    rows = [part.arrived.match for part in parts]
    incomplete = sum(match.num_incomplete for match in rows)
    mismatched = sum(match.num_mismatched for match in rows)
    if incomplete or mismatched:
        return refuse(
            "unmatched_collectives",
            f"no collective is recorded on all ranks of its group: {incomplete} incomplete, "
            f"{mismatched} mismatched",
        )
    return refuse("no_collectives", f"no {ENDS_MUST_MEET}: nothing that all ranks wait for")


def describe_group(view: View, index: int) -> Mapping[str, Any]:
    """Return label, description and dimension of a matched group; -1 is the implied group."""
    if index < 0:
        return {"group": "all ranks", "desc": None, "dim": "unknown"}
    group = view.groups[index]
    return {"group": group.label, "desc": group.description, "dim": group.dim}


def step_times(ranks: Iterable[RankView]) -> dict[int, int]:
    """Return the longest duration over ranks of each step that all ranks have, in ns by step id."""
    lengths = [{step.id: step.dur_ns for step in rank.steps} for rank in ranks]
    shared = set.intersection(*(set(one) for one in lengths))
    return {step: max(one[step] for one in lengths) for step in sorted(shared)}


def _has_gloo(trace: RankTrace) -> bool:
    names = distinct(trace.group("annotations").name)
    return any(trace.text(name).startswith("gloo:") for name in names)


def _selected_rows(rank: RankView) -> Bool | None:
    """Mask of the rank's calls that the view selects, None for all."""
    every, selected = rank.recorded_calls, rank.selected_calls
    if len(every) == len(selected):
        return None
    return np.isin(every.rows.numbers, selected.rows.numbers)


def _rows_in_view(arrived: GroupArrivals, columns: I64, masks: Sequence[Bool | None]) -> Bool:
    rows = take_columns(arrived.match.rows, columns.tolist())
    inside = np.ones(len(rows), np.bool_)
    present = rows >= 0 if rows.min(initial=0) < 0 else np.ones((len(rows), 1), np.bool_)
    if any(mask is not None for mask in masks):
        never = np.iinfo(np.int64).max
        first = np.where(present, arrived.start_ns[:, columns], never).argmin(axis=1)
        for column, mask in enumerate(masks):
            here = first == column
            if mask is not None:
                inside[here] = mask[rows[here, column]]
    return inside & row_any(present)


MATERIALITY: Final = "materiality_pct"
"""Name of the parameter: share of the measured time, %, below which nobody is named."""
DEFAULT_MATERIALITY_PCT: Final = 1.0
MATERIALITY_TEXT: Final = (
    "percentage of the time of all ranks below which no rank is named; 1 unless given"
)


class ExposedWaits(Struct, frozen=True, dict=True):
    """Exposed waiting at the selected instances of one group at which ranks wait for one of them.

    ``rows`` [n] are the instances of ``part.arrived``, broadcasts among them; ``is_late`` marks
    those with a lag above the floor, ``eligible`` those that `chosen_of` has too.
    ``wait_ns`` is int64 [n, m] over the selected members, ``beyond_ns`` [n] the sum over members of
    the part that is due to the last one alone, ``second`` [n] the last but one member.
    """

    part: Part
    rows: I64
    is_late: Bool
    eligible: Bool
    wait_ns: I64
    beyond_ns: I64
    second: I64

    @cached_property
    def caused_ns(self) -> I64:
        """Waiting of all members at each instance, int64 ns [n]."""
        return np.asarray(self.wait_ns.sum(axis=1))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels of the selected members."""
        return self.part.labels


def exposed_waits(view: View) -> list[ExposedWaits]:
    """Return the exposed waits of each group with selected instances."""
    return view.remember(exposed_waits, lambda: _exposed_waits(view))


def rank_time_ns(view: View) -> int:
    """Return the measured time of all ranks together, in ns."""
    return sum(rank.window_ns for rank in view.ranks)


def materiality_pct(view: View) -> float:
    """Return the share of the measured time below which nobody is named, in %.

    Raises:
        Refusal: the parameter is no positive number.
    """
    given = positive_number(view, MATERIALITY)
    return DEFAULT_MATERIALITY_PCT if given is None else given


def material_ns(view: View) -> float:
    """Return the waiting below which no rank is named, in ns.

    Raises:
        Refusal: see `materiality_pct`.
    """
    return rank_time_ns(view) * materiality_pct(view) / 100


@fact("waits")
def _exposed_waits(view: View) -> list[ExposedWaits]:
    ranks = {rank.label: rank for rank in view.ranks}
    floor_ns = view.arrivals.floor_ns
    return [_of_part(part, ranks, floor_ns) for part in parts_of(view) if _rows(part).any()]


def _rows(part: Part) -> Bool:
    return part.rows & part.arrived.delays


def _lateness_of(part: Part, mask: Bool, floor_ns: int) -> Lateness:
    """Return the lateness of some instances among the members of the part."""
    if len(part.columns) == len(part.arrived.labels):
        return part.arrived.clock_free.take(slice(None) if mask.all() else mask)
    return clock_free(part.arrived.dur_ns[mask][:, part.columns], floor_ns)


def _of_part(part: Part, ranks: Mapping[str, RankView], floor_ns: int) -> ExposedWaits:
    mask = _rows(part)
    rows = np.flatnonzero(mask)
    lateness = _lateness_of(part, mask, floor_ns)
    # By member, as the loop goes: with a thousand members each row of instances is 8 KB.
    lasted, shortest = np.asfortranarray(lateness.times_ns), lateness.last_ns
    second = two_lowest(lasted)[1]
    of_member = take_columns(take_rows(part.arrived.match.rows, rows), part.columns.tolist())
    gap = lasted[np.arange(len(rows)), second] - shortest
    exposed, beyond = np.empty_like(lasted), np.zeros(len(rows), np.int64)
    for place, column in enumerate(part.columns.tolist()):
        rank = ranks[part.arrived.labels[column]]
        start = pick(rank.recorded_calls.start_ns, of_member[:, place])
        waits = start, lasted[:, place], shortest, gap
        rank.comp.take_from_waits(waits, exposed[:, place], beyond)
        if rank.is_large:
            rank.forget_intervals()
    late = lateness.last >= 0
    return ExposedWaits(part, rows, late, part.arrived.eligible[rows], exposed, beyond, second)
