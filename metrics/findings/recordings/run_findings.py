"""What the lines and timers of a training log show beyond the time of a step.

A log does not show causes on a device, but parts that its program times itself, waits for data,
ranks that differ in a part, and stretches in which steps were slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import median
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding, Where
from ccltui.metrics.runs.run_files import read_runs
from ccltui.metrics.view.words import sentence
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.runs import TRAINING_LOG
from ccltui.parsers.runs.step_timers import StepTimers, read_timers
from ccltui.parsers.text.bounded_text import read_bounded

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.runs.training_log import TrainingLog

_SLOW: Final = 3.0
"""Times the median from which a line is of slow steps: warm caches and checkpoints stay below."""
_LEAST_LOST: Final = 0.05
"""Share of the time of all lines from which slow ones are worth a finding."""
_LEAST_LINES: Final = 3
_MUCH_DATA: Final = 0.1
_UNEVEN: Final = 0.1
"""Share of a step by which ranks differ in a part from which the part is worth a finding."""
_WHY: Final = "a log does not show how much time could be saved"
_PART_WORDS: Final = {
    "forward": "the forward passes",
    "backward": "the backward passes",
    "reduction": "reducing gradients",
    "optimizer": "the optimizer",
}
_PART_DO: Final = {
    "reduction": "Let it overlap the backward passes (overlap_comm), and look at the bucket sizes.",
    "optimizer": "Use a fused optimizer, and look whether its states are offloaded to the host or "
    "gathered between steps (ZeRO, allgather_bucket_size).",
}
_TRACE: Final = "Record some steps with a profiler on all ranks to see what is slow in it."


def log_parts(view: View) -> Iterator[Finding]:
    """Yield what the logs of runs show of the parts of a step and of slow steps."""
    for run in read_runs(view.job.discovery)[:1]:
        if run.log is not None:
            yield from _slow_lines(run.log)
            yield from _data(run.log)
    for file in view.job.discovery.files:
        if file.format is TRAINING_LOG and file.duplicate_of is None and file.problem is None:
            yield from _of_timers(_timers(file))
            return


@lru_cache(maxsize=8)
def _timers(file: FoundFile) -> StepTimers:
    try:
        with contained(file.path):
            return read_timers(read_bounded(Path(file.real_path), shown=file.path))
    except TraceError:  # stated by doctor
        return StepTimers()


def _slow_lines(log: TrainingLog) -> Iterator[Finding]:
    """Yield the stretch of steps that took several times as long as the others."""
    times = np.where(np.isfinite(log.time_s), log.time_s, 0.0)[1:]  # the first has the start-up
    usable = times[times > 0]
    if len(usable) < _LEAST_LINES - 1:
        return
    middle = float(np.sort(usable)[(len(usable) - 1) // 2])
    slow = np.flatnonzero(times > _SLOW * middle)
    lost = float((times[slow] - middle).sum() / usable.sum()) if len(slow) else 0.0
    if lost < _LEAST_LOST:
        return
    worst = int(slow[np.argmax(times[slow])])
    first, last = int(log.step[worst]) + 1, int(log.step[worst + 1])
    if log.steps_per_line == 1:
        first = last
    which = f"step {last:,} takes" if first == last else f"steps {first:,} to {last:,} take"
    each = "" if first == last else " each"
    ratio = float(times[worst]) / middle
    others = (
        f"; {counted(len(slow), 'line')} of {len(usable):,} are so slow" if len(slow) > 1 else ""
    )
    yield Finding(
        kind="slow_steps",
        text=sentence(
            f"{which} {time_text(float(times[worst]) * 1e3)}{each}, {ratio:,.3g} times as long as "
            "the others"
        ),
        more=sentence(f"{percent(lost)} of the time of the log is lost in them{others}"),
        where=Where(steps=(first,) if first == last else (first, last)),
        saves_why=_WHY,
        sure=Sure(what="high"),
        do="Look what happened then: checkpoints, evaluation, storage, other jobs on the hosts, "
        "and the log of the machines (dmesg, switches) at that time.",
    )


def _data(log: TrainingLog) -> Iterator[Finding]:
    """Yield how long a step waits for data, where its program times that."""
    both = np.isfinite(log.data_ms) & np.isfinite(log.time_s) & (log.time_s > 0)
    if not both.any():
        return
    data_ms = float(median_along(log.data_ms[both]))
    step_ms = float(median_along(log.time_s[both])) * 1e3
    share = data_ms / step_ms
    if share < _MUCH_DATA:
        return
    # a program may time both one after the other: then there is no part of a step to state
    text = f"a step waits {time_text(data_ms)} of {time_text(step_ms)} for data, {percent(share)}"
    if share > 1:
        text = (
            f"a step waits {time_text(data_ms)} for data, longer than the {time_text(step_ms)} "
            "that the log states for a step"
        )
    yield Finding(
        kind="data_loading",
        text=sentence(text),
        more=sentence("both are medians over the lines of the log"),
        share=share if share <= 1 else None,
        saves_why=_WHY,
        sure=Sure(what="high"),
        do="Use more workers of the data loader and prefetch, pin memory, and look at the storage "
        "and at what is decoded on the host.",
    )


def _of_timers(timers: StepTimers) -> Iterator[Finding]:
    yield from _uneven(timers)
    parts = {name: median(times) or 0.0 for name, times in timers.parts.items() if times}
    whole = sum(parts.values())
    if whole > 0:
        yield _largest_part(parts, whole, len(timers.parts["forward"]), is_micro=timers.is_micro)


def _largest_part(
    parts: Mapping[str, float], whole: float, count: int, *, is_micro: bool
) -> Finding:
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    name, most = ordered[0]
    step = "micro-step" if is_micro else "step"
    rest = ", ".join(f"{_PART_WORDS[one]} {percent(ms / whole)}" for one, ms in ordered[1:] if ms)
    takes = "take" if name in ("forward", "backward") else "takes"
    return Finding(
        kind="run_log",
        text=sentence(
            f"{_PART_WORDS[name]} {takes} {percent(most / whole)} of a {step} of "
            f"{time_text(whole)} (DeepSpeed's timers)"
        ),
        more=sentence(f"medians of {counted(count, step)}: {rest}") if rest else "",
        saves_why=_WHY,
        sure=Sure(what="high"),
        do=_PART_DO.get(name, _TRACE),
    )


_HOLDS_OTHERS: Final = ("forward-backward", "interval-time")
"""Timers of Megatron around others."""
_WAITS: Final = ("recv", "send", "all-reduce", "all-gather", "reduce-scatter", "params")
"""Words of timers in which a rank may wait: the rank with the least is the last one to come."""


def _uneven(timers: StepTimers) -> Iterator[Finding]:
    """Yield the part of a step in which ranks differ most, where Megatron prints both ends."""
    middles = {
        name: (median([one for one, _ in rows]) or 0.0, median([one for _, one in rows]) or 0.0)
        for name, rows in timers.ranges.items()
    }
    whole = middles.get("forward-backward", (0.0, 0.0))[1] + middles.get("optimizer", (0.0, 0.0))[1]
    whole = whole or sum(most for _, most in middles.values())
    own = {name: ends for name, ends in middles.items()
           if name not in _HOLDS_OTHERS and not any(word in name for word in _WAITS)}  # fmt: skip
    if not own or not whole:
        return
    name, (least, most) = max(own.items(), key=lambda one: one[1][1] - one[1][0])
    apart = (most - least) / whole
    if apart < _UNEVEN:
        return
    yield Finding(
        kind="run_log",
        text=sentence(
            f"ranks take {time_text(least)} to {time_text(most)} for {name}: they differ by "
            f"{percent(apart)} of a step (Megatron's timers)"
        ),
        more=sentence(
            "which rank is slow is not in the log: --timing-log-option all prints every rank"
        ),
        saves_why=_WHY,
        sure=Sure(what="high"),
        do="Compare the ranks: layers of each pipeline stage, micro-batches of unequal length, and "
        "clocks of the devices. " + _TRACE,
    )
