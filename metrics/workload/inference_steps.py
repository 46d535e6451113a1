"""Find the iterations of an inference server in the ranges that vLLM and SGLang mark.

vLLM names the numbers of requests and tokens in prefill (context) and in decode (generation):
``execute_context_1(888)_generation_0(0)``, with the sum of squared lengths after an underscore,
or ``execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)``. SGLang
marks ``run_batch`` without numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.model.classify import any_name, distinct

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

Phase = Literal["prefill", "decode", "mixed", "unknown"]

_TOKENS = re.compile(
    r"execute_context_(\d+)\((\d+)(?:_(\d+))?\)_generation_(\d+)\((\d+)(?:_(\d+))?\).*"
)
_LENGTHS = re.compile(
    r"execute_\d+_context_(\d+)\(sq(\d+)sk\d+sqsq\d+sqsk(\d+)\)"
    r"_generation_(\d+)\(sq(\d+)sk\d+sqsq\d+sqsk(\d+)\).*"
)
_UNNAMED = re.compile(r"run_batch\b.*|execute_(?:\d+_)?context_\d.*")


class Batch(Struct, frozen=True):
    """Contents of an iteration by its name; None where the name does not contain a number.

    ``tokens`` are the new tokens. ``pairs``, query length times key length summed over requests, is
    proportional to the cost of attention.
    """

    phase: Phase
    tokens: int | None = None
    pairs: int | None = None


class Iteration(Struct, frozen=True):
    """One iteration: its time on the device where recorded, else that of its marker, in ns."""

    start_ns: int
    dur_ns: int
    batch: Batch
    on_device: bool


def batch_of(name: str) -> Batch | None:
    """Parse the name of a range; None where it is no iteration of a server."""
    for pattern in (_TOKENS, _LENGTHS):
        found = pattern.fullmatch(name)
        if found is not None:
            return _batch([-1 if part is None else int(part) for part in found.groups()])
    return Batch("unknown") if _UNNAMED.fullmatch(name) else None


def _batch(numbers: list[int]) -> Batch:
    """Batch of requests, tokens and pairs in prefill, then the same in decode; -1 is unknown."""
    prefills, new, new_pairs, decodes, generated, pairs = numbers
    if prefills and decodes:
        return Batch("mixed", new + generated)
    phase: Phase = "prefill" if prefills else "decode" if decodes else "unknown"
    tokens, cost = (new, new_pairs) if prefills else (generated, pairs)
    return Batch(phase, tokens, None if cost < 0 else cost)


def iterations_of(rank: RankView) -> list[Iteration]:
    """Return the iterations that the rank's view selects, in order of time."""
    events = rank.trace.group("annotations")
    named = {i: batch for i in distinct(events.name) if (batch := batch_of(rank.trace.text(i)))}
    rows = np.flatnonzero(any_name(rank.trace.strings, events.name, list(named)))
    rows = rows[(events.dur_ns[rows] > 0) & rank.contains(events.start_ns[rows])]
    found = []
    for row in rows.tolist():
        start, end = int(events.start_ns[row]), int(events.end_ns[row])
        device = _device_time(rank, start, end)
        begin, length = (start, end - start) if device is None else device
        batch = named[int(events.name[row])]
        found.append(Iteration(begin, length, batch, device is not None))
    return found


def _device_time(rank: RankView, start_ns: int, end_ns: int) -> tuple[int, int] | None:
    """Start and length of the device work that was launched in a range, None without any."""
    launched, gpu = rank.facts.launched_ns, rank.trace.group("gpu")
    rows = np.flatnonzero((launched >= start_ns) & (launched < end_ns))
    if not len(rows):
        return None
    first, last = int(gpu.start_ns[rows].min()), int(gpu.end_ns[rows].max())
    return first, last - first


def with_guessed_phases(iterations: list[Iteration]) -> list[tuple[Phase, Iteration]]:
    """Return each iteration with its phase; if no name has one, prefill first and decode after."""
    if any(one.batch.phase != "unknown" for one in iterations):
        return [(one.batch.phase, one) for one in iterations]
    return [("prefill" if i == 0 else "decode", one) for i, one in enumerate(iterations)]


PROXY_WARNING: Final = (
    "a proxy from the trace alone: it does not include queueing, chunked prefill and requests "
    "that join or leave a batch"
)
