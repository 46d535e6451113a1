"""The place of the largest instance of a loss, as the explorer opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.view.collective_selection import describe_group

if TYPE_CHECKING:
    from ccltui.metrics.findings.partition import Part
    from ccltui.metrics.view.job_view import View


def place_of(view: View, loss: Part) -> dict[str, Any] | None:
    """Return rank, time since the origin, and the collective or the length of the longest stretch.

    None where the loss has no single largest instance.
    """
    place = loss.place
    if place is None:
        return None
    at = int(view.on_job_clock(place.label, np.array(place.time_ns, np.int64))) - view.origin_ns
    seen: dict[str, Any] = {"rank": place.label, "time_us": microseconds(at)}
    if loss.kind != "straggler":
        seen["length_us"] = microseconds(loss.weight)
    elif place.number >= 0:
        arrived = view.arrivals.groups[place.number]
        seen["group"] = describe_group(view, arrived.match.group)["group"]
        seen["group_number"], seen["index"] = place.number, place.row
    return seen
