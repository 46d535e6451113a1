"""A family of jobs as lists of calls, of which it is known which are one collective."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from calls_by_hand import EPOCH_NS
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.collectives.matching.match import Matches, MatchInput
from ccltui.metrics.model.calls import CallRows, Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup

KINDS = ("AllReduce", "ReduceScatter", "AllGather")
Call = tuple[float, float, str, int, int, int, int, int]


class Family(Struct, frozen=True):
    """How a job is drawn: its shape, what its traces tell, and what they lack."""

    ranks: int = 8
    steps: int = 4
    per_step: int = 40
    subgroups: bool = True
    numbered: bool = True  # calls carry sequence numbers
    sized: bool = True  # calls carry their group, size and type of element
    marked: bool = True  # steps are known
    sizes: tuple[int, ...] = (1024, 4096, 65536)
    dropped: float = 0.0  # share of the calls of each rank that its file lacks
    edges: bool = True  # windows open late and close early on some ranks
    offset_ns: float = 1e9
    drift: float = 50e-6
    scatter_ns: float = 30e3


class DrawnJob(Struct, frozen=True):
    """The calls, and the truth: which collective each of them is, and on whom all are."""

    inputs: list[MatchInput]
    groups: list[CommGroup]
    truth: dict[str, list[int]]
    complete: set[int]
    offsets_ns: npt.NDArray[np.int64]
    streams: dict[str, npt.NDArray[np.int64]]  # of each call: one a kind of group
    drifts: npt.NDArray[np.float64]  # of each rank's clock, a share of time

    def score(self, matches: Matches) -> tuple[int, list[int]]:
        """Right ones of the complete collectives, and wrong ones by confidence."""
        right, wrong = 0, [0, 0, 0]
        for match in matches.groups:
            for row in np.flatnonzero(match.usable):
                told = {
                    self.truth[label][place]
                    for label, place in zip(match.labels, match.rows[row], strict=True)
                }
                if len(told) == 1:
                    right += told <= self.complete
                else:
                    wrong[match.confidence[row]] += 1
        return right, wrong


def draw(family: Family, seed: int) -> DrawnJob:
    """One job of the family; the same one for the same seed."""
    rng = np.random.default_rng(seed)
    groups = _groups(family)
    offsets = rng.integers(-int(family.offset_ns), int(family.offset_ns) + 1, family.ranks)
    drifts = rng.uniform(-family.drift, family.drift, family.ranks)
    offsets[0], drifts[0] = 0, 0.0
    calls = _performed(family, groups, rng)
    inputs, truth, streams = [], {}, {}
    for rank in range(family.ranks):
        kept = _recorded(family, calls[rank], rng)
        truth[str(rank)] = [call[7] for call in kept]
        streams[str(rank)] = np.array([_stream(family, call[4]) for call in kept], np.int64)
        columns = _columns(family, kept, int(offsets[rank]), float(drifts[rank]))
        inputs.append(MatchInput(str(rank), rank, "", columns))
    held: dict[int, int] = {}
    for numbers in truth.values():
        for number in numbers:
            held[number] = held.get(number, 0) + 1
    members = {call[7]: len(groups[call[4]]) for own in calls.values() for call in own}
    complete = {number for number, count in held.items() if count == members[number]}
    known = [
        CommGroup(ranks, str(index), "", label=str(index), size=len(ranks))
        for index, ranks in enumerate(groups)
    ]
    return DrawnJob(
        inputs, known if family.sized else [], truth, complete, offsets, streams, drifts
    )


def _stream(family: Family, group: int) -> int:
    """All ranks have one for the group of all, one for pairs and one for every other rank."""
    return 20 + (group > 0) + (group > family.ranks // 2)


def _groups(family: Family) -> list[tuple[int, ...]]:
    groups = [tuple(range(family.ranks))]
    if family.subgroups:
        groups += [(rank, rank + 1) for rank in range(0, family.ranks, 2)]
        if family.ranks >= 4:
            groups += [tuple(range(first, family.ranks, 2)) for first in range(2)]
    return groups


def _performed(
    family: Family, groups: list[tuple[int, ...]], rng: np.random.Generator
) -> dict[int, list[Call]]:
    now = np.zeros(family.ranks)
    calls: dict[int, list[Call]] = {rank: [] for rank in range(family.ranks)}
    seqs = [0] * len(groups)
    for step in range(family.steps):
        now += rng.uniform(1e6, 3e6)
        for nth in range(family.per_step):
            index = int(rng.integers(len(groups)))
            kind, size = KINDS[int(rng.integers(3))], int(rng.choice(family.sizes))
            work = rng.uniform(20e3, 400e3)
            for rank in groups[index]:
                late = rng.uniform(0, 3e6) if rng.random() < 0.02 else 0.0
                now[rank] += work + rng.exponential(20e3) + late
            end = max(now[rank] for rank in groups[index]) + rng.uniform(10e3, 200e3)
            for rank in groups[index]:
                own_end = end + rng.uniform(0, family.scatter_ns)
                number = step * family.per_step + nth
                calls[rank].append(
                    (now[rank], own_end, kind, size, index, seqs[index], step, number)
                )
                now[rank] = own_end
            seqs[index] += 1
    return calls


def _recorded(family: Family, calls: list[Call], rng: np.random.Generator) -> list[Call]:
    head, tail = (
        int(rng.integers(0, 6)) if family.edges and rng.random() < 0.5 else 0 for _ in range(2)
    )
    inside = calls[head : len(calls) - tail]
    return [call for call in inside if rng.random() >= family.dropped]


def _columns(family: Family, calls: list[Call], offset_ns: int, drift: float) -> Calls:
    count = len(calls)

    def clock(times: list[float]) -> npt.NDArray[np.int64]:
        own = np.rint(np.array(times) * (1 + drift)).astype(np.int64)
        return np.asarray(EPOCH_NS + own + offset_ns)

    start, end = clock([call[0] for call in calls]), clock([call[1] for call in calls])
    none = np.full(count, -1, np.int64)
    bare = Calls(
        source="kernel",
        start_ns=start,
        dur_ns=end - start,
        kind=np.array([TYPES.index(call[2]) for call in calls], np.int8),
        group=np.full(count, -1, np.int32),
        message_bytes=none,
        wire_bytes=none,
        in_elems=none,
        out_elems=none,
        dtype=np.full(count, -1, np.int32),
        seq=none,
        comms_id=np.zeros(count, np.uint64),
        step=np.array([call[6] for call in calls], np.int64) if family.marked else none,
        src=none,
        dst=none,
        rows=CallRows("gpu", np.arange(count)),
        has_metadata=np.full(count, family.sized),
        library=np.zeros(count, np.int8),
    )
    if not family.sized:
        return bare
    size = np.array([call[3] for call in calls], np.int64)
    return replace(
        bare,
        group=np.array([call[4] for call in calls], np.int32),
        in_elems=size,
        out_elems=size,
        dtype=np.ones(count, np.int32),
        seq=np.array([call[5] for call in calls], np.int64) if family.numbered else none,
    )
