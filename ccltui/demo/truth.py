"""Known values of a job, in nanoseconds and bytes.

They are computed from the simulated schedule by brute force, independently of the code that
measures traces, so that tests compare two implementations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ccltui.demo.spec import Dimension, Spec


@dataclass(frozen=True, slots=True)
class BubbleTruth:
    """One rank's pipeline bubble: idle + max(0, exposed p2p - transfer).

    ``transfer_ns`` is the time of transfers while nothing else ran; concurrent transfers count
    once, as in ``exposed_p2p_ns``.
    """

    window_ns: int
    idle_ns: int
    exposed_p2p_ns: int
    transfer_ns: int

    @property
    def bubble_ns(self) -> int:
        """Time without useful work because of the pipeline."""
        return self.idle_ns + max(0, self.exposed_p2p_ns - self.transfer_ns)


@dataclass(frozen=True, slots=True)
class RankTruth:
    """One rank on its own clock; intervals are merged and clipped to the windows of its steps.

    A window is the time of a step on the device: from the first work that was launched inside its
    marker to that of the next step; of the last step to the last end. Keys of mappings are step
    numbers as in ``ProfilerStep#N``, or type names.
    """

    rank: int
    host: str
    stage: int
    windows: tuple[tuple[int, int], ...]
    work: tuple[tuple[int, int], ...]  # of each step, from first start to last end
    comm_ns: int
    comp_ns: int
    mem_ns: int
    overlap_ns: int
    comm_only_ns: int
    comp_only_ns: int
    mem_only_ns: int
    idle_ns: int
    comm_sum_ns: int
    comp_sum_ns: int
    num_kernels: int
    step_ns: Mapping[int, int]
    calls_by_step: Mapping[int, int]
    calls_by_type: Mapping[str, int]
    bubble: BubbleTruth

    @property
    def window_ns(self) -> int:
        """Length of all windows."""
        return sum(end_ns - start_ns for start_ns, end_ns in self.windows)

    @property
    def exposed_comm_ns(self) -> int:
        """Communication that does not overlap with computation."""
        return self.comm_ns - self.overlap_ns

    @property
    def calls(self) -> int:
        """Communication kernels in the rank's file."""
        return sum(self.calls_by_type.values())


@dataclass(frozen=True, slots=True)
class CallTruth:
    """One collective (or one p2p transfer) over ``members``.

    ``start_ns`` and ``dur_ns`` are on each member's own clock, None where its file lacks the
    kernel or the kernel's metadata. Lateness is on the true clock: ``late_ns[i]`` is how long
    after the first member the i-th one arrived.
    """

    members: tuple[int, ...]
    group_ranks: tuple[int, ...]
    dimension: Dimension
    description: str
    type: str
    step: int
    start_ns: tuple[int | None, ...]
    dur_ns: tuple[int | None, ...]
    late_ns: tuple[int, ...]
    transfer_ns: int
    message_bytes: int
    wire_bytes: int  # of one rank

    @property
    def complete(self) -> bool:
        """Whether the files of all members contain it."""
        return None not in self.dur_ns

    @property
    def known_dur_ns(self) -> tuple[int, ...]:
        """Durations of the members whose files contain it."""
        return tuple(dur_ns for dur_ns in self.dur_ns if dur_ns is not None)

    @property
    def lag_ns(self) -> int:
        """Longest minus shortest duration: the time that the first rank waited for the last."""
        return max(self.known_dur_ns) - min(self.known_dur_ns)

    @property
    def wait_ns(self) -> tuple[int, ...]:
        """Wait of each member, from durations; only valid for a complete call."""
        shortest_ns = min(self.known_dur_ns)
        return tuple(dur_ns - shortest_ns for dur_ns in self.known_dur_ns)

    @property
    def last(self) -> tuple[int, ...]:
        """Ranks that arrived last on the true clock, several in a tie."""
        latest_ns = max(self.late_ns)
        pairs = zip(self.members, self.late_ns, strict=True)
        return tuple(rank for rank, late_ns in pairs if late_ns == latest_ns)


@dataclass(frozen=True, slots=True)
class Truth:
    """All known values of a job.

    ``collectives`` and ``transfers`` are in the order of their first arrival.
    """

    spec: Spec
    ranks: tuple[RankTruth, ...]
    collectives: tuple[CallTruth, ...]
    transfers: tuple[CallTruth, ...]
    clock_offset_ns: Mapping[int, int]  # of each rank against rank 0, at the start
    message_bytes: Mapping[str, int]  # of all ranks, by dimension; p2p counted on the sender
    wire_bytes: Mapping[str, int]
    stragglers: tuple[int, ...]  # delayed in every step
    faults: tuple[str, ...]  # one sentence each

    @property
    def step_ns(self) -> Mapping[int, int]:
        """Length of each step that all ranks have: the longest marker of any rank."""
        common = set.intersection(*(set(rank.step_ns) for rank in self.ranks))
        return {step: max(rank.step_ns[step] for rank in self.ranks) for step in sorted(common)}

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.spec.global_batch * self.spec.seq_len

    @property
    def calls_by_type(self) -> Mapping[str, int]:
        """Communication kernels of all ranks, by the type in the files."""
        types = sorted({kind for rank in self.ranks for kind in rank.calls_by_type})
        return {kind: sum(rank.calls_by_type.get(kind, 0) for rank in self.ranks) for kind in types}

    @property
    def bubble_ratio(self) -> float:
        """Bubble of all ranks over their windows."""
        windows_ns = sum(rank.bubble.window_ns for rank in self.ranks)
        return sum(rank.bubble.bubble_ns for rank in self.ranks) / windows_ns

    @property
    def theoretical_bubble(self) -> float:
        """Share of fill and drain in an ideal schedule."""
        others = self.spec.pp - 1
        return others / (self.spec.micro_batches + others)
