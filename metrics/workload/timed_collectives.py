"""Collectives of known size and duration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.instances import Instances, instances_of, require_sized_calls

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


def timed_collectives(view: View) -> Instances:
    """Return the collectives whose size and time are known.

    Raises:
        Refusal: There is no such collective.
    """
    require_sized_calls(view)
    every = instances_of(view)
    sized = every.take(every.counts_bytes & (every.message_bytes > 0) & every.trusted)
    if not len(sized):
        raise refuse("no_message_size", f"none of {len(every)} collectives states its size")
    return sized.take(sized.time_ns > 0)
