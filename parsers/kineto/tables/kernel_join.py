"""Copy collective arguments from calls to the communication kernels that they launched."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING, CollectiveArgs, Events, Group, Strings

_COMMUNICATION_KERNEL: Final = re.compile(
    r"nccl|rccl|hccl|mscclpp|nvshmem|deep_ep|all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE
)
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
    is_communication = np.fromiter(
        (_COMMUNICATION_KERNEL.search(text) is not None for text in strings), bool
    )
    unresolved = np.flatnonzero(
        (gpu.args == MISSING) & (gpu.name >= 0) & is_communication[np.maximum(gpu.name, 0)]
    )
    if not len(unresolved):
        return 0
    waits = (
        args.op == strings.find(_WAIT) if strings.find(_WAIT) >= 0 else np.zeros(len(args), bool)
    )
    calls = [
        _calls(events.get("annotations"), waits),
        _calls(events.get("cpu_ops"), waits),
    ]
    for call in calls[::-1]:
        _join_by_external_id(gpu, unresolved, call)
    launches = events.get("runtime")
    for call in calls[::-1]:
        if launches is not None:
            _join_by_launch(gpu, unresolved, launches, call)
    return int(np.count_nonzero(gpu.args[unresolved] != MISSING))


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
