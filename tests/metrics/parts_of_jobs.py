"""Jobs with something taken out, or put in its place: what a metric needs, and does without."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from factories import Event, card, job, rank_trace
from full_jobs import JOBS, RANKS
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.model.classify import is_collective_kernel
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import MISSING, CollectiveArgs, Events, Group, RankTrace


class Parts(Struct, frozen=True):
    """What a view is made of."""

    ranks: tuple[RankTrace, ...]
    card: Mapping[str, object] | None
    overrides: Mapping[str, object] = field(default_factory=lambda: {"against": "/1.0"})

    @property
    def view(self) -> View:
        stated = None if self.card is None else card(**self.card)
        return View(job(*self.ranks, card=stated), ViewOptions(overrides=self.overrides))


Change = Callable[[Parts], Parts]


def whole(name: str) -> Parts:
    """A job of `full_jobs` as it stands."""
    build, stated = JOBS[name]
    return Parts(tuple(build(rank, 1.0) for rank in range(RANKS)), stated)


def after(*changes: Change) -> Change:
    """One change after the other."""

    def changed(parts: Parts) -> Parts:
        for change in changes:
            parts = change(parts)
        return parts

    return changed


def each(change: Callable[[RankTrace], RankTrace]) -> Change:
    """The same on every rank."""
    return lambda parts: replace(parts, ranks=tuple(change(trace) for trace in parts.ranks))


def without_group(*groups: Group) -> Change:
    """No event of these kinds."""
    return each(
        lambda trace: replace(
            trace, events={name: rows for name, rows in trace.events.items() if name not in groups}
        )
    )


def without_names(group: Group, matches: Callable[[str], bool]) -> Change:
    """No event of a kind whose name matches."""

    def changed(trace: RankTrace) -> RankTrace:
        events = trace.group(group)
        keep = np.array([not matches(trace.text(int(name))) for name in events.name], np.bool_)
        return replace(trace, events={**trace.events, group: events.take(keep)})

    return each(changed)


def without_columns(group: Group, *names: str) -> Change:
    """No event of a kind states these values."""

    def changed(trace: RankTrace) -> RankTrace:
        events = trace.group(group)
        empty = {name: getattr(events, name)[:0] for name in names}
        return replace(trace, events={**trace.events, group: events.with_columns(**empty)})

    return each(changed)


def with_arguments(**values: int) -> Change:
    """Every collective states these values, -1 for none."""

    def changed(trace: RankTrace) -> RankTrace:
        args = trace.collective_args
        columns = {name: getattr(args, name) for name, _ in CollectiveArgs.COLUMNS}
        for name, value in values.items():
            columns[name] = np.full_like(columns[name], value)
        return replace(trace, collective_args=CollectiveArgs(**columns))

    return each(changed)


def ranks(count: int) -> Change:
    """The first ranks alone."""
    return lambda parts: replace(parts, ranks=parts.ranks[:count])


def no_card(parts: Parts) -> Parts:
    return replace(parts, card=None)


def stating(**fields: object) -> Change:
    """A card that states these as well."""
    return lambda parts: replace(parts, card={**(parts.card or {}), **fields})


def not_stating(*names: str) -> Change:
    """A card that leaves these out."""

    def changed(parts: Parts) -> Parts:
        stated = {name: value for name, value in (parts.card or {}).items() if name not in names}
        return replace(parts, card=stated)

    return changed


def overriding(**values: object) -> Change:
    """A user who gives these."""
    return lambda parts: replace(parts, overrides={**parts.overrides, **values})


def _unlaunched(trace: RankTrace) -> RankTrace:
    gpu = trace.group("gpu")
    alone = gpu.with_columns(correlation=np.full_like(gpu.correlation, MISSING))
    events: dict[Group, Events] = {
        name: rows for name, rows in trace.events.items() if name != "runtime"
    }
    return replace(trace, events={**events, "gpu": alone})


no_kernels = without_group("gpu", "gpu_annotations", "gpu_sync")
no_markers = without_group("annotations", "gpu_annotations")
no_launches = each(_unlaunched)
no_collectives = without_names("gpu", is_collective_kernel)
no_sizes = with_arguments(in_elems=MISSING, out_elems=MISSING, in_split=MISSING, out_split=MISSING)
no_groups = after(
    each(lambda trace: replace(trace, process_groups=())),
    with_arguments(group=MISSING, group_size=MISSING),
)
no_devices = each(lambda trace: replace(trace, devices=()))
no_hosts = each(lambda trace: replace(trace, host=""))
no_shapes = without_group("cpu_ops")
no_experts = after(no_collectives, without_names("cpu_ops", lambda name: "moe" in name))


def on_the_host(parts: Parts) -> Parts:
    """The same collectives by gloo: ranges on the host, no device."""

    def gloo(rank: int) -> RankTrace:
        starts = [1000.0 * i + 20 + 40 * rank for i in range(3)]
        return rank_trace(
            rank,
            cpu_ops=[Event("c10d::allreduce_", start, 5, 1) for start in starts],
            annotations=[
                Event("gloo:all_reduce", start + 6, 1000 * i + 400 - start, 2)
                for i, start in enumerate(starts)
            ],
            world_size=len(parts.ranks),
        )

    return replace(parts, ranks=tuple(gloo(rank) for rank in range(len(parts.ranks))))
