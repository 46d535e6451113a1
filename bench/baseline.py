"""Build the same columns in plain Python and numpy from a document decoded by a JSON library.

The baseline for a reader without a scanner of its own, optimised: one pass over the events, bound
methods, interned texts, one conversion to arrays, one sort. It does less than ccltui: no begin and
end pairs, no notes on dropped events, no sizes from operator inputs, no join of kernels to the
calls that launched them, and times are doubles, as ``json`` returns them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bench.repeat import Counts

_GROUP_OF_CATEGORY = {
    "kernel": "gpu",
    "gpu_memcpy": "gpu",
    "gpu_memset": "gpu",
    "memcpy": "gpu",
    "memset": "gpu",
    "gpu_user_annotation": "gpu_annotations",
    "cuda_sync": "gpu_sync",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "runtime": "runtime",
    "cpu_op": "cpu_ops",
    "operator": "cpu_ops",
    "user_annotation": "annotations",
    "python_function": "python",
}
_ON_DEVICE = frozenset({"gpu", "gpu_annotations", "gpu_sync"})
_MISSING = -1
_NO_ARGS: dict[str, Any] = {}

COLLECTIVE_KEYS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Process Group Name",
    "Process Group Ranks",
    "Group size",
    "Seq",
)


class BaselineColumns(Struct, frozen=True):
    """Columns of a rank: arrays by group and column name.

    Ids index ``strings`` and ``tracks`` in order of appearance; ``args`` is a row of
    ``collectives``, which holds the values of ``COLLECTIVE_KEYS``, with texts as ids.
    """

    events: dict[str, dict[str, npt.NDArray[Any]]]
    strings: list[str]
    tracks: list[tuple[Any, Any]]
    collectives: npt.NDArray[np.int64]
    counts: Counts


def columns(document: dict[str, Any]) -> BaselineColumns:
    """Return the columns of a decoded trace, sorted by (start, longer first) in each group."""
    strings: dict[Any, int] = {}
    tracks: dict[tuple[Any, Any], int] = {}
    groups: dict[Any, str] = {}
    collectives: list[list[int]] = []
    start: list[float] = []
    duration: list[float] = []
    numbers: list[int] = []  # seven per row: one flat list is faster than seven lists
    group_codes: list[int] = []
    codes: dict[str, int] = {}
    text_id, track_id, add = strings.setdefault, tracks.setdefault, numbers.extend
    timed = 0
    events = document["traceEvents"]
    for event in events:
        if event["ph"] != "X":
            continue
        category = event.get("cat")
        group = groups.get(category)
        if group is None:
            group = groups[category] = _group(category)
        args = event.get("args", _NO_ARGS)
        get = args.get
        if group in _ON_DEVICE:
            track = (get("device", event["pid"]), get("stream", event["tid"]))
        else:
            track = (event["pid"], event["tid"])
        row = _MISSING
        if "Collective name" in args or "In msg nelems" in args:
            row = len(collectives)
            collectives.append(_collective(args, strings))
        start.append(event["ts"])
        duration.append(event["dur"])
        group_codes.append(codes.setdefault(group, len(codes)))
        add(
            (
                text_id(event["name"], len(strings)),
                text_id(category, len(strings)),
                track_id(track, len(tracks)),
                get("correlation", 0) or _MISSING,
                get("External id", _MISSING),
                row,
                get("bytes", _MISSING),
            )
        )
        timed += category != "Trace"
    base = document.get("baseTimeNanoseconds", 0)
    return BaselineColumns(
        events=_by_group(codes, group_codes, _nanoseconds(start) + base, duration, numbers),
        strings=list(strings),
        tracks=list(tracks),
        collectives=np.array(collectives, np.int64).reshape(-1, len(COLLECTIVE_KEYS)),
        counts=Counts(len(events), timed),
    )


def _group(category: object) -> str:
    return _GROUP_OF_CATEGORY.get(str(category).lower(), "other")


def _collective(args: dict[str, Any], strings: dict[Any, int]) -> list[int]:
    row = []
    for key in COLLECTIVE_KEYS:
        value = args.get(key, _MISSING)
        row.append(value if isinstance(value, int) else strings.setdefault(value, len(strings)))
    return row


def _nanoseconds(microseconds: list[float]) -> npt.NDArray[np.int64]:
    """Convert to ns: whole microseconds exactly, others with the precision of their double."""
    times: npt.NDArray[Any] = np.array(microseconds)
    whole = times.astype(np.int64)
    exact: npt.NDArray[np.int64] = whole * 1000
    if times.dtype.kind == "f":
        exact += np.rint((times - whole) * 1000).astype(np.int64)
    return exact


def _by_group(
    codes: dict[str, int],
    group_codes: list[int],
    start_ns: npt.NDArray[np.int64],
    duration: list[float],
    numbers: list[int],
) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Split rows into groups, sort them, and convert columns to their dtypes."""
    dur_ns = _nanoseconds(duration)
    table = np.array(numbers, np.int64).reshape(-1, 7)
    code_of = np.array(group_codes, np.int8)
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for group, code in codes.items():
        rows = np.flatnonzero(code_of == code)
        rows = rows[np.lexsort((-dur_ns[rows], start_ns[rows]))]
        part = table[rows]
        groups[group] = {
            "start_ns": start_ns[rows],
            "dur_ns": dur_ns[rows],
            "name": part[:, 0].astype(np.int32),
            "category": part[:, 1].astype(np.int32),
            "track": part[:, 2].astype(np.int32),
            "correlation": part[:, 3].copy(),
            "external_id": part[:, 4].copy(),
            "args": part[:, 5].astype(np.int32),
            "bytes": part[:, 6].copy(),
        }
    return groups
