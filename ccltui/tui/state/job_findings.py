"""Results of the analysis of a job so far, and the steps and time spans that they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from ccltui.draw.lanes import Lane
    from ccltui.draw.timeline_chart import Minimap
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.tui.state.communicator import Communicator, RankCalls, WorstFirst


class Step(Struct, frozen=True):
    """One iteration on the job's clock, ns since its origin."""

    id: int
    start_ns: int
    end_ns: int


class Span(Struct, frozen=True):
    """Time span in ns since the job's origin."""

    start_ns: int
    end_ns: int


class Findings(Struct, frozen=True):
    """Results computed so far; a part that is not computed yet has its default."""

    generation: int = -1
    matched: int = -1  # generation that the communicators belong to
    metrics: tuple[Metric, ...] = ()
    results: Mapping[str, Result] = field(default_factory=dict)
    communicators: tuple[Communicator, ...] | None = None
    worst_first: WorstFirst | None = None  # order of the collectives of all communicators
    calls: Mapping[str, RankCalls] = field(default_factory=dict)
    harm_ns: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    minimap: Minimap | None = None  # overview of the lanes
    steps: tuple[Step, ...] = ()
    span: Span | None = None
    origin_ns: int = 0  # zero of all times here, on the common clock
    clock: str = ""  # text on how precisely times of different ranks compare
    nodes: Mapping[str, int] = field(default_factory=dict)  # number of each rank's host, by label
    groups: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # see groups_by_size
    complete: bool = False

    @property
    def is_matched(self) -> bool:
        """Whether the communicators belong to this generation."""
        return self.communicators is not None and self.matched == self.generation
