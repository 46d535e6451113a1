"""Table of the collectives of one rank, one row per call, from one family of events.

A trace records a collective up to five times: as an operator, as its recorded parameters, as an
annotation on the CPU and on the device, and as a kernel. Where it has kernels, only these are
used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, is_one_value, repeated, taken
from ccltui.metrics.model.bandwidth import message_bytes, wire_factor
from ccltui.metrics.model.call_families import (
    Family,
    StatedRows,
    choose_family,
    untimed_family,
)
from ccltui.metrics.model.classify import COMM, TYPES, distinct, reduced_dtype
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_steps import StepWork
from ccltui.parsers.array_types import I8, I32, I64, U64, Bool
from ccltui.parsers.columns import (
    MISSING,
    CollectiveArgs,
    Events,
    Group,
    RankTrace,
    Strings,
)
from ccltui.parsers.store.column_store import release

ROUNDING_NS: Final = 2_000
"""Ends of events are sums of a start and a duration, each rounded, to whole microseconds in old
files."""
SOON_NS: Final = 30_000
"""A kernel that begins this soon after a call ended, on an idle device, waited for it."""


class CallRows(Struct, frozen=True):
    """Rows of the events ``group`` of a trace; `of` gives them as numbers."""

    group: Group
    numbers: I64

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, group: Group) -> I64:
        """Return the numbers, int64; ValueError where they number another group."""
        if group != self.group:
            raise ValueError(f"these are rows of {self.group}, not of {group}")
        return self.numbers

    def events_of(self, trace: RankTrace) -> Events:
        """Return the group of events that the numbers index."""
        return trace.group(self.group)

    def take(self, rows: npt.NDArray[np.intp] | I64 | Bool) -> CallRows:
        """Return some of the rows (mask or indices)."""
        return CallRows(self.group, self.numbers[rows])

    def with_none(self, count: int) -> CallRows:
        """Return these rows, and -1 for as many further calls."""
        return CallRows(self.group, np.append(self.numbers, np.full(count, MISSING)))


_Kind = TypeVar("_Kind", bound=np.generic)

_SIZES: Final = {
    1: ("Bool", "Byte", "Char", "UInt8", "Int8", "Float8", "signed char", "unsigned char", "bytes"),
    2: ("Half", "BFloat16", "Short", "short int", "UInt16"),
    4: ("Float", "Int", "UInt32"),
    8: ("Double", "Long", "long int", "ComplexFloat", "complex<float>", "UInt64"),
    16: ("ComplexDouble", "complex<double>"),
}
_SYNONYMS: Final = {  # spelling of operator inputs -> spelling of collective metadata
    "unsigned char": "Byte",
    "signed char": "Char",
    "short int": "Short",
    "long int": "Long",
    "complex<float>": "ComplexFloat",
    "complex<double>": "ComplexDouble",
}
DTYPES: Final = tuple(name for names in _SIZES.values() for name in names if name not in _SYNONYMS)
DTYPE_BYTES: Final = np.array(
    [size for size, names in _SIZES.items() for name in names if name not in _SYNONYMS], np.int64
)
_BY_LOWER = {
    name.lower(): DTYPES.index(_SYNONYMS.get(name, name)) for n in _SIZES.values() for name in n
}
_UNTYPED: Final = DTYPES.index("bytes")
"""Element type of sizes in bytes whose true type is unknown: nsys records NCCL so."""

_SPLITTING: Final = [TYPES.index("AllGather"), TYPES.index("ReduceScatter")]
_TRANSFERS: Final = [TYPES.index("Send"), TYPES.index("Recv")]
_PAIRED: Final = [*_TRANSFERS, TYPES.index("SendRecv")]
_COUNTS_BYTES: Final = np.array([one not in {"Recv", "Barrier"} for one in TYPES])


_OFTEN_EQUAL: Final = (
    "kind",
    "message_bytes",
    "wire_bytes",
    "in_elems",
    "out_elems",
    "seq",
    "step",
)
"""Columns that ranks which do the same work have in common."""


class Calls(Struct, frozen=True):
    """The collectives of one rank, sorted by start; all arrays have one length.

    -1 means unknown in all columns (0 in ``comms_id``).

    Attributes:
        source: family of events that the calls come from.
        start_ns: start on the rank's own clock.
        dur_ns: duration.
        kind: index into TYPES.
        group: index into the groups of the job.
        message_bytes: message size S of `bandwidth.message_bytes`.
        wire_bytes: bytes that the rank sends, S * f(n).
        in_elems: elements of the input.
        out_elems: elements of the output.
        dtype: index into DTYPES.
        seq: sequence number in the communicator.
        comms_id: identifier of the communicator.
        step: id of the step.
        src: global rank that sends.
        dst: global rank that receives.
        rows: rows in the events of the trace that the calls are of.
        has_metadata: whether metadata names the operation.
        library: index into `LIBRARIES` of the library whose communicator it uses.
    """

    source: str
    start_ns: I64
    dur_ns: I64
    kind: I8
    group: I32
    message_bytes: I64
    wire_bytes: I64
    in_elems: I64
    out_elems: I64
    dtype: I32
    seq: I64
    comms_id: U64
    step: I64
    src: I64
    dst: I64
    rows: CallRows
    has_metadata: Bool
    library: I8

    @property
    def event_group(self) -> Group:
        """Group of events of the trace that the calls are of."""
        return self.rows.group

    @property
    def counts_bytes(self) -> Bool:
        """Calls that move bytes of their own: a receive repeats its send, a barrier moves none."""
        if is_one_value(self.kind):
            return repeated(_COUNTS_BYTES.take(self.kind[:1]), len(self))
        return _COUNTS_BYTES.take(self.kind)

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> I64:
        """Start plus duration, int64 ns."""
        return self.start_ns + self.dur_ns

    def sharing(self, other: Calls | None) -> Calls:
        """Return these calls with the arrays of another rank where both have the same values.

        Ranks that do the same work have the same numbers, steps and rows of events: of all ranks
        such a column takes 8 B a call, and equal arrays are not compared again.
        """
        if other is None or len(other) != len(self):
            return self
        shared: dict[str, Any] = {}
        for name in _OFTEN_EQUAL:
            mine, theirs = getattr(self, name), getattr(other, name)
            if not is_one_value(mine) and np.array_equal(mine, theirs):
                shared[name] = theirs
        if np.array_equal(self.rows.numbers, other.rows.numbers):
            shared["rows"] = replace(self.rows, numbers=other.rows.numbers)
        return replace(self, **shared)

    def joined(self, other: Calls) -> Calls:
        """Return these calls and those of another table after them, for counts and sums."""
        if not len(other):
            return self
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        both: dict[str, Any] = {
            name: np.concatenate([values, getattr(other, name)])
            for name, values in values
            if isinstance(values, np.ndarray)
        }
        return replace(self, rows=self.rows.with_none(len(other)), **both)

    def take(self, rows: npt.NDArray[np.intp] | I64 | Bool) -> Calls:
        """Return the same columns restricted to ``rows`` (mask or indices)."""
        numbers = self.rows.take(rows)
        count = len(numbers)
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        taken: dict[str, Any] = {
            name: repeated(column, count) if is_one_value(column) and count else column[rows]
            for name, column in values
            if isinstance(column, np.ndarray)
        }
        return replace(self, rows=numbers, **taken)


def calls_of(
    trace: RankTrace,
    *,
    work: StepWork,
    classes: I8,
    group_index: I32,
    groups: Sequence[CommGroup],
) -> Calls:
    """Return all collectives of a rank, unfiltered.

    Args:
        trace: the columns of the rank.
        work: step of each row of ``gpu``.
        classes: class of each row of ``gpu``.
        group_index: index into ``groups`` of each process group of the trace.
        groups: all groups of the job.
    """
    family = choose_family(trace, work, classes)
    return _calls(trace, family, group_index, groups)


class KnownCalls(Struct, frozen=True):
    """The calls of a rank, and the columns from which all but their times and steps follow.

    Ranks that do the same work have the same columns, however their kernels lie in time: to compare
    these takes a quarter of the time of listing the calls anew.
    """

    calls: Calls
    work: StepWork
    strings: Strings
    table: CollectiveArgs
    group_index: I32
    classes: I8
    kernels: tuple[I32, ...]  # columns of all device events, those of `_INPUTS`
    columns: tuple[I32, ...]  # the same of the communication kernels

    @classmethod
    def of(
        cls, trace: RankTrace, calls: Calls, work: StepWork, classes: I8, group_index: I32
    ) -> KnownCalls | None:
        """Return the calls of a rank as what others are compared with.

        None where they follow from more than these columns: they are no kernels, or kernels that
        name no group. None as well for calls of joined kernels, and for few.

        Args:
            trace: the columns of the rank.
            calls: its calls.
            work: step of each row of ``gpu``.
            classes: class of each row of ``gpu``.
            group_index: index into the groups of the job of each process group of the trace.
        """
        if calls.source != "kernel" or len(calls) < _FEWEST_KNOWN:
            return None
        table, kernels = trace.collective_args, _kernels(trace)
        columns = tuple(taken(column, calls.rows.numbers) for column in kernels)
        stated = StatedRows(columns[_INPUTS.index("args")], len(table)).values(table.group)
        is_whole = len(calls) == np.count_nonzero(classes == COMM)
        if not is_whole or not (_groups_of(stated, group_index) >= 0).any():
            return None
        strings = trace.strings
        return cls(calls, work, strings, table, group_index, classes, kernels, columns)

    def of_rank(
        self, trace: RankTrace, *, work: StepWork, classes: I8, group_index: I32
    ) -> Calls | None:
        """Return what `calls_of` returns for another rank, None where its columns differ."""
        calls, known_rows, gpu = self.calls, self.calls.rows.numbers, trace.group("gpu")
        rows = known_rows if classes is self.classes else np.flatnonzero(classes == COMM)
        if len(rows) != len(calls) or not self._has_inputs(trace, rows, group_index):
            return None
        start_ns = gpu.start_ns.take(rows)
        if (start_ns[1:] < start_ns[:-1]).any():
            return None
        has_same_rows = rows is known_rows or np.array_equal(rows, known_rows)
        step = self.calls.step
        if not (has_same_rows and self._has_steps(work)):
            mine = work.ids_of(rows)
            step = step if np.array_equal(mine, step) else _compact(mine)
        found = replace(
            calls,
            start_ns=start_ns,
            dur_ns=gpu.dur_ns.take(rows),
            step=step,
            rows=calls.rows if has_same_rows else CallRows("gpu", rows),
        )
        release(trace)
        return found

    def _has_steps(self, work: StepWork) -> bool:
        ids = ([step.id for step in one.steps] for one in (work, self.work))
        return work.index is self.work.index and next(ids) == next(ids)

    def _has_inputs(self, trace: RankTrace, rows: I64, group_index: I32) -> bool:
        mine, known = trace.strings, self.strings
        return (
            np.array_equal(group_index, self.group_index)
            and _is_same(mine.offsets, known.offsets)
            and _is_same(mine.blob, known.blob)
            and self._has_kernels(trace, rows)
            and all(
                _is_same(getattr(trace.collective_args, name), getattr(self.table, name))
                for name in _STATED
            )
        )

    def _has_kernels(self, trace: RankTrace, rows: I64) -> bool:
        kernels = _kernels(trace)
        if rows is self.calls.rows.numbers and all(map(is_, kernels, self.kernels)):
            return True
        mine = (taken(column, rows) for column in kernels)
        return all(map(_is_same, mine, self.columns))


_FEWEST_KNOWN: Final = 256
"""Fewer calls are listed as fast as they are compared."""
_INPUTS: Final = ("name", "category", "track", "args")
"""Columns of kernels that their calls follow from."""
_STATED: Final = (
    "op",
    "in_elems",
    "out_elems",
    "dtype",
    "group",
    "group_size",
    "seq",
    "comms_id",
    "src",
    "dst",
)
"""Columns of metadata that calls follow from."""


def _kernels(trace: RankTrace) -> tuple[I32, ...]:
    gpu = trace.group("gpu")
    return tuple(getattr(gpu, name) for name in _INPUTS)


def _is_same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two columns have the same values; columns of one value are compared by it alone."""
    if one is other:
        return True
    if len(one) == len(other) and is_one_value(one) and is_one_value(other):
        return bool(one[0] == other[0])
    return np.array_equal(one, other)


def untimed_calls_of(
    trace: RankTrace, *, work: StepWork, group_index: I32, groups: Sequence[CommGroup]
) -> Calls:
    """Return the collectives of a rank whose kernels have impossible times, at their launches.

    Arguments are those of `calls_of`.
    """
    return _calls(trace, untimed_family(trace, work), group_index, groups)


def _calls(
    trace: RankTrace, family: Family, group_index: I32, groups: Sequence[CommGroup]
) -> Calls:
    if (family.start_ns[1:] < family.start_ns[:-1]).any():
        family = family.take(np.argsort(family.start_ns, kind="stable"))
    table = trace.collective_args
    metadata = StatedRows(family.args, len(table))
    group = _groups_of(metadata.values(table.group), group_index)
    src, dst = metadata.values(table.src), metadata.values(table.dst)
    if family.source == "kernel":
        group = _only_group(trace, family, group=group, group_index=group_index)
    else:
        group = _infer_groups(trace, family, group=group, group_index=group_index, groups=groups)
        src, dst = _global_ranks(src, group, groups), _global_ranks(dst, group, groups)
    kind, group = _compact(family.kind), _compact(group)
    stated, dtype = _dtypes(trace, family)
    seq = _compact(metadata.values(table.seq))
    comms_id = _compact(metadata.values(table.comms_id, 0))
    has_metadata = _compact(metadata.values(table.op) >= 0)
    size = _compact(_group_sizes(metadata.values(table.group_size), group, groups))
    release(trace)
    dtype, in_elems, out_elems, message, wire = _of_one_value(
        _sizes,
        kind=kind,
        given_in=family.in_elems,
        given_out=family.out_elems,
        stated=stated,
        dtype=dtype,
        size=size,
    )
    return Calls(
        source=family.source,
        start_ns=family.start_ns,
        dur_ns=family.dur_ns,
        kind=kind,
        group=group,
        message_bytes=_compact(message),
        wire_bytes=_compact(wire),
        in_elems=_compact(in_elems),
        out_elems=_compact(out_elems),
        dtype=_compact(dtype),
        seq=seq,
        comms_id=comms_id,
        step=_compact(family.step),
        src=_compact(src),
        dst=_compact(dst),
        rows=CallRows(family.event_group, family.rows),
        has_metadata=has_metadata,
        library=_compact(family.library),
    )


def _groups_of(listed: I32, group_index: I32) -> I32:
    """Return the group of the job of each call, given that of the trace."""
    groups = np.append(group_index, np.int32(MISSING))
    if is_one_value(listed):
        return repeated(groups[listed[:1]], len(listed))
    return groups.take(listed)


def _compact(column: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """Return a column that has one value only as a view of that value, others as they are.

    Calls of all ranks stay in memory, some 115 B each; in most jobs half of the columns, such as
    the peers of transfers, have one value.
    """
    if len(column) < 2 or is_one_value(column):
        return column
    if column[0] != column[-1] or (column != column[0]).any():
        return column
    return np.broadcast_to(column[:1].copy(), column.shape)


def _of_one_value(
    function: Callable[..., tuple[npt.NDArray[Any], ...]], **columns: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], ...]:
    """Return columns that follow row by row from others, computed once where these have one value.

    In most jobs all collectives of a rank, or all but a few, have one type, element type and group.
    """
    if not all(map(is_one_value, columns.values())):
        return function(**columns)
    count = len(next(iter(columns.values())))
    values = tuple((name, one.dtype.str, one[0].item()) for name, one in columns.items())
    return tuple(repeated(column, count) for column in _of_values(function, values))


@lru_cache(maxsize=1 << 10)
def _of_values(
    function: Callable[..., tuple[npt.NDArray[Any], ...]], values: tuple[tuple[str, str, int], ...]
) -> tuple[npt.NDArray[Any], ...]:
    """Call a function with columns of one row, of which the ranks of a job have few."""
    return function(**{name: np.array([value], dtype) for name, dtype, value in values})


def _sizes(
    *, kind: I8, given_in: I64, given_out: I64, stated: I32, dtype: I32, size: I64
) -> tuple[npt.NDArray[Any], ...]:
    """Element type, elements in and out, message and bytes on the wire of each call."""
    in_elems = _in_elements(given_in, stated, dtype)
    out_elems = _in_elements(given_out, stated, dtype)
    width = np.append(DTYPE_BYTES, MISSING).take(dtype)
    message = message_bytes(kind, _bytes(in_elems, width), _bytes(out_elems, width), size)
    return dtype, in_elems, out_elems, message, _wire(message, wire_factor(kind, size))


def streams_of(trace: RankTrace, calls: Calls) -> I64:
    """Return the device stream of each call, int64, -1 where it is not recorded."""
    if calls.event_group != "gpu":
        return np.full(len(calls), MISSING, np.int64)
    streams = np.array([track.stream for track in trace.tracks] + [MISSING], np.int64)
    return streams[trace.group("gpu").track[calls.rows.of("gpu")]]


def dtype_index(name: str) -> int:
    """Return the index into DTYPES of a dtype in any spelling of the files, -1 if unknown."""
    bare = name.lower().removeprefix("c10::")
    if bare.startswith("float8"):
        return DTYPES.index("Float8")
    return _BY_LOWER.get(bare, MISSING)


def _only_group(trace: RankTrace, family: Family, *, group: I32, group_index: I32) -> I32:
    """Assign kernels that name no group to the only one that the file lists, where it fits.

    It fits if no kernel names another and all collectives of NCCL run on one stream: a communicator
    runs one after another. Transfers have streams of their own.
    """
    listed = {
        int(index)
        for index, known in zip(group_index, trace.process_groups, strict=True)
        if known.size > 1 and known.ranks
    }
    ours = family.library == 0
    if len(listed) != 1 or (group >= 0).any():
        return group
    tracks = trace.group("gpu").track[family.rows[ours & ~np.isin(family.kind, _PAIRED)]]
    if len(distinct_values(tracks)) != 1:
        return group
    return np.where(ours, np.int32(listed.pop()), group)


def _infer_groups(
    trace: RankTrace,
    family: Family,
    *,
    group: I32,
    group_index: I32,
    groups: Sequence[CommGroup],
) -> I32:
    """Infer the groups of operators, which do not name them, where only one group is possible.

    The rank's own table lists all its groups. The two sizes of a gather or a reduce-scatter give
    the size of its group, and a send or receive belongs to the pipeline. A group is assigned where
    it is the only one of that size or dimension, or the only group.
    """
    listed = sorted(
        {
            int(index)
            for index, known in zip(group_index, trace.process_groups, strict=True)
            if known.backend and known.size > 1
        }
    )
    if len(listed) == 1:
        return np.where(group < 0, np.int32(listed[0]), group)
    whole = np.maximum(family.in_elems, family.out_elems)
    part = np.minimum(family.in_elems, family.out_elems)
    split = np.isin(family.kind, _SPLITTING) & (part > 0)
    sizes = [groups[index].size for index in listed]
    for index, size in zip(listed, sizes, strict=True):
        if sizes.count(size) == 1:
            group = np.where((group < 0) & split & (whole == part * size), np.int32(index), group)
    stages = [index for index in listed if groups[index].dim == "pp"]
    if len({groups[index].ranks for index in stages}) == 1:
        transfer = np.isin(family.kind, _TRANSFERS)
        group = np.where((group < 0) & transfer, np.int32(stages[0]), group)
    return group


def _global_ranks(peer: I64, group: I32, groups: Sequence[CommGroup]) -> I64:
    """Convert peers of operators from ranks in the group to global ranks; -1 where unknown."""
    known = np.full(len(peer), MISSING, np.int64)
    for index in distinct_values(group[(peer >= 0) & (group >= 0)]):
        ranks = np.array(groups[index].ranks, np.int64)
        rows = np.flatnonzero((group == index) & (peer >= 0) & (peer < len(ranks)))
        known[rows] = ranks[peer[rows]]
    return known


def _in_elements(sizes: I64, stated: I32, dtype: I32) -> I64:
    """Convert sizes that NCCL states in bytes to elements, where the kernel names the type."""
    in_bytes = (stated == _UNTYPED) & (sizes >= 0)
    if not in_bytes.any():
        return sizes
    width = np.append(DTYPE_BYTES, 1)[dtype]
    return np.where(in_bytes, sizes // width, sizes)


def _dtypes(trace: RankTrace, family: Family) -> tuple[I32, I32]:
    """Recorded element types, and the same completed by those that reduction kernels name."""
    table = np.full(len(trace.strings) + 1, MISSING, np.int32)
    for i in distinct(family.dtype):
        table[i] = dtype_index(trace.text(i))
    if is_one_value(family.dtype):
        stated = repeated(table.take(family.dtype[:1]), len(family.dtype))
        is_sure = bool(stated[0] >= 0 and stated[0] != _UNTYPED)
    else:
        stated, is_sure = table.take(family.dtype), False
    if is_sure or family.source != "kernel":
        return stated, stated
    unsure = (stated < 0) | (stated == _UNTYPED)
    if not unsure.any():
        return stated, stated
    names = trace.group(family.event_group).name[family.rows]
    for i in distinct(names):
        table[i] = dtype_index(reduced_dtype(trace.text(i)))
    named = np.where(table[names] >= 0, table[names], stated)
    return stated, np.where(unsure, named, stated)


def _group_sizes(stated: I64, group: I32, groups: Sequence[CommGroup]) -> I64:
    if stated.min(initial=1) > 0:
        return stated
    known = np.full(len(group), MISSING, np.int64)
    for index in distinct_values(group[group >= 0]).tolist():  # few of the groups of the job
        known[group == index] = groups[index].size
    return np.where(stated > 0, stated, known)


def _bytes(elements: I64, width: I64) -> I64:
    return np.where((elements >= 0) & (width > 0), elements * width, MISSING)


def _wire(message: I64, factor: npt.NDArray[np.float64]) -> I64:
    known = (message >= 0) & ~np.isnan(factor)
    wire = np.rint(np.where(known, message * np.where(known, factor, 0.0), MISSING))
    return wire.astype(np.int64)
