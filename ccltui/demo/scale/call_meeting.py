"""Calls of a job whose members are arrays of ranks: when all have arrived, and when they end."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ccltui.demo.program import Communicate
from ccltui.demo.simulate import wire_bytes
from ccltui.demo.spec import Spec
from ccltui.demo.topology import Topology

Times = NDArray[np.int64]
Line = tuple[str, bool]
"""Dimension of a group, and whether its transfers between two ranks are meant."""

_AXES = {"tp": 3, "dp_shard": 2, "ep": 2, "dp_replicate": 1}
"""Axis of the grid (stage, replica, shard, tensor-parallel index) along which a group lies."""


class Record(Struct, eq=False):
    """A call on the ranks of a lane; ``start`` and ``end`` are known once it is resolved.

    Attributes:
        ranks: The ranks.
        ready: Earliest starts, one a rank.
        after: Records whose ends it waits for.
        line: Of the call.
        number: Place among the calls of the line since the start.
    """

    ranks: NDArray[np.int64]
    ready: Times
    after: tuple[Record, ...]
    line: Line
    number: int
    followers: list[Record] = field(default_factory=list)
    call: _Call | None = None
    start: Times = field(default_factory=lambda: np.empty(0, np.int64))
    end: Times = field(default_factory=lambda: np.empty(0, np.int64))
    resolved: bool = False


class _Call(Struct, eq=False):
    """The same call of all groups of a kind."""

    item: Communicate
    stages: tuple[int, ...]
    missing: int
    transfer: Times
    records: list[Record] = field(default_factory=list)
    settled: bool = False


class Calls:
    """All calls, identified by dimension, stages and position."""

    def __init__(self, spec: Spec, topology: Topology) -> None:
        self.spec = spec
        self.shape = (spec.pp, spec.dp_replicate, spec.dp_shard, spec.tp)
        self.stage_of = np.array([place.pp for place in topology.places], np.int64)
        hosts = [topology.host_of(rank) for rank in range(spec.world_size)]
        self.hosts = np.array(hosts, np.int64)
        self.progress = 0
        self._lanes: Counter[int] = Counter()
        self._open: dict[tuple[object, ...], _Call] = {}
        self._transfers: dict[tuple[object, ...], Times] = {}
        self._counts: Counter[tuple[object, ...]] = Counter()

    def expect(self, ranks: NDArray[np.int64]) -> None:
        """Count a lane as a member of the calls of its stage."""
        self._lanes[int(self.stage_of[ranks[0]])] += 1

    def join(self, item: Communicate, stage: int, peer: int, record: Record) -> None:
        """Add a lane to its call, and compute the times once all lanes have joined.

        Args:
            item: The call.
            stage: Pipeline stage of the lane.
            peer: Stage at the other end of a transfer, else -1.
            record: The record of the lane; its times are set by and by.
        """
        stages = self._stages(item, stage, peer)
        line = (item.group.dimension, item.peer >= 0, stages)
        nth = self._counts[(*line, id(record.ranks))]
        self._counts[(*line, id(record.ranks))] += 1
        call = self._open.get((*line, nth))
        if call is None:
            lanes = sum(self._lanes[one] for one in stages)
            call = _Call(item, stages, lanes, self._transfer(item, stages))
            self._open[(*line, nth)] = call
        call.missing -= 1
        call.records.append(record)
        record.call = call
        self.progress += 1
        self._settle(call)

    def _stages(self, item: Communicate, stage: int, peer: int) -> tuple[int, ...]:
        """Stages of the members; of a transfer, sender and receiver."""
        if item.peer >= 0:
            return (stage, peer) if item.operation == "send" else (peer, stage)
        return tuple(range(self.shape[0])) if item.group.dimension == "world" else (stage,)

    def _settle(self, first: _Call) -> None:
        waiting = [first]
        while waiting:
            call = waiting.pop()
            unknown = (not one.resolved for record in call.records for one in record.after)
            if call.settled or call.missing or any(unknown):
                continue
            call.settled = True
            self.progress += 1
            starts = np.zeros(self.shape, np.int64)
            flat = starts.reshape(-1)
            for record in call.records:
                start = record.ready
                for earlier in record.after:
                    start = np.maximum(start, earlier.end)
                record.start = start
                flat[record.ranks] = start
            ends = (self._largest(starts, call.item, call.stages) + call.transfer).reshape(-1)
            for record in call.records:
                record.end = ends[record.ranks]
                record.resolved = True
            for record in call.records:
                waiting += [one.call for one in record.followers if one.call is not None]

    def _transfer(self, item: Communicate, stages: tuple[int, ...]) -> Times:
        """Time of the transfer for the group of each rank, in the shape of the grid."""
        size = 2 if item.peer >= 0 else len(item.group.ranks)
        key = (item.group.dimension, stages, item.peer >= 0, wire_bytes(item, size))
        found = self._transfers.get(key)
        if found is None:
            found = self._transfers[key] = self._new_transfer(item, stages, key[-1])
        return found

    def _new_transfer(self, item: Communicate, stages: tuple[int, ...], wire: int) -> Times:
        spec = self.spec
        hosts = self.hosts.reshape(self.shape)
        near = self._largest(hosts, item, stages) == -self._largest(-hosts, item, stages)
        extra = np.zeros(self.shape, np.int64)
        for link in spec.slow_links:
            if link.dimension == item.group.dimension:
                own = np.zeros(self.shape, np.int64)
                own.reshape(-1)[link.rank] = link.extra_ns
                extra += self._largest(own, item, stages)
        rate = np.where(near, spec.node_bytes_per_ns, spec.network_bytes_per_ns)
        times: Times = spec.link_latency_ns + wire // rate + extra
        return times

    def _largest(self, grid: Times, item: Communicate, stages: tuple[int, ...]) -> Times:
        """Largest value of the group of each rank; other stages keep theirs."""
        if item.peer >= 0:
            found = grid.copy()
            source, target = stages
            found[source] = found[target] = np.maximum(grid[source], grid[target])
            return found
        if item.group.dimension == "world":
            return np.full_like(grid, grid.max())
        axis = _AXES[item.group.dimension]
        return np.broadcast_to(grid.max(axis=axis, keepdims=True), grid.shape)
