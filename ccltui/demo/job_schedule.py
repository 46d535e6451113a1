"""Data model of a simulated job: device activities, host ranges and calls."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ccltui.demo.program import Operation, Phase, Stall
from ccltui.demo.spec import Spec
from ccltui.demo.topology import DemoGroup, Topology

Class = Literal["comp", "mem", "comm"]
HostKind = Literal["step", "sync", "wait"] | Stall


class Activity(Struct, frozen=True):
    """A kernel, copy or memset on a device; ``call`` is an index into ``Schedule.calls`` or -1."""

    rank: int
    kind: str  # Work.kind, or the operation of the call
    klass: Class
    stream: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int
    launch_ns: int
    step: int  # counted from 0
    phase: Phase
    size_bytes: int = 0
    call: int = -1
    seq: int = -1
    in_elems: int = -1  # of a call: input and output of this rank
    out_elems: int = -1
    orphan: bool = False  # its launch is not in the file

    @property
    def dur_ns(self) -> int:
        """End minus start."""
        return self.end_ns - self.start_ns


class HostRange(Struct, frozen=True):
    """A range on the host; ``call`` as in Activity, for waits."""

    rank: int
    kind: HostKind
    start_ns: int
    end_ns: int
    step: int
    call: int = -1


class Call(Struct, frozen=True):
    """One collective over ``members``, or one p2p transfer from members[0] to members[1]."""

    index: int
    group: DemoGroup
    operation: Operation  # "send" for a p2p transfer
    members: tuple[int, ...]
    in_elems: int
    out_elems: int
    dtype: str
    transfer_ns: int
    step: int

    @property
    def is_p2p(self) -> bool:
        """Whether it is a transfer between two ranks."""
        return self.operation == "send"


class Schedule(Struct, frozen=True):
    """All events of a job; the outer index of ``activities`` and ``host`` is the rank."""

    spec: Spec
    topology: Topology
    activities: tuple[tuple[Activity, ...], ...]
    host: tuple[tuple[HostRange, ...], ...]
    calls: tuple[Call, ...]
