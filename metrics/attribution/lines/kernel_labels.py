"""Label kernels as forward, backward or optimizer, by launching thread, else by name."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ccltui.metrics.attribution.lines.step_lines import IN_BACKWARD, IN_FORWARD, IN_OPTIMIZER
from ccltui.metrics.model.classify import COMM, distinct, per_name
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I8

LEAST_SHARE: Final = 0.05
"""Share of the kernels that a second thread launches, from which it is the backward thread."""

_FORWARD = re.compile(r"(?i)(?:^|[_:<\W])(?:fwd|fprop|forward)(?:[_:<\W\d]|$)")
_BACKWARD = re.compile(r"(?i)(?:^|[_:<\W])(?:bwd|dgrad|wgrad|backward)(?:[_:<\W\d]|$)")
_OPTIMIZER = re.compile(r"multi_tensor_apply|[Aa]dam(?:[wW]?[_A-Z]|w?$)|(?i:optimizer)")


def kernel_labels(facts: RankFacts) -> I8:
    """Return the label of each row of ``gpu``, int8: IN_FORWARD, …, 0 where it is not known."""
    by_thread = _by_thread(facts)
    return _by_name(facts) if by_thread is None else by_thread


def _by_thread(facts: RankFacts) -> I8 | None:
    """Backward is what the autograd engine's own thread launches; None without such a thread."""
    runtime = facts.trace.group("runtime")
    known = facts.launch_row >= 0
    kernels = np.flatnonzero((facts.classes != COMM) & known)
    if not len(kernels):
        return None
    thread = runtime.track.take(facts.launch_row.take(kernels))
    counts = np.bincount(np.maximum(thread, 0))
    main = _main_thread(facts, thread)
    counts[main] = 0
    other = int(counts.argmax())
    if counts[other] < LEAST_SHARE * len(kernels):
        return None
    labels = np.zeros(len(facts.classes), np.int8)
    labels[kernels[thread == main]] = IN_FORWARD
    labels[kernels[thread == other]] = IN_BACKWARD
    return labels


def _main_thread(facts: RankFacts, thread: np.ndarray[tuple[int], np.dtype[np.int32]]) -> int:
    """Thread of the step markers where it launches kernels, else that of the first kernel."""
    marks = facts.trace.group("annotations")
    steps = facts.marked_steps[0]
    if steps:
        row = int(np.searchsorted(marks.start_ns, steps[0].start_ns))
        if row < len(marks) and (thread == marks.track[row]).any():
            return int(marks.track[row])
    return int(max(thread[0], 0))


def _by_name(facts: RankFacts) -> I8:
    gpu, found = facts.trace.group("gpu"), {}
    for name in distinct(gpu.name):
        text = facts.trace.text(name)
        if _OPTIMIZER.search(text):
            found[name] = IN_OPTIMIZER
        elif _BACKWARD.search(text):
            found[name] = IN_BACKWARD
        elif _FORWARD.search(text):
            found[name] = IN_FORWARD
    if IN_BACKWARD not in found.values():
        found = {}
    labels = per_name(facts.trace.strings, gpu.name, found, 0)
    labels[facts.classes == COMM] = 0
    return labels
