"""Find out whether a trace file holds the events of several ranks, and which rows are whose.

The profiler writes one file for each process. Programs merge such files into one: they rename the
processes ("[TP00-DP00] 4000", 104001, "Rank 1"), or only append the lists of events. A rank is then
a process of the host with the devices that it launched work on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING, Events, Group, RankSource
from ccltui.parsers.kineto.rank_builder import Columns
from ccltui.parsers.safe_text import listed, printable

Unit = tuple[str, int]
"""Rows of one device: the pid that they have, and the number of the device."""

ONE_FILE_A_RANK: Final = "profile to one file per rank"
OPEN_THE_FILES: Final = "open the files of the ranks"
"""What to do about a file whose ranks cannot be told apart."""
_STEP: Final = "ProfilerStep#"
_SAMPLE: Final = 2000
"""Kernels of a device that are looked up among the launches of each process."""
_BEFORE_LAUNCH_NS: Final = 1_000_000
"""Kernels of real traces begin at most 0.1 ms before the call that launches them."""
_LEAST_SHARE: Final = 0.5
"""Share of a device's kernels whose launches its process has: the first ones may lack theirs."""
_RANK_LABEL: Final = re.compile(r"(?<![a-z])rank[\s_:#=-]*(\d{1,6})(?!\d)", re.IGNORECASE)
_BRACKETS: Final = re.compile(r"\[([^\[\]]+)\]")
_BEFORE_NUMBER: Final = re.compile(r"(.+?)[\s:_/.-]+\d+")
_AFTER_NUMBER: Final = re.compile(r"\d+[\s:_/.-]+(.+)")
_ANY: Final = re.compile(".*", re.DOTALL)
_COORDINATE: Final = re.compile(r"(?<![a-z])(dp|pp|tp|ep|cp)[\s_=-]?(\d{1,6})(?!\d)", re.IGNORECASE)


class NotSeparableError(Exception):
    """The file holds events of several ranks that cannot be told apart; the text says which."""


class RankPart(Struct, frozen=True):
    """The rows of one rank: pids of the host, devices, and what the merged file calls them."""

    name: str
    hosts: frozenset[str]
    devices: frozenset[Unit]
    rank: int | None = None
    rank_source: RankSource = "none"


class _Facts(Struct, frozen=True):
    """What tells processes apart; tracks are in the order in which the file shows them.

    Attributes:
        hosts: pids that launch work, or that have steps or collectives where nothing is launched.
        units: devices with work, in the order of their pids and numbers.
        steps: names of the steps of each pid.
    """

    columns: Columns
    hosts: tuple[str, ...]
    units: tuple[Unit, ...]
    steps: Mapping[str, frozenset[int]]

    def events(self, group: Group) -> Events:
        return self.columns.events.get(group) or Events.empty()

    def tracks_of(self, kind: str, is_meant: Callable[[int], bool]) -> Bool:
        tracks = self.columns.tracks
        return np.array([t.kind == kind and is_meant(i) for i, t in enumerate(tracks)], np.bool_)

    def launched_rows(self, unit: Unit) -> I64:
        """Rows of the device's kernels and copies that state a launch."""
        columns, gpu = self.columns, self.events("gpu")
        own = self.tracks_of(
            "stream", lambda i: (columns.processes[i], columns.tracks[i].device) == unit
        )
        return np.flatnonzero(own[gpu.track] & (gpu.correlation != MISSING))


def ranks_in(columns: Columns, *, is_damaged: bool) -> tuple[RankPart, ...]:
    """Return the ranks of a file, () where all of its rows are of one.

    Args:
        columns: The columns of the file, with the pid of each track.
        is_damaged: Whether text of the file is no valid event, as where two processes wrote it.

    Raises:
        NotSeparableError: The events are of several ranks, and it cannot be told which is whose.
    """
    facts = _facts_of(columns)
    if len(facts.hosts) < 2:
        return _with_one_process(facts, is_damaged=is_damaged)
    _refuse_interleaved(facts, is_damaged=is_damaged)
    for label in _LABELS:
        parts = _labelled(facts, partial(label.of, names=columns.labels))
        if parts:
            return _numbered(parts)
    return _in_order(_by_launches(facts))


def has_several_devices(columns: Columns) -> tuple[int, ...]:
    """Return the numbers of the devices with work, () for fewer than two."""
    numbers = sorted({number for _, number in _units_of(columns) if number != MISSING})
    return tuple(numbers) if len(numbers) > 1 else ()


def ranks_hosts(columns: Columns) -> tuple[str, ...]:
    """Return the pids of the host that launch work, or have steps or collectives."""
    return _facts_of(columns).hosts


def _facts_of(columns: Columns) -> _Facts:
    launching = _pids_of(columns, columns.events.get("runtime"))
    steps: dict[str, frozenset[int]] = {}
    annotations = columns.events.get("annotations")
    if annotations is not None:
        steps = _steps_of(columns, annotations)
    hosts = launching
    if not launching:
        calls = columns.events.get("cpu_ops")
        described = None if calls is None else calls.take(calls.args >= 0)
        hosts = {**dict.fromkeys(steps), **_pids_of(columns, described)}
    ordered = sorted(hosts, key=_natural)
    return _Facts(columns, tuple(ordered), _units_of(columns), steps)


def _pids_of(columns: Columns, events: Events | None) -> dict[str, None]:
    if events is None or not len(events):
        return {}
    used = np.flatnonzero(np.bincount(events.track, minlength=len(columns.tracks)))
    return dict.fromkeys(columns.tracks[track].pid for track in used.tolist())


def _steps_of(columns: Columns, annotations: Events) -> dict[str, frozenset[int]]:
    names = np.flatnonzero(np.bincount(annotations.name[annotations.name >= 0], minlength=1))
    of_steps = [name for name in names.tolist() if columns.strings[name].startswith(_STEP)]
    rows = np.flatnonzero(np.isin(annotations.name, of_steps))
    found: dict[str, set[int]] = {}
    for track, name in set(
        zip(annotations.track[rows].tolist(), annotations.name[rows].tolist(), strict=True)
    ):
        found.setdefault(columns.tracks[track].pid, set()).add(name)
    return {pid: frozenset(steps) for pid, steps in found.items()}


def _units_of(columns: Columns) -> tuple[Unit, ...]:
    gpu = columns.events.get("gpu")
    if gpu is None or not len(gpu):
        return ()
    used = np.flatnonzero(np.bincount(gpu.track, minlength=len(columns.tracks)))
    units = {(columns.processes[t], columns.tracks[t].device) for t in used.tolist()}
    return tuple(sorted(units, key=lambda unit: (_natural(unit[0]), unit[1])))


def _natural(pid: str) -> tuple[object, ...]:
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d{1,18})", pid)
        if part
    )


def _with_one_process(facts: _Facts, *, is_damaged: bool) -> tuple[RankPart, ...]:
    """Refuse devices of several processes under one pid; split those of which no host is known."""
    if len(facts.units) < 2:
        return ()
    if not facts.hosts:
        names = [printable(pid) for pid, _ in facts.units]
        renamed = any(pid != str(number) for pid, number in facts.units)
        if (renamed and len(set(names)) == len(names)) or _repeats_correlations(facts):
            parts = [
                RankPart(f"process {printable(unit[0])}", frozenset(), frozenset({unit}))
                for unit in facts.units
            ]
            return _numbered(_named(parts))
        return ()
    launches = _Launches.of(facts)
    shares = [launches.share(facts.hosts[0], unit) for unit in facts.units]
    if is_damaged and min(shares) < _LEAST_SHARE:
        devices = listed([str(number) for _, number in facts.units])
        raise NotSeparableError(
            f"several ranks wrote into this file (devices {devices}, and text that is no valid "
            f"event): {ONE_FILE_A_RANK}"
        )
    if _repeats_correlations(facts):
        raise NotSeparableError(
            f"events of several ranks lie in this file under one process number "
            f"({printable(facts.hosts[0])}) and cannot be separated: {OPEN_THE_FILES}"
        )
    return ()


def _repeats_correlations(facts: _Facts) -> bool:
    """Whether devices share numbers of launches, which are unique in a process."""
    gpu = facts.events("gpu")
    # Rows at the head of the file: the same launches of each rank lie there.
    heads = [facts.launched_rows(unit)[: 10 * _SAMPLE] for unit in facts.units]
    numbers = [set(gpu.correlation[rows].tolist()) for rows in heads]
    total = sum(map(len, numbers))
    repeated = total - len(set().union(*numbers))
    return repeated > max(1, _LEAST_SHARE * (total - max(map(len, numbers))))


def _refuse_interleaved(facts: _Facts, *, is_damaged: bool) -> None:
    """Refuse files that several processes wrote at once: each lacks what the other overwrote."""
    names = listed([printable(pid) for pid in facts.hosts])
    head = f"{_count(len(facts.hosts))} ranks wrote into this file (processes {names}"
    if is_damaged:
        raise NotSeparableError(f"{head}, and text that is no valid event): {ONE_FILE_A_RANK}")
    steps = [facts.steps.get(pid, frozenset()) for pid in facts.hosts]
    if any(steps) and all(not one & other for one, other in itertools.combinations(steps, 2)):
        raise NotSeparableError(f"{head}, which have no step in common): {ONE_FILE_A_RANK}")


def _count(number: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(number, str(number))


def _rank_of(match: re.Match[str]) -> str:
    return f"rank {int(match[1])}"


def _group(match: re.Match[str]) -> str:
    return match[1]


class _Label(NamedTuple):
    """A way in which the pid of a process, or its name, states the rank that it belongs to."""

    find: Callable[[str], re.Match[str] | None]
    text_of: Callable[[re.Match[str]], str]
    is_of_name: bool = False

    def of(self, pid: str, names: Mapping[tuple[str, str], str]) -> str | None:
        match = self.find(names.get((pid, ""), "") if self.is_of_name else pid)
        return None if match is None else self.text_of(match)


_LABELS: Final = (
    _Label(_RANK_LABEL.search, _rank_of),
    _Label(_BRACKETS.search, _group),
    _Label(_RANK_LABEL.search, _rank_of, is_of_name=True),
    _Label(_BEFORE_NUMBER.fullmatch, _group),
    _Label(_AFTER_NUMBER.fullmatch, _group),
    _Label(_ANY.fullmatch, lambda match: f"process {match[0]}"),
)
"""The most telling first."""


def _labelled(facts: _Facts, label_of: Callable[[str], str | None]) -> list[RankPart]:
    """Return the ranks by labels, [] unless every process and device has that of a process."""
    hosts: dict[str, set[str]] = {}
    for pid in facts.hosts:
        label = label_of(pid)
        if label is None:
            return []
        hosts.setdefault(label, set()).add(pid)
    devices: dict[str, set[Unit]] = {label: set() for label in hosts}
    for unit in facts.units:
        label = label_of(unit[0])
        if label not in devices or label is None:
            return []
        devices[label].add(unit)
    if len(hosts) < 2 or (not facts.units and label_of("0") is not None):
        return []
    if facts.units and not all(devices.values()):
        return []
    for track in facts.columns.tracks:  # further processes of a rank, as that of the profiler
        label = label_of(track.pid) if track.kind == "thread" else None
        if label in hosts and label is not None:
            hosts[label].add(track.pid)
    return [
        RankPart(printable(label), frozenset(pids), frozenset(devices[label]))
        for label, pids in hosts.items()
    ]


def _numbered(parts: Sequence[RankPart]) -> tuple[RankPart, ...]:
    """Order parts by what their names say, and give them the ranks that these state."""
    stated = [_stated_rank(part.name) for part in parts]
    if None not in stated and len(set(stated)) == len(parts):
        return tuple(
            _with_rank(part, rank)
            for rank, part in sorted(zip(stated, parts, strict=True), key=lambda one: one[0] or 0)
        )
    places = [_coordinates(part.name) for part in parts]
    varying = [name for name in _OUTER_FIRST if len({place.get(name, 0) for place in places}) > 1]
    if not varying:
        return _in_order(parts)
    keys = [tuple(place.get(name, 0) for name in varying) for place in places]
    order = sorted(range(len(parts)), key=lambda index: keys[index])
    inner = [place.get("tp", 0) for place in places]
    if set(varying) <= {"tp", "ep", "dp"} and len(set(inner)) == len(parts):
        # Of one pipeline stage the rank is the number among the tensor-parallel ranks, which
        # attention and experts divide among themselves.
        return tuple(_with_rank(parts[i], inner[i]) for i in sorted(order, key=lambda i: inner[i]))
    return _by_order([parts[index] for index in order])


_OUTER_FIRST: Final = ("dp", "pp", "cp", "ep", "tp")


def _with_rank(part: RankPart, rank: int | None, source: RankSource = "process label") -> RankPart:
    return RankPart(part.name, part.hosts, part.devices, rank, source)


def _stated_rank(name: str) -> int | None:
    match = _RANK_LABEL.search(name)
    return None if match is None else int(match[1])


def _coordinates(name: str) -> dict[str, int]:
    return {match[1].lower(): int(match[2]) for match in _COORDINATE.finditer(name)}


def _in_order(parts: Sequence[RankPart]) -> tuple[RankPart, ...]:
    """Number parts by their devices where each has its own, else in the order of processes."""
    devices = [min((number for _, number in part.devices), default=MISSING) for part in parts]
    if MISSING in devices or len(set(devices)) < len(parts):
        return _by_order(parts)
    ordered = sorted(zip(devices, parts, strict=True), key=lambda pair: pair[0])
    return tuple(_with_rank(part, number, "order of devices") for number, part in ordered)


def _by_order(parts: Sequence[RankPart]) -> tuple[RankPart, ...]:
    return tuple(
        _with_rank(part, number, "order of processes") for number, part in enumerate(parts)
    )


def _named(parts: Sequence[RankPart]) -> list[RankPart]:
    """Name parts after the labels in their pids, where all of them have one."""
    for label in _LABELS[:2]:
        labels = [label.of(next(iter(part.devices))[0], {}) for part in parts]
        if None not in labels and len(set(labels)) == len(parts):
            return [
                RankPart(printable(text or ""), part.hosts, part.devices)
                for text, part in zip(labels, parts, strict=True)
            ]
    return list(parts)


class _Launches:
    """Launches of each process by their number."""

    def __init__(self, facts: _Facts, numbers: dict[str, I64], starts: dict[str, I64]) -> None:
        self._facts = facts
        self._numbers = numbers
        self._starts = starts

    @classmethod
    def of(cls, facts: _Facts) -> _Launches:
        runtime = facts.events("runtime")
        tracks = facts.columns.tracks
        numbers: dict[str, I64] = {}
        starts: dict[str, I64] = {}
        for pid in facts.hosts:
            own = facts.tracks_of("thread", lambda i, pid=pid: tracks[i].pid == pid)  # type: ignore[misc]
            rows = np.flatnonzero(own[runtime.track] & (runtime.correlation != MISSING))
            order = rows[np.argsort(runtime.correlation[rows], kind="stable")]
            numbers[pid], starts[pid] = runtime.correlation[order], runtime.start_ns[order]
        return cls(facts, numbers, starts)

    def share(self, pid: str, unit: Unit) -> float:
        """Share of a device's kernels that the process launched, by number and time."""
        gpu = self._facts.events("gpu")
        rows = self._facts.launched_rows(unit)
        rows = rows[:: max(len(rows) // _SAMPLE, 1)]
        numbers = self._numbers[pid]
        if not len(rows) or not len(numbers):
            return 0.0
        place = np.minimum(np.searchsorted(numbers, gpu.correlation[rows]), len(numbers) - 1)
        hit = numbers[place] == gpu.correlation[rows]
        hit &= gpu.start_ns[rows] >= self._starts[pid][place] - _BEFORE_LAUNCH_NS
        return float(np.mean(hit))


def _by_launches(facts: _Facts) -> list[RankPart]:
    """Give each device to the process that launched its work.

    The same program numbers its launches alike in every rank, so that often several processes may
    have launched them. Processes and devices then correspond in the order of their numbers, as
    programs that merge add the same to both, and as launchers start the ranks of a host.
    """
    hosts, units = facts.hosts, facts.units
    if not units:
        return [RankPart(f"process {printable(p)}", frozenset({p}), frozenset()) for p in hosts]
    launches = _Launches.of(facts)
    fits = {(pid, unit): launches.share(pid, unit) for pid in hosts for unit in units}
    owners = {unit: [pid for pid in hosts if fits[pid, unit] >= _LEAST_SHARE] for unit in units}
    if all(len(pids) == 1 for pids in owners.values()):
        chosen = {unit: pids[0] for unit, pids in owners.items()}
    elif len(hosts) == len(units) and all(
        pid in owners[unit] for pid, unit in zip(hosts, units, strict=True)
    ):
        chosen = dict(zip(units, hosts, strict=True))
    else:
        chosen = {}
    if set(chosen.values()) != set(hosts):
        names = listed([printable(pid) for pid in hosts])
        devices = listed([str(number) for number in sorted({number for _, number in units})])
        raise NotSeparableError(
            f"events of several ranks lie in this file (processes {names}), and it is not known "
            f"which of them used device {devices}: {OPEN_THE_FILES}"
        )
    return [
        RankPart(
            f"process {printable(pid)}",
            frozenset({pid}),
            frozenset(unit for unit, owner in chosen.items() if owner == pid),
        )
        for pid in hosts
    ]
