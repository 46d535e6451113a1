"""Score comparisons of jobs on tables of step and kernel times with a planted change.

``python -m bench.verdicts.planted_changes --seeds 500`` prints how often a change of 3 % of the
step time is found under noise of 2 %, how often its sign is wrong, how often the planted kernel is
named first, and how often a change is reported where there is none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import JobTable, Work
from ccltui.parsers.array_types import F64

STEP_MS = 100.0
NUM_KERNELS = 12
NOISE = 0.02
CHANGE = 0.03
_RANKS = 8
_FACTS = {"model": "m", "batch": "8", "ranks": str(_RANKS), "world size": str(_RANKS)}


class Outcome(Struct, frozen=True):
    """One comparison: its verdict, whether it is right, and the kernel that is listed first."""

    verdict: str
    found: bool
    wrong_sign: bool
    named_first: bool


def outcome(seed: int, num_steps: int, *, change: float = CHANGE, noise: float = NOISE) -> Outcome:
    """Compare two jobs of which the second has a kernel that takes more or less time.

    The change is ``change`` of the step time, up or down. The times of all kernels of a step have a
    common factor with the standard deviation ``noise``, and each kernel one of its own as large.
    """
    random = np.random.default_rng(seed)
    shares = np.sort(random.dirichlet(np.full(NUM_KERNELS, 2.0)))[::-1]
    candidates = np.flatnonzero(shares > 2 * CHANGE)
    planted = int(random.choice(candidates))
    sign = 1 if random.random() < 0.5 else -1
    changed = shares.copy()
    changed[planted] += sign * change
    a, b = (
        _side(name, means * STEP_MS, num_steps, noise, random)
        for name, means in (("A", shares), ("B", changed))
    )
    # The noise is that of steps alone: two runs of one command would differ by no more.
    result = compare_jobs(a, b, runs_vary_pct=0.0)
    right, wrong = ("worse", "better") if sign > 0 else ("better", "worse")
    return Outcome(
        verdict=result.verdict,
        found=result.verdict == right,
        wrong_sign=result.verdict == wrong,
        named_first=result.kernels[0].key[0] == f"kernel_{planted}",
    )


def _side(
    name: str, means_ms: F64, num_steps: int, noise: float, random: np.random.Generator
) -> JobTable:
    common = random.normal(1, noise, (num_steps, 1))
    times = means_ms * (common + random.normal(0, noise, (num_steps, len(means_ms))))
    per_step = times.sum(axis=1)
    kernels = {
        (f"kernel_{i}", "comp"): Work(
            num_steps * _RANKS, column.sum() * 1e6 * _RANKS, {}, by_step_ms=column
        )
        for i, column in enumerate(times.T)
    }
    return JobTable(
        name=name,
        job=name,
        facts=_FACTS,
        num_ranks=_RANKS,
        num_rank_steps=_RANKS * num_steps,
        device_ms=per_step,
        parts_ms={("compute", "compute"): float(per_step.mean())},
        kinds_ms={"compute": per_step},
        kernels=kernels,
    )


def main(arguments: Sequence[str]) -> int:
    """Print the scores of several numbers of steps."""
    parser = argparse.ArgumentParser(prog="planted_changes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--steps", type=int, nargs="+", default=[3, 20])
    options = parser.parse_args(arguments)
    print("steps  change  found  wrong sign  not distinguishable  named first")
    for num_steps in options.steps:
        for change in (CHANGE, 0.0):
            found = [outcome(seed, num_steps, change=change) for seed in range(options.seeds)]
            shares = (
                sum(one.found for one in found),
                sum(one.wrong_sign for one in found),
                sum(one.verdict == "not distinguishable" for one in found),
                sum(one.named_first for one in found),
            )
            cells = [f"{100 * share / len(found):.1f} %" for share in shares]
            print(f"{num_steps:5}  {100 * change:4.0f} %  {'  '.join(cells)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
