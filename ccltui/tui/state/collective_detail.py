"""Details of one collective from the metrics, and the views its blame chain leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ccltui.metrics.findings.causes.instance_report import (
    Instance,
    LagHistory,
    describe,
    lag_history,
)
from ccltui.tui.state.job_findings import Findings

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.cause_search import Link
    from ccltui.metrics.view.job_view import View


class Stop(Struct, frozen=True):
    """Position of a link of the chain: rank and time, and a collective where one is in view."""

    label: str
    time_ns: int
    communicator: int | None = None
    k: int | None = None


class Detail(Struct, frozen=True):
    """Details of a collective; ``stops`` are the links of its chain, in order.

    ``history`` is the usual lag of ranks at such a collective.
    """

    instance: Instance
    stops: tuple[Stop, ...]
    history: LagHistory | None = None


def detail(view: View, findings: Findings, number: int, row: int) -> Detail:
    """Compute the details of a collective. Raises IndexError when it does not exist."""
    found = describe(view, number, row)
    history = lag_history(view.arrivals.groups[number], row)
    return Detail(found, tuple(_stop(view, findings, link) for link in found.chain), history)


def _stop(view: View, findings: Findings, link: Link) -> Stop:
    if link.number < 0:  # a transfer between two ranks, which is a call of its own
        start_ns = view.facts.named_calls[link.label].start_ns[link.row : link.row + 1]
        return Stop(link.label, int(view.on_job_clock(link.label, start_ns)[0]) - view.origin_ns)
    arrived = view.arrivals.groups[link.number]
    start = int(arrived.start_ns[link.row, arrived.labels.index(link.label)])
    stop = Stop(link.label, start - view.origin_ns)
    for index, communicator in enumerate(findings.communicators or ()):
        if communicator.number == link.number:
            found = np.flatnonzero(communicator.row == link.row)
            if len(found):
                return Stop(stop.label, stop.time_ns, index, int(found[0]))
    return stop
