"""Times of steps as they were and as they would be, as rows and sentences of a result.

Times are float64 ns by step, those of results ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.view.data_quality import some_of
from ccltui.parsers.array_types import F64

ROUNDING: Final = 1e-6
"""Share of the step by which a replay with less work may end later: sums of floats do."""


def is_longer(was: F64, would_be: F64) -> bool:
    """Return whether steps with less work to do take longer, by more than rounding."""
    return float(would_be.sum()) > (1 + ROUNDING) * float(was.sum())


def why_not_physical(was: F64, would_be: F64) -> str:
    """Return why steps that would be longer have no ideal."""
    total, ideal = milliseconds(float(was.sum())), milliseconds(float(would_be.sum()))
    count = len(was)
    return (
        f"without any straggler the replayed step takes {ideal / count:.4g} ms, "
        f"{(ideal - total) / count:.3g} ms ({ideal / total - 1:.2%}) longer than as it was, "
        f"{total / count:.4g} ms: between two calls the ranks do not do the same work, and the "
        "replay does not reproduce the schedule of this job"
    )


def saved_time(was: F64, would_be: F64) -> dict[str, float | None]:
    """Return step times and the time saved; None where the step would be longer."""
    total, ideal = float(was.sum()), float(would_be.sum())
    time = milliseconds(total / len(was))
    if is_longer(was, would_be):
        nothing = dict.fromkeys(("ideal_step_time_ms", "saved_ms", "saved_pct"))
        return {"step_time_ms": time, **nothing}
    ideal = min(ideal, total)
    return {
        "step_time_ms": time,
        "ideal_step_time_ms": milliseconds(ideal / len(was)),
        "saved_ms": milliseconds((total - ideal) / len(was)),
        "saved_pct": 100 * (total - ideal) / total,
    }


def refused(without: Mapping[str, Any], per_step: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why ranks and steps have no figure."""
    found = []
    ranks = [label for label, row in without.items() if row["saved_ms"] is None]
    if ranks:
        found.append(
            f"with rank {', '.join(ranks)} as fast as its peers the replayed step is longer: what "
            "it costs is not told"
        )
    steps = [str(row["step"]) for row in per_step if row["ideal_ms"] is None]
    if steps:
        found.append(
            f"the replay without stragglers makes {len(steps)} of {len(per_step)} steps longer "
            f"({some_of(steps)}): they have no ideal"
        )
    return found


def per_step_rows(steps: Sequence[int], was: F64, ideal: F64) -> list[Mapping[str, Any]]:
    """Return measured time, ideal and slowdown of each step, in rows."""
    rows: list[Mapping[str, Any]] = []
    for step, time, best in zip(steps, was, ideal, strict=True):
        longer = is_longer(time, best)
        shortest = min(float(best), float(time))
        rows.append(
            {
                "step": step,
                "step_time_ms": milliseconds(float(time)),
                "ideal_ms": None if longer else milliseconds(shortest),
                "slowdown": float(time) / shortest if shortest and not longer else None,
            }
        )
    return rows
