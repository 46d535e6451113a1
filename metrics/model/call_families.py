"""Choose the one family of events that represents the collectives of a rank, and join its parts.

These are the kernels where the device was recorded, else the recorded parameters, else the
operators (with the times of gloo's annotations, because gloo's threads do the work), else the
annotations. Two families are never combined: they record the same calls. A copy engine executes a
collective as several copies, and DeepEP exchanges the sizes of a dispatch in a kernel before it:
such work is one call. Type and size come from its metadata and from the events around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import (
    counts_up,
    distinct_values,
    is_one_value,
    repeated,
    stable_order,
    taken,
    unique_inverse,
)
from ccltui.metrics.model.classify import (
    COMM,
    COMP,
    OTHER,
    TYPES,
    any_name,
    distinct,
    is_call,
    is_collective_kernel,
    library_of_kernel,
    per_name,
    type_of_kernel,
    type_of_operation,
)
from ccltui.metrics.model.rank_steps import OUTSIDE, StepWork, covering
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING, UNTIMED, Events, Group, RankTrace
from ccltui.parsers.communication_kernels import bare_kernel_name, communication_kernel

_Kind = TypeVar("_Kind", bound=np.integer)

BACKENDS: Final = ("nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:")


def elements_of(trace: RankTrace, args: I32) -> tuple[I64, I64]:
    """Return the elements in and out that the metadata states, -1 where it does not."""
    table = trace.collective_args
    return stated(table.in_elems, args), stated(table.out_elems, args)


def dtypes_of(trace: RankTrace, args: I32) -> I32:
    """Return the element type that the metadata states, as a string id; -1 where it does not."""
    return stated(trace.collective_args.dtype, args)


def _operations(trace: RankTrace, args: I32) -> I32:
    return stated(trace.collective_args.op, args)


class StatedRows:
    """Rows of the metadata of a rank that some events have.

    Args:
        args: Row of each event, -1 where it has none.
        count: Number of rows of the metadata.
    """

    def __init__(self, args: I32, count: int) -> None:
        self._args = args
        self._count = count
        self._all_have = args.min(initial=0) >= 0
        self._are_all = len(args) == count and counts_up(args)

    def values(self, column: npt.NDArray[_Kind], nothing: int = MISSING) -> npt.NDArray[_Kind]:
        """Return the value of a column for each event, ``nothing`` without metadata.

        Where each row is of one event, in order, this is the column itself.
        """
        if not self._count:
            return np.full(len(self._args), nothing, column.dtype)
        if self._are_all:
            shared = column.view()
            shared.flags.writeable = False  # other ranks may share it, and the trace has it too
            return shared
        if is_one_value(column) and self._all_have:
            return repeated(column, len(self._args))
        found = column.take(self._args)
        if not self._all_have:
            found[self._args < 0] = nothing
        return found


def stated(column: npt.NDArray[_Kind], args: I32, nothing: int = MISSING) -> npt.NDArray[_Kind]:
    """Return the value of a metadata column for each call, ``nothing`` without metadata."""
    return StatedRows(args, len(column)).values(column, nothing)


def names_operation(trace: RankTrace, args: I32) -> Bool:
    """Return which calls have metadata that names an operation."""
    return _operations(trace, args) >= 0


def operation_types(trace: RankTrace, args: I32) -> I8:
    """Return the type that the metadata names, -1 where it names none."""
    ids = _operations(trace, args)
    answer = {i: type_of_operation(trace.text(i)) for i in distinct(ids)}
    return per_name(trace.strings, ids, answer, MISSING)


def operation_is_call(trace: RankTrace, args: I32) -> Bool:
    """Return which calls have metadata that names a collective, not the wait for one."""
    ids = _operations(trace, args)
    return any_name(trace.strings, ids, [i for i in distinct(ids) if is_call(trace.text(i))])


def backend_rows(trace: RankTrace, prefixes: tuple[str, ...]) -> Bool:
    """Return which annotations belong to a backend, by the prefixes of their names."""
    names = trace.group("annotations").name
    backends = [i for i in distinct(names) if trace.text(i).startswith(prefixes)]
    return any_name(trace.strings, names, backends)


def annotation_types(trace: RankTrace, names: I32) -> I8:
    """Return the type that names of backend annotations (string ids) contain, -1 where none."""
    answer = {i: type_of_operation(trace.text(i).partition(":")[2]) for i in distinct(names)}
    return per_name(trace.strings, names, answer, MISSING)


def type_inside(trace: RankTrace, operators: Events, rows: I64) -> I8:
    """Return the type of the first backend annotation starting inside each row, or -1.

    Only annotations on the thread of the row are searched.
    """
    annotations = trace.group("annotations").take(backend_rows(trace, BACKENDS))
    types = annotation_types(trace, annotations.name)
    found = np.full(len(rows), MISSING, np.int8)
    for track in distinct_values(operators.track[rows]):
        mine = np.flatnonzero(operators.track[rows] == track)
        there = np.flatnonzero(annotations.track == track)
        starts = annotations.start_ns[there]
        at = np.searchsorted(starts, operators.start_ns[rows[mine]])
        inside = at < len(starts)
        inside[inside] = starts[at[inside]] < operators.end_ns[rows[mine[inside]]]
        found[mine[inside]] = types[there[at[inside]]]
    return found


def type_around(trace: RankTrace, operators: Events, rows: I64) -> I8:
    """Return the type of the latest process-group operator that encloses each row, or -1."""
    names = {
        i: type_of_operation(text.removeprefix("c10d::"))
        for i in distinct(operators.name)
        if (text := trace.text(i)).startswith("c10d::")
    }
    kinds = per_name(trace.strings, operators.name, names, MISSING)
    found = np.full(len(rows), MISSING, np.int8)
    for track in distinct_values(operators.track[rows]):
        mine = np.flatnonzero(operators.track[rows] == track)
        there = np.flatnonzero((operators.track == track) & (kinds >= 0))
        if not len(there):
            continue
        at = np.searchsorted(operators.start_ns[there], operators.start_ns[rows[mine]], "right") - 1
        around = (at >= 0) & (
            operators.end_ns[there[np.maximum(at, 0)]] >= operators.end_ns[rows[mine]]
        )
        found[mine[around]] = kinds[there[at[around]]]
    return found


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
    exchanges = _announced(trace, rows)
    if owner is None and not len(exchanges[0]):
        return rows, gpu.dur_ns.take(rows)
    first, second = exchanges
    owner = np.arange(len(rows)) if owner is None else owner
    keep = owner == np.arange(len(rows))
    keep[second] = False
    end = gpu.start_ns[rows] + gpu.dur_ns[rows]
    owner[second] = first
    last = end.copy()
    np.maximum.at(last, owner, end)
    return rows[keep], (last - gpu.start_ns[rows])[keep]


def _first_copies(trace: RankTrace, rows: I64) -> I64 | None:
    """Position of the copy that begins the call of each row; a call is told by its number.

    Of every other row its own position. Kernels of other streams may begin between two copies of
    one call. None without any copy.
    """
    gpu, table = trace.group("gpu"), trace.collective_args
    category = taken(gpu.category, rows)
    names = [i for i in distinct(category) if _MEMORY in trace.text(i).lower()]
    if not names or not len(table):
        return None
    owner = np.arange(len(rows))
    is_copy = any_name(trace.strings, category, names)
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
    announcing = {i: _exchange_of(trace.text(i)) for i in distinct(taken(gpu.name, rows))}
    if not any(announcing.values()):
        return nothing, nothing
    firsts, seconds = [], []
    for track in distinct_values(gpu.track[rows]).tolist():
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


PARAMS: Final = "record_param_comms"
_LAYERS: Final = ("c10d::", "_c10d_functional::", "c10d_functional::")
_SOURCES: Final[dict[Group, str]] = {
    "gpu": "kernel",
    "cpu_ops": "cpu_op",
    "annotations": "annotation",
}
_OUTPUT_FIRST = np.array(
    [name in ("AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter") for name in TYPES]
)


class Family(Struct, frozen=True):
    """The events of one family, one row per call; ``rows`` index ``event_group`` of the trace."""

    source: str
    event_group: Group
    rows: I64
    start_ns: I64
    dur_ns: I64
    kind: I8
    args: I32
    dtype: I32  # string id of the element type, -1 where not recorded
    in_elems: I64
    out_elems: I64
    step: I64
    library: I8  # index into LIBRARIES of the communicators that it uses

    def take(self, order: npt.NDArray[np.intp]) -> Family:
        """Return the same columns with rows reordered or selected."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        taken: dict[str, Any] = {k: v[order] for k, v in values if isinstance(v, np.ndarray)}
        return replace(self, **taken)


def choose_family(trace: RankTrace, work: StepWork, classes: I8) -> Family:
    """Return the first family that has calls.

    Kernels are skipped in a trace with computation kernels whose collectives run on gloo, which has
    no kernels.

    Args:
        trace: the columns of the rank.
        work: step of each row of ``gpu``.
        classes: class of each row of ``gpu``.
    """
    has_kernels = bool((classes <= COMP).any())
    if has_kernels and ((classes == COMM).any() or not runs_on_gloo(trace)):
        return _kernels(trace, np.flatnonzero(classes == COMM), work)
    for build in (_parameters, _operators, _annotations):
        family = build(trace, work)
        if len(family.rows):
            return family
    return _kernels(trace, np.empty(0, np.int64), work)


def untimed_family(trace: RankTrace, work: StepWork) -> Family:
    """Return the communication kernels with impossible times; each starts where it was launched."""
    events = trace.group(UNTIMED)
    stated = operation_types(trace, events.args)
    by_name = {
        i: type_of_kernel(text)
        for i in distinct(events.name)
        if is_collective_kernel(text := trace.text(i))
    }
    named = per_name(trace.strings, events.name, by_name, MISSING)
    kind = np.where(stated >= 0, stated, named).astype(np.int8)
    rows = np.flatnonzero(kind >= 0)
    return replace(_family(trace, work, UNTIMED, rows, kind[rows]), source=_SOURCES["gpu"])


def api_call_times(traces: Iterable[RankTrace]) -> Iterator[I64 | None]:
    """Yield the starts of the collectives that the framework issued, None where not recorded.

    Waits for collectives are recorded in the same way and are excluded. Ranks that do the same work
    have the same records at other times: which rows are calls is found once for those in a row.
    """
    known: tuple[tuple[npt.NDArray[Any], ...], I64] | None = None
    for trace in traces:
        operators, name = trace.group("cpu_ops"), trace.strings.find(PARAMS)
        if name < 0 or not (operators.name == name).any():
            yield None
            continue
        columns = _columns_of_parameters(trace)
        if known is None or not all(map(np.array_equal, known[0], columns)):
            rows = _parameter_rows(trace)[0]
            is_told = names_operation(trace, operators.args[operators.name == name]).all()
            known = (columns, rows) if is_told else None
        else:
            rows = known[1]
        yield operators.start_ns[rows]


def _columns_of_parameters(trace: RankTrace) -> tuple[npt.NDArray[Any], ...]:
    """Return all that `_parameter_rows` looks at where every record names its operation."""
    operators, args, texts = trace.group("cpu_ops"), trace.collective_args, trace.strings
    groups = np.array(len(trace.process_groups))
    columns = operators.name, operators.args, operators.track, args.group, args.op, args.seq
    return texts.blob, texts.offsets, groups, *columns


def runs_on_gloo(trace: RankTrace) -> bool:
    """Return whether gloo performed the communication: on the CPU, without kernels."""
    return bool(backend_rows(trace, ("gloo:",)).any())


def _kernels(trace: RankTrace, rows: I64, work: StepWork) -> Family:
    gpu = trace.group("gpu")
    rows, dur_ns = joined_rows(trace, rows)
    names = taken(gpu.name, rows)
    stated = operation_types(trace, taken(gpu.args, rows))
    by_name = {i: type_of_kernel(trace.text(i)) for i in distinct(names)}
    named = per_name(trace.strings, names, by_name, OTHER)
    kind = np.where(stated >= 0, stated, named).astype(np.int8)
    libraries = {i: library_of_kernel(trace.text(i)) for i in by_name}
    library = per_name(trace.strings, names, libraries, 0)
    family = _family(trace, work, "gpu", rows, kind, step=work.ids_of(rows), dur_ns=dur_ns)
    return replace(family, library=library)


def _parameters(trace: RankTrace, work: StepWork) -> Family:
    rows, kind = _parameter_rows(trace)
    return replace(_family(trace, work, "cpu_ops", rows, kind), source=PARAMS)


def _parameter_rows(trace: RankTrace) -> tuple[I64, I8]:
    """Rows of ``record_param_comms`` that are calls, and their types.

    Old files do not name the operation. In them a call contains an annotation of its backend, is
    inside an operator, or has a tensor; a wait has none of these.
    """
    operators = trace.group("cpu_ops")
    rows = np.flatnonzero(operators.name == trace.strings.find(PARAMS))
    args = operators.args[rows]
    kind = operation_types(trace, args)
    named = names_operation(trace, args)
    if named.all():
        keep = operation_is_call(trace, args) & ~_repeats(trace, rows)
        return rows[keep], kind[keep]
    inner = type_inside(trace, operators, rows)
    outer = type_around(trace, operators, rows)
    kind = np.where(kind >= 0, kind, np.where(inner >= 0, inner, outer)).astype(np.int8)
    sized = elements_of(trace, args)[0] >= 0
    has_evidence = (inner >= 0) | (outer >= 0) | sized
    call = np.where(named, operation_is_call(trace, args), has_evidence | ~has_evidence.any())
    kind[kind < 0] = OTHER
    keep = call & ~_repeats(trace, rows)
    return rows[keep], kind[keep]


def _repeats(trace: RankTrace, rows: I64) -> Bool:
    """Mask of repeated records of one call: equal thread, group, operation and sequence number."""
    operators, args = trace.group("cpu_ops"), trace.collective_args
    same = np.zeros(len(rows), np.bool_)
    row_args = operators.args[rows]
    usable = np.flatnonzero(row_args >= 0)
    a = row_args[usable]
    kinds = (len(trace.process_groups) + 1, len(trace.strings) + 1)
    of_track = operators.track[rows[usable]].astype(np.int64) * (kinds[0] * kinds[1])
    code = of_track + (args.group[a] + 1).astype(np.int64) * kinds[1] + args.op[a]
    sequence = args.seq[a]
    order = _by_pair(code, sequence)
    code, sequence = code[order], sequence[order]
    equal = (code[1:] == code[:-1]) & (sequence[1:] == sequence[:-1]) & (sequence[1:] >= 0)
    same[usable[order[1:]]] = equal
    return same


def _by_pair(code: I64, sequence: I64) -> I64:
    """Order of pairs of numbers by the first, then by the second, then as they come."""
    codes, place = unique_inverse(code)
    low = int(sequence.min(initial=0))
    span = int(sequence.max(initial=0)) - low + 1
    if len(codes) * span > np.iinfo(np.int64).max:
        return np.asarray(np.lexsort((sequence, code)))
    return stable_order(place * span + (sequence - low))


def _operators(trace: RankTrace, work: StepWork) -> Family:
    operators = trace.group("cpu_ops")
    for layer in _LAYERS:
        names = {
            i: type_of_operation(text.removeprefix(layer))
            for i in distinct(operators.name)
            if (text := trace.text(i)).startswith(layer)
        }
        kinds = per_name(trace.strings, operators.name, names, MISSING)
        rows = np.flatnonzero((kinds >= 0) & (kinds != OTHER))
        if len(rows):
            family = _family(trace, work, "cpu_ops", rows, kinds[rows])
            return _timed_by_gloo(trace, _output_first(family))
    return _family(trace, work, "cpu_ops", np.empty(0, np.int64), np.empty(0, np.int8))


def _output_first(family: Family) -> Family:
    """Assign the one recorded size to the output where that is the operator's first argument."""
    swap = _OUTPUT_FIRST[family.kind] & (family.out_elems < 0)
    return replace(
        family,
        in_elems=np.where(swap, MISSING, family.in_elems),
        out_elems=np.where(swap, family.in_elems, family.out_elems),
    )


def _timed_by_gloo(trace: RankTrace, family: Family) -> Family:
    """Replace start, duration, input size and dtype of operators by those of gloo's annotations.

    Operators and annotations of one type are matched in order. gloo performs a reduce-scatter as
    an all-reduce, and annotates it as one. A call without annotation keeps the times of the
    operator.
    """
    annotations = trace.group("annotations")
    rows = np.flatnonzero(backend_rows(trace, ("gloo:",)))
    kinds = annotation_types(trace, annotations.name[rows])
    start, dur, given = family.start_ns.copy(), family.dur_ns.copy(), family.in_elems.copy()
    elements = elements_of(trace, annotations.args[rows])[0]
    types, dtype = dtypes_of(trace, annotations.args[rows]), family.dtype.copy()
    for kind in distinct_values(kinds):
        mine = family.kind == kind
        if TYPES[kind] == "AllReduce" and TYPES.index("ReduceScatter") not in kinds:
            mine |= family.kind == TYPES.index("ReduceScatter")
        calls, done = np.flatnonzero(mine), np.flatnonzero(kinds == kind)
        calls, done = _in_order(family.start_ns, calls, annotations.start_ns[rows], done)
        start[calls] = annotations.start_ns[rows[done]]
        dur[calls] = annotations.dur_ns[rows[done]]
        given[calls] = np.where(elements[done] >= 0, elements[done], given[calls])
        dtype[calls] = np.where(dtype[calls] >= 0, dtype[calls], types[done])
    return replace(family, start_ns=start, dur_ns=dur, in_elems=given, dtype=dtype)


def _in_order(issued_ns: I64, calls: I64, begun_ns: I64, done: I64) -> tuple[I64, I64]:
    """Pair calls and work in order; work that began before the first call has no call."""
    if not len(calls):
        return calls, done[:0]
    early = int(np.count_nonzero(begun_ns[done] < issued_ns[calls[0]]))
    done = done[early:]
    count = min(len(calls), len(done))
    return calls[:count], done[:count]


def _annotations(trace: RankTrace, work: StepWork) -> Family:
    annotations = trace.group("annotations")
    rows = np.flatnonzero(backend_rows(trace, BACKENDS))
    kinds = annotation_types(trace, annotations.name[rows])
    kinds[kinds < 0] = OTHER
    return _family(trace, work, "annotations", rows, kinds)


def _family(
    trace: RankTrace,
    work: StepWork,
    group: Group,
    rows: I64,
    kind: I8,
    *,
    step: I64 | None = None,
    dur_ns: I64 | None = None,
) -> Family:
    """Return the calls of some rows; without ``step``, that of each is told by its start.

    ``dur_ns`` are durations other than those of the events.
    """
    events = trace.group(group)
    args = taken(events.args, rows)
    table = trace.collective_args
    metadata = StatedRows(args, len(table))
    start = events.start_ns.take(rows)
    if step is None:
        ids = np.array([step.id for step in work.steps] + [OUTSIDE], np.int64)
        step = ids[covering(work.steps, start)] if work.steps else np.full(len(rows), OUTSIDE)
    return Family(
        source=_SOURCES.get(group, ""),
        event_group=group,
        rows=rows.astype(np.int64, copy=False),
        start_ns=start,
        dur_ns=events.dur_ns.take(rows) if dur_ns is None else dur_ns,
        kind=kind,
        args=args,
        dtype=metadata.values(table.dtype),
        in_elems=metadata.values(table.in_elems),
        out_elems=metadata.values(table.out_elems),
        step=step,
        library=np.zeros(len(rows), np.int8),
    )
