"""Find the passes of an inference server in a trace without markers.

A server copies the tokens that it sampled to the host once in each pass: without them it could
neither answer nor begin the next pass. The period of these copies is the step.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.placed_names import placement_in, stage_in

_SERVER: Final = re.compile(
    r"vllm|sglang|sgl_kernel|flashinfer|paged_?attention|reshape_and_cache|split_?kv|"
    r"BatchDecode|decode_attention|resolve_future_token_ids",
    re.IGNORECASE,
)
"""Kernels of servers; training runs none of them."""
_TO_HOST: Final = re.compile(r"co?py.*(?:DtoH|Device-?to-?Host|Device -> Host)", re.IGNORECASE)
"""Names of PyTorch, of ROCm and of nsys."""
_REPLAY: Final = re.compile(r"(?:cu|cuda|hip)GraphLaunch\b.*")
LEAST_PASSES: Final = 3
"""Fewer show no period."""
_TOGETHER: Final = 0.25
"""Copies are of one pass where fewer kernels than this share of the most are launched between two
of them: a server copies several things between two passes, and passes run about equally many."""
_WHOLE: Final = 0.9
"""The first and the last pass count if they run as many kernels as the median pass, or nearly."""
LEAST_REPLAYED: Final = 64
"""Kernels of a graph that is a whole pass: a model has hundreds, a layer ten to thirty."""


_DECODE_KERNEL: Final = re.compile(r"decode|paged_?attention|split_?kv", re.IGNORECASE)
_PREFILL_KERNEL: Final = re.compile(
    r"prefill|extend_attention|context_attention|flash_fwd_kernel", re.IGNORECASE
)
Phase = Literal["prefill", "decode", "mixed", "unknown"]
STAGES: Final[dict[str, Phase]] = {
    "EXTEND": "prefill",
    "PREFILL": "prefill",
    "DECODE": "decode",
    "MIXED": "mixed",
}
"""Phases by the words of SGLang."""


class Pass(Struct, frozen=True):
    """One pass: its number, begin and end on the host in ns, and its phase."""

    id: int
    start_ns: int
    end_ns: int
    phase: Phase


def is_server(trace: RankTrace) -> bool:
    """Whether the name of the file, or a kernel, is one of vLLM's or SGLang's."""
    if placement_in(trace.source.path) is not None:
        return True
    return any(_SERVER.search(trace.text(i)) for i in distinct(trace.group("gpu").name))


def replays_of(trace: RankTrace) -> I64:
    """Return the rows of ``runtime`` that replay a graph."""
    runtime = trace.group("runtime")
    named = [i for i in distinct(runtime.name) if _REPLAY.fullmatch(trace.text(i))]
    return np.flatnonzero(any_name(trace.strings, runtime.name, named))


def passes_of(trace: RankTrace, launched_ns: I64) -> tuple[Pass, ...]:
    """Return the passes that no marker shows, in order of time; empty where no period shows.

    Args:
        trace: The columns of a rank.
        launched_ns: Launch time of each row of ``gpu``, the lowest int64 where unknown.
    """
    gpu = trace.group("gpu")
    if not len(gpu) or not is_server(trace):
        return ()
    known = launched_ns > np.iinfo(np.int64).min
    names = [i for i in distinct(gpu.name) if _TO_HOST.search(trace.text(i))]
    copies = any_name(trace.strings, gpu.name, names) & known
    launches = np.sort(launched_ns[known & ~copies])
    bounds = _between(np.sort(launched_ns[copies]), launches) or _replayed(trace, launches)
    stage = STAGES.get(stage_in(trace.source.path))
    replays = trace.group("runtime").start_ns[replays_of(trace)]
    return tuple(
        Pass(i, start, end, stage or _phase_of(trace, launched_ns, replays, (start, end)))
        for i, (start, end) in enumerate(bounds)
    )


def steps_among(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """Return the passes that are the steps: those of decode where there are enough, else all."""
    decode = tuple(one for one in passes if one.phase == "decode")
    return decode if len(decode) >= LEAST_PASSES else passes


def _phase_of(trace: RankTrace, launched_ns: I64, replays: I64, bounds: tuple[int, int]) -> Phase:
    """Return the phase of a pass by its attention; where that tells nothing, by a replay.

    Servers replay graphs for decode, and launch the kernels of a prefill of any length one by one.
    """
    rows = np.flatnonzero((launched_ns >= bounds[0]) & (launched_ns < bounds[1]))
    names = [trace.text(i) for i in distinct(trace.group("gpu").name[rows])]
    # flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<…>> is of decode: its own name decides.
    of_decode = {name for name in names if _DECODE_KERNEL.search(name)}
    is_decode = bool(of_decode)
    is_prefill = any(_PREFILL_KERNEL.search(name) for name in names if name not in of_decode)
    if is_decode or is_prefill:
        return "mixed" if is_decode and is_prefill else "decode" if is_decode else "prefill"
    if not len(replays):
        return "unknown"
    first, last = np.searchsorted(replays, bounds)
    return "decode" if first < last else "prefill"


def _replayed(trace: RankTrace, launches: I64) -> list[tuple[int, int]]:
    """Return the passes by the replays of graphs that are whole passes."""
    starts = trace.group("runtime").start_ns[replays_of(trace)]
    per_replay = np.diff(np.searchsorted(launches, np.append(starts, np.iinfo(np.int64).max)))
    if len(starts) <= LEAST_PASSES or np.median(per_replay) < LEAST_REPLAYED:
        return []
    return list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))


def _between(copied: I64, launches: I64) -> list[tuple[int, int]]:
    """Return the passes between copies: each ends with the last of the copies after it."""
    if len(copied) < LEAST_PASSES or not len(launches):
        return []
    place = np.searchsorted(launches, copied)
    kernels = np.diff(place)
    apart = kernels > _TOGETHER * kernels.max(initial=0)
    ends = copied[np.append(apart, True)]
    edges = np.concatenate(([launches[0]], ends + 1, [max(launches[-1], ends[-1]) + 1]))
    counts = np.diff(np.searchsorted(launches, edges))
    inner = counts[1:-1]
    if len(inner) < LEAST_PASSES - 1:
        return []
    whole = counts >= _WHOLE * np.median(inner)
    whole[1:-1] = True
    bounds = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    found = [one for one, is_whole in zip(bounds, whole.tolist(), strict=True) if is_whole]
    return found if len(found) >= LEAST_PASSES else []
