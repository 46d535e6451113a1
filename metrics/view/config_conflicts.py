"""Reasons for contradictions between card, configuration, arguments, traces and logs of a run."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.card.effective_config import PARALLEL, PLAIN_AXES
from ccltui.metrics.result import Reason
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import listed, printable

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64
    from ccltui.parsers.runs.training_log import TrainingLog

RATE_FACTOR: Final = 1.5
"""Tokens per second of the log and of the metric contradict each other beyond this factor."""

_NUM_SLOW_STEPS: Final = 1  # steps at the beginning of a log that are slower than the others


def run_conflicts(view: View, fields: frozenset[str]) -> list[Reason]:
    """Return a reason for each contradiction about ``fields`` that the user does not override."""
    return [
        Reason("card_conflict", conflict.message)
        for conflict in view.run_config.of(fields)
        if conflict.field not in view.options.overrides
    ]


def degree_conflicts(view: View, fields: frozenset[str] = PARALLEL) -> list[Reason]:
    """Return reasons for contradictions about parallel degrees, and others of ``fields``.

    Sources contradict each other, or groups of the traces have other sizes than the user states,
    or several.

    Groups are compared only where their description names tp, pp or cp: those of data parallelism
    may span other axes too.
    """
    found = run_conflicts(view, fields | PARALLEL)
    for axis in PLAIN_AXES:
        stated = getattr(view.degrees, axis)
        groups = [g for g in view.facts.stated_groups if g.mode == "process_group"]
        sizes = {group.size for group in groups if group.axis == axis}
        sizes -= {0, 1}
        if stated is not None and stated > 0 and sizes and stated not in sizes:
            who = _ORIGIN_TEXTS.get(view.card.origin(axis) or "", "what ran states")
            have = listed([str(size) for size in sorted(sizes)])
            text = f"{who} {axis} {stated}, the traces have groups of {axis} of {have} ranks"
            found.append(Reason("card_conflict", text))
    return found


_ORIGIN_TEXTS: Final = {"card": "the card states", "override": "the command line states"}


def rate_conflict(view: View, tokens_per_s: float | None) -> list[Reason]:
    """Return a reason where the log of the run that is nearest contradicts ``tokens_per_s``.

    A log has all steps and a trace only a few: the medians of the traced steps and of all steps
    are compared, and the nearer one counts.
    """
    paths = [(source.path, source.real_path) for source in view.job.run_sources if source.is_log]
    rates = [rate for path in paths for rate in _rates(view, *path)]
    if not rates or not tokens_per_s:
        return []
    path, rate, how = min(rates, key=lambda one: _factor(one[1], tokens_per_s))
    factor = _factor(rate, tokens_per_s)
    if factor <= RATE_FACTOR:
        return []
    word = "less" if rate < tokens_per_s else "more"
    text = (
        f"{printable(path)} tells {rate:,.4g} tokens/s ({how}), {factor:,.3g} times {word} than "
        f"the {tokens_per_s:,.4g} here, beyond the {RATE_FACTOR:g} that steps may differ by: batch "
        "size or sequence length may be of another run, or the recorded steps are unlike the others"
    )
    return [Reason("card_conflict", text, file=path)]


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)


def _rates(view: View, path: str, real_path: str) -> list[tuple[str, float, str]]:
    """Tokens/s of the job in a log: shown path, rate, and how it was found."""
    log = _log(path, real_path, _changed_ns(real_path))
    if log is None:
        return []
    rates, unit = _of_job(log, view.world_size)
    steps = {step.id for rank in view.ranks for step in rank.steps}
    # torchtitan numbers its steps from 1, its profiler from 0.
    recorded = np.isin(log.step, sorted(steps | {step + 1 for step in steps}))
    usual = np.arange(len(rates)) >= (_NUM_SLOW_STEPS if len(rates) > _NUM_SLOW_STEPS else 0)
    found = []
    for rows, of in ((usual, "all steps"), (recorded, "the recorded steps")):
        known = rates[rows & np.isfinite(rates) & (rates > 0)]
        if len(known):
            found.append((path, float(median_along(known)), f"{unit}median of {of}"))
    return found


def _of_job(log: TrainingLog, world_size: int | None) -> tuple[F64, str]:
    """Tokens/s of the job: as logged, else torchtitan's ``tps`` of one device times the devices."""
    if np.isfinite(log.tokens_per_s).any():
        return log.tokens_per_s, ""
    if world_size is None:
        return np.full(len(log), np.nan), ""
    return log.tokens_per_s_per_device * world_size, f"a device's times {world_size}, "


def _changed_ns(real_path: str) -> int:
    try:
        return Path(real_path).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _log(path: str, real_path: str, _changed_ns: int) -> TrainingLog | None:
    from ccltui.parsers.runs.training_log import read_training_log  # noqa: PLC0415 - few have any

    try:
        return read_training_log(Path(real_path), shown=path)
    except (TraceError, OSError):
        return None
