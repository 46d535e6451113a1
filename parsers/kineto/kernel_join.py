"""Copy collective arguments from calls to the communication kernels that they launched."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING, CollectiveArgs, Events, Group, Strings
from ccltui.parsers.communication_kernels import communication_kernel

_COPY_BETWEEN_DEVICES: Final = re.compile(r"memcpy (?:ptop|dtod|peer)", re.IGNORECASE)
_WAIT: Final = "wait"  # name in record_param_comms of a synchronisation, which is no collective


def join_kernels(events: dict[Group, Events], args: CollectiveArgs, strings: Strings) -> int:
    """Fill missing arguments of communication kernels from the calls that launched them.

    The call is found by External id (the operator that was running), else it is the innermost
    call that encloses the launch on its thread. ``events["gpu"].args`` is changed in place.

    Returns:
        The number of kernels that were filled.
    """
    gpu = events.get("gpu")
    if gpu is None or not len(args):
        return 0
    calls = _calls_of(events, args, strings)
    unresolved = _unresolved(gpu, strings, _is_communication)
    _join(gpu, unresolved, calls, events.get("runtime"))
    copies = _unresolved(gpu, strings, _is_copy_between_devices)
    if len(copies):
        _join_copies(gpu, copies, calls, events.get("runtime"), args)
    unresolved = np.concatenate((unresolved, copies))
    return int(np.count_nonzero(gpu.args[unresolved] != MISSING))


def _is_communication(name: str) -> bool:
    return communication_kernel(name) is not None


def _is_copy_between_devices(name: str) -> bool:
    return _COPY_BETWEEN_DEVICES.match(name) is not None


def _unresolved(gpu: Events, strings: Strings, is_meant: Callable[[str], bool]) -> I64:
    """Return the rows without arguments whose name is meant."""
    used = np.flatnonzero(np.bincount(gpu.name[gpu.name >= 0], minlength=1))
    chosen = np.zeros(len(strings) + 1, np.bool_)  # the last entry serves the id -1
    chosen[[i for i in used.tolist() if i < len(strings) and is_meant(strings[i])]] = True
    return np.flatnonzero((gpu.args == MISSING) & chosen[gpu.name])


def _calls_of(
    events: dict[Group, Events], args: CollectiveArgs, strings: Strings
) -> tuple[Events, Events]:
    """Return operators and annotations that have arguments of a collective, without waits."""
    wait = strings.find(_WAIT)
    waits = args.op == wait if wait >= 0 else np.zeros(len(args), np.bool_)
    return _calls(events.get("cpu_ops"), waits), _calls(events.get("annotations"), waits)


def _join(gpu: Events, rows: I64, calls: tuple[Events, Events], launches: Events | None) -> None:
    """Fill the arguments of rows, from operators first, by External id before launches."""
    for call in calls:
        _join_by_external_id(gpu, rows, call)
    if launches is not None:
        for call in calls:
            _join_by_launch(gpu, rows, launches, call)


def _join_copies(
    gpu: Events,
    copies: I64,
    calls: tuple[Events, Events],
    launches: Events | None,
    args: CollectiveArgs,
) -> None:
    """Fill the arguments of copies that execute a collective in place of a kernel.

    NCCL's copy engine, asynchronous tensor parallelism and Userbuffers move data by copies between
    devices on streams of their own. Copies inside a call that also has a kernel only prepare its
    buffers, and so does a copy on a stream of other work; in a group of one rank a copy moves
    nothing to another device.
    """
    is_resolved = gpu.args != MISSING
    with_kernel = np.zeros(len(args) + 1, np.bool_)
    with_kernel[gpu.args[is_resolved]] = True
    foreign = np.ones(len(gpu), np.bool_)
    foreign[copies] = False
    busy = np.zeros(int(gpu.track.max(initial=0)) + 2, np.bool_)
    busy[gpu.track[foreign & ~is_resolved]] = True
    copies = copies[~busy[gpu.track[copies]]]
    _join(gpu, copies, calls, launches)
    found = gpu.args[copies]
    alone = np.append(args.group_size, MISSING)[found] == 1
    gpu.args[copies[with_kernel[found] | alone]] = MISSING


def _calls(events: Events | None, waits: Bool) -> Events:
    """Return the events that have arguments of a collective, without waits."""
    if events is None:
        return Events.empty()
    described = events.args >= 0
    described[described] = ~waits[events.args[described]]
    return events.take(described)


def _join_by_external_id(gpu: Events, unresolved: I64, calls: Events) -> None:
    # Old files repeat the correlation id of a kernel as its External id, which then names no
    # operator.
    rows = unresolved[
        (gpu.args[unresolved] == MISSING)
        & (gpu.external_id[unresolved] != MISSING)
        & (gpu.external_id[unresolved] != gpu.correlation[unresolved])
    ]
    usable = np.flatnonzero(calls.external_id != MISSING)
    if not len(usable) or not len(rows):
        return
    order = usable[np.argsort(calls.external_id[usable], kind="stable")]
    ids = calls.external_id[order]
    place = np.minimum(np.searchsorted(ids, gpu.external_id[rows]), len(ids) - 1)
    hit = ids[place] == gpu.external_id[rows]
    gpu.args[rows[hit]] = calls.args[order[place[hit]]]


def _join_by_launch(gpu: Events, unresolved: I64, launches: Events, calls: Events) -> None:
    rows = unresolved[(gpu.args[unresolved] == MISSING) & (gpu.correlation[unresolved] != MISSING)]
    if not len(rows) or not len(calls) or not len(launches):
        return
    order = np.argsort(launches.correlation, kind="stable")
    ids = launches.correlation[order]
    place = np.minimum(np.searchsorted(ids, gpu.correlation[rows]), len(ids) - 1)
    found = ids[place] == gpu.correlation[rows]
    rows, launch = rows[found], order[place[found]]
    for track in np.unique(launches.track[launch]):
        on_track = launches.track[launch] == track
        inner = calls.take(calls.track == track)
        call = _innermost(inner, launches.start_ns[launch[on_track]])
        known = call >= 0
        gpu.args[rows[on_track][known]] = inner.args[call[known]]


def _innermost(calls: Events, times: I64) -> I64:
    """Return the row of the latest call before each time, -1 if it does not enclose the time."""
    if not len(calls):
        return np.full(len(times), MISSING)
    latest = np.searchsorted(calls.start_ns, times, side="right") - 1
    encloses = (latest >= 0) & (calls.end_ns[np.maximum(latest, 0)] >= times)
    return np.where(encloses, latest, MISSING)
