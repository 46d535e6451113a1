"""The spread between runs of one command: without it a difference of two runs says little.

The spread within a run, over its steps, does not hold what differs from run to run: nodes, network,
clocks of the devices, other jobs. It is known from several runs of a side, or stated by the user.
"""

from __future__ import annotations

from typing import Final

INDISTINCT: Final = "not distinguishable from noise between runs"
ADVICE: Final = (
    "name more runs of each side (--also-a, --also-b), or state by how much two runs of one "
    "command differ (--runs-vary PCT)"
)
ONE_RUN: Final = f"one run a side, so the spread between runs is unknown: {ADVICE}"
"""Why a difference of two single runs is called neither better nor worse."""


def stated(runs_vary_pct: float) -> str:
    """Return the note on a difference that is judged by the spread that the user stated."""
    return f"runs of one command vary by {runs_vary_pct:g} %, as stated by --runs-vary"


def limit_of(value: float | None, runs_vary_pct: float | None) -> float | None:
    """Return the stated spread in the unit of ``value``, None where none is stated."""
    return None if value is None or runs_vary_pct is None else runs_vary_pct / 100 * abs(value)
