"""Text of the file of one rank, from the log of its lane."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ccltui.demo.header import base_ns, header, trace_name
from ccltui.demo.kineto_writer import NATIVE_BETWEEN, native_ends, native_events
from ccltui.demo.metadata_events import LEAD_NS, TAIL_NS, device_steps, row_names, window
from ccltui.demo.profiler_view import drift_ppb, offset_ns, origin_ns
from ccltui.demo.rank_events import FIRST_CORRELATION, pid_of
from ccltui.demo.scale.lockstep import Lane, StepLog
from ccltui.demo.scale.step_template import (
    Part,
    StepNumbers,
    StepTemplate,
    make_template,
    names_of,
    signature,
)
from ccltui.demo.spec import Spec
from ccltui.demo.topology import Topology


class _Step(Struct):
    """A step of a lane: its template, and its times, one row a rank."""

    template: StepTemplate
    log: StepLog
    times: NDArray[np.int64]


class LaneText(Struct):
    """Texts of the ranks of a lane.

    Attributes:
        spec, topology: The job.
        lane: The lane; its logs are no longer needed afterwards.
    """

    spec: Spec
    topology: Topology
    lane: Lane
    _steps: list[_Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        templates: dict[tuple[object, ...], StepTemplate] = {}
        rank = int(self.lane.ranks[0])
        for log in self.lane.steps:
            key = signature(log)
            if key not in templates:
                templates[key] = make_template(self.spec, self.topology, rank, log)
            times = np.ascontiguousarray(np.array(log.times, np.int64).T)
            log.times = []
            self._steps.append(_Step(templates[key], log, times))

    def pieces(self, place: int) -> Iterator[str]:
        """The text of the rank at a place of the lane, in pieces."""
        spec, topology = self.spec, self.topology
        rank = int(self.lane.ranks[place])
        pid, device = pid_of(rank), topology.device_of(rank)
        numbers = self._numbers(place)
        starts = [times.times for times in numbers]
        first_ns = int(min(times.min() for times in starts)) - LEAD_NS
        last_ns = int(max(times.max() for times in starts)) + TAIL_NS
        head, tail = native_ends(header(spec, topology, rank), trace_name(rank))
        streams = sorted({stream for step in self._steps for stream in step.template.streams})
        names = names_of(topology, rank, pid, device)
        yield head
        yield native_events(list(row_names(pid, device, streams, first_ns)), 0)
        for part in ("host", "device"):
            texts: dict[int, str] = {}
            for step, filled in zip(self._steps, numbers, strict=True):
                rows: Part = getattr(step.template, part)
                if id(rows) not in texts:
                    texts[id(rows)] = NATIVE_BETWEEN + rows.of_rank(names)
                yield texts[id(rows)] % rows.values(filled, step.template.lines)
        spans = {}
        for number, step in enumerate(self._steps):
            begin, end = step.template.main
            spans[number] = (int(starts[number][begin]), int(starts[number][end]))
        yield NATIVE_BETWEEN
        yield native_events(
            [*device_steps(device, spans, spec.first_step), *window(first_ns, last_ns)], 0
        )
        yield tail

    def _numbers(self, place: int) -> list[StepNumbers]:
        """Numbers of each step of a rank."""
        spec, host = self.spec, self.topology.host_of(int(self.lane.ranks[place]))
        zero_ns = origin_ns(spec) + offset_ns(spec, host) - base_ns(spec)
        drift = drift_ppb(spec, host)
        external, correlation = 0, FIRST_CORRELATION
        found = []
        for number, step in enumerate(self._steps):
            true_ns = step.times[place]
            times = zero_ns + true_ns + true_ns * drift // 1_000_000_000
            found.append(
                StepNumbers(
                    times, external, correlation, spec.first_step + number, step.log.first_seqs
                )
            )
            external += step.template.externals
            correlation += step.template.correlations
        return found
