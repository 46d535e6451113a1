"""Type and size of recorded calls, from their metadata and from the events in or around them."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.model.classify import any_name, distinct, is_call, per_name, type_of_operation
from ccltui.parsers.array_types import I8, I32, I64, Bool
from ccltui.parsers.columns import MISSING, Events, RankTrace

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


def stated(column: npt.NDArray[_Kind], args: I32, nothing: int = MISSING) -> npt.NDArray[_Kind]:
    """Return the value of a metadata column for each call, ``nothing`` without metadata."""
    if not len(column):
        return np.full(len(args), nothing, column.dtype)
    found = column.take(args)
    found[args < 0] = nothing
    return found


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
