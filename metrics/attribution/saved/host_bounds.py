"""What a step saves at most where hosts bind as soon as devices are faster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.attribution.host_needs import MAX_LAUNCHING, hosts_bind
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.result import Reason
from ccltui.parsers.array_types import F64, I64


def needs_of_steps(ladder: Ladder | None, steps: I64, was_ns: F64) -> F64:
    """Return how long the typical host needs for some steps, 0 where not known.

    Without stragglers no host is later than the typical one either.

    Args:
        ladder: the replays of the job, None where they do not describe it.
        steps: ids of the steps.
        was_ns: their recorded length.
    """
    found = np.zeros(len(steps))
    if ladder is not None:
        place = {int(one): i for i, one in enumerate(ladder.job.table.step_ids)}
        here = [place.get(int(one), -1) for one in steps]
        found = np.append(ladder.typical_need_ns, 0.0)[here]
    return np.asarray(np.minimum(found, was_ns))


def bounds_of_hosts(need_ns: F64, was_ns: F64, ideal_ns: F64) -> list[float] | None:
    """Return bounds of the time saved, ms, where hosts need most of the ideal, else None."""
    if not hosts_bind(need_ns, was_ns, ideal_ns):
        return None
    return [0.0, milliseconds(float(was_ns.mean() - ideal_ns.mean()))]


def why_host_bound(bounds: Sequence[float] | None) -> list[Reason]:
    """Return why the time saved has bounds, where hosts are the cause."""
    if bounds is None:
        return []
    text = (
        f"without stragglers hosts need {MAX_LAUNCHING:.0%} of a step or more to launch it: at "
        f"most {bounds[1]:.3g} ms are saved, less where kernels wait for their launches"
    )
    return [Reason("host_bound", text)]
