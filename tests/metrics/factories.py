"""Hand-built traces: readable lists in, the columnar model out.

Times are microseconds on the rank's own clock; fractions are rounded to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import F32
from ccltui.parsers.columns import (
    MISSING,
    CollectiveArgs,
    Device,
    Events,
    Group,
    Note,
    ProcessGroup,
    RankTrace,
    SourceFile,
    Strings,
    Track,
)
from ccltui.parsers.found_files import Discovery, FoundFile
from ccltui.parsers.side.workload_card import FIELDS, Card

if TYPE_CHECKING:
    from ccltui.parsers.job import Job


class Coll(Struct, frozen=True):
    """What the profiler writes beside a collective; ``group`` counts into process_groups."""

    op: str = "allreduce"
    in_elems: int = MISSING
    out_elems: int = MISSING
    dtype: str = "Float"
    group: int = 0
    group_size: int = MISSING
    seq: int = MISSING
    comms_id: int = 0
    src: int = MISSING
    dst: int = MISSING
    in_split: str = ""
    out_split: str = ""
    is_async: int = MISSING
    record_id: int = MISSING


class Event(Struct, frozen=True):
    """One complete event. ``track`` is the stream of device work, the thread of anything else."""

    name: str
    start_us: float
    dur_us: float
    track: int = 7
    coll: Coll | None = None
    correlation: int = MISSING
    external_id: int = MISSING
    category: str = ""
    bytes: int = MISSING
    blocks_per_sm: float = MISSING
    occupancy_pct: float = MISSING
    shapes: str = ""
    graph_node: int = MISSING
    graph: int = MISSING
    module: str = ""


CATEGORY: Mapping[Group, str] = {
    "gpu": "kernel",
    "gpu_annotations": "gpu_user_annotation",
    "gpu_sync": "cuda_sync",
    "runtime": "cuda_runtime",
    "cpu_ops": "cpu_op",
    "annotations": "user_annotation",
    "python": "python_function",
    "other": "other",
}
ON_DEVICE: frozenset[Group] = frozenset({"gpu", "gpu_annotations", "gpu_sync"})


def kernel(
    name: str,
    start_us: float,
    dur_us: float,
    stream: int = 7,
    coll: Coll | None = None,
    *,
    correlation: int = MISSING,
    external_id: int = MISSING,
) -> Event:
    """A compute kernel, or a collective's when the name or ``coll`` says so."""
    return Event(
        name, start_us, dur_us, stream, coll, correlation=correlation, external_id=external_id
    )


def copy(start_us: float, dur_us: float, stream: int = 7, size: int = 1024) -> Event:
    """A host-to-device copy."""
    name = "Memcpy HtoD (Pinned -> Device)"
    return Event(name, start_us, dur_us, stream, category="gpu_memcpy", bytes=size)


def allreduce(start_us: float, dur_us: float, coll: Coll | None = None, stream: int = 20) -> Event:
    """An AllReduce kernel of NCCL 2.19 or later."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    return Event(name, start_us, dur_us, stream, coll)


def launch(correlation: int, start_us: float, dur_us: float = 1.0, thread: int = 1) -> Event:
    """The runtime call that started the device work of the same correlation id."""
    return Event("cudaLaunchKernel", start_us, dur_us, thread, correlation=correlation)


def step(number: int, start_us: float, dur_us: float) -> Event:
    """The profiler's step marker, as PyTorch writes it."""
    return Event(f"ProfilerStep#{number}", start_us, dur_us, 1)


def world(size: int, name: str = "0", description: str = "default_pg") -> ProcessGroup:
    """The group of all ranks."""
    return ProcessGroup(name, description, tuple(range(size)), size, "cuda:nccl")


class _Pool:
    """Interns strings while the columns are filled."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids)) if text else MISSING


def _column(values: Sequence[int], dtype: type) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=dtype)


def _sparse(values: Sequence[float]) -> F32:
    return np.array(values if any(value >= 0 for value in values) else [], np.float32)


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _args_columns(rows: Sequence[Coll], pool: _Pool) -> CollectiveArgs:
    texts = ("op", "dtype", "in_split", "out_split")
    values = {
        name: [pool(getattr(row, name)) if name in texts else getattr(row, name) for row in rows]
        for name, _ in CollectiveArgs.COLUMNS
    }
    return CollectiveArgs(
        **{name: _column(values[name], dtype) for name, dtype in CollectiveArgs.COLUMNS}
    )


class _Builder(Struct):
    base_ns: int
    pool: _Pool = field(default_factory=_Pool)
    tracks: dict[tuple[str, int], int] = field(default_factory=dict)
    args: list[Coll] = field(default_factory=list)

    def events(self, group: Group, events: Sequence[Event]) -> Events:
        ordered = sorted(events, key=lambda event: (event.start_us, -event.dur_us))
        kind = "stream" if group in ON_DEVICE else "thread"
        return Events(
            start_ns=_column([self.base_ns + _ns(e.start_us) for e in ordered], np.int64),
            dur_ns=_column([_ns(e.dur_us) for e in ordered], np.int64),
            name=_column([self.pool(e.name) for e in ordered], np.int32),
            category=_column([self.pool(e.category or CATEGORY[group]) for e in ordered], np.int32),
            track=_column([self._track(kind, e.track) for e in ordered], np.int32),
            correlation=_column([e.correlation for e in ordered], np.int64),
            external_id=_column([e.external_id for e in ordered], np.int64),
            args=_column([self._args(e.coll) for e in ordered], np.int32),
            bytes=_column([e.bytes for e in ordered], np.int64),
            blocks_per_sm=_sparse([e.blocks_per_sm for e in ordered]),
            occupancy_pct=_sparse([e.occupancy_pct for e in ordered]),
            shapes=_column(
                [self.pool(e.shapes) for e in ordered if any(o.shapes for o in ordered)], np.int32
            ),
            **self._of_graphs(ordered),
        )

    def _of_graphs(self, events: Sequence[Event]) -> dict[str, Any]:
        if all(e.graph_node == MISSING for e in events):
            return {}
        return {
            "graph_node": _column([e.graph_node for e in events], np.int64),
            "graph": _column([e.graph for e in events], np.int64),
            "module": _column([self.pool(e.module) for e in events], np.int32),
        }

    def _track(self, kind: str, number: int) -> int:
        return self.tracks.setdefault((kind, number), len(self.tracks))

    def _args(self, coll: Coll | None) -> int:
        if coll is None:
            return MISSING
        self.args.append(coll)
        return len(self.args) - 1


def _track_of(kind: str, number: int) -> Track:
    if kind == "stream":
        return Track("stream", "0", str(number), 0, number)
    return Track("thread", "100", str(number))


def rank_trace(
    rank: int | None = 0,
    *,
    gpu: Sequence[Event] = (),
    annotations: Sequence[Event] = (),
    cpu_ops: Sequence[Event] = (),
    runtime: Sequence[Event] = (),
    gpu_annotations: Sequence[Event] = (),
    python: Sequence[Event] = (),
    other: Sequence[Event] = (),
    groups: Sequence[ProcessGroup] = (),
    world_size: int | None = None,
    host: str = "node-a",
    label: str | None = None,
    base_ns: int = 0,
    shift_us: float = 0.0,
    devices: Sequence[Device] = (),
    notes: Sequence[Note] = (),
    nccl_version: str = "2.21.5",
    truncated: bool = False,
) -> RankTrace:
    """One rank from lists of events; ``shift_us`` is an error of its clock, added to all."""
    builder = _Builder(base_ns + _ns(shift_us))
    given: dict[Group, Sequence[Event]] = {
        "gpu": gpu,
        "annotations": annotations,
        "cpu_ops": cpu_ops,
        "runtime": runtime,
        "gpu_annotations": gpu_annotations,
        "python": python,
        "other": other,
    }
    events: dict[Group, Events] = {
        group: builder.events(group, rows) for group, rows in given.items() if rows
    }
    args = _args_columns(builder.args, builder.pool)
    name = f"rank{rank}_trace.json" if rank is not None else (label or "unknown.json")
    return RankTrace(
        source=SourceFile(name, f"/data/{name}", 1000, 1, 1000),
        rank=rank,
        rank_source="none" if rank is None else "distributedInfo",
        strings=Strings.of(list(builder.pool.ids)),
        events=events,
        collective_args=args,
        tracks=tuple(_track_of(kind, number) for kind, number in builder.tracks),
        process_groups=tuple(groups),
        devices=tuple(devices),
        world_size=world_size,
        backend="nccl",
        nccl_version=nccl_version,
        host=host,
        base_ns=base_ns,
        notes=tuple(notes),
        truncated=truncated,
        label=label if label is not None else (name if rank is None else str(rank)),
    )


def card(**fields: object) -> Card:
    """A workload card that states these fields, by the names of its accessors."""
    return Card("workload_card.yaml", {FIELDS[name][0]: value for name, value in fields.items()})


class FakeJob(Struct, frozen=True):
    """A job without files: what metrics ask of ``ccltui.parsers.job.Job``, and nothing else."""

    ranks: tuple[RankTrace, ...]
    path: str = "/data"
    card: Any = None
    card_problem: str | None = None
    failures: tuple[Any, ...] = ()
    notes: tuple[Note, ...] = ()
    kinds: tuple[str, ...] = ("kineto",)
    run_sources: tuple[Any, ...] = ()
    unread_ranks: tuple[int, ...] = ()
    store: Any = None

    @property
    def world_size(self) -> int | None:
        """Largest size that a rank states."""
        return max((r.world_size for r in self.ranks if r.world_size is not None), default=None)

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """Ranks of the world that no file claims, and those that a sample leaves out."""
        present = {trace.rank for trace in self.ranks}
        absent = set(range(self.world_size or 0)).union(self.unread_ranks) - present
        return tuple(sorted(absent))

    @property
    def origin_ns(self) -> int:
        """Start of the earliest event of all ranks, no clock corrected."""
        return min((t.first_ns for t in self.ranks if t.first_ns is not None), default=0)

    @property
    def discovery(self) -> Discovery:
        """The files that were found: one of each kind in ``kinds``."""
        files = [FoundFile(f"file.{kind}", f"file.{kind}", kind, 1) for kind in self.kinds]
        return Discovery(self.path, tuple(files), ())

    @property
    def capture(self) -> SimpleNamespace:
        """The one capture."""
        return SimpleNamespace(name="", iteration=None, files=(), notes=())


def job(
    *ranks: RankTrace,
    card: object = None,
    card_problem: str | None = None,
    failures: tuple[object, ...] = (),
    notes: tuple[Note, ...] = (),
    kinds: tuple[str, ...] = ("kineto",),
) -> Job:
    """A job of these ranks, typed as the real one."""
    fake = FakeJob(
        tuple(ranks),
        card=card,
        card_problem=card_problem,
        failures=failures,
        notes=notes,
        kinds=kinds,
    )
    return cast("Job", fake)
