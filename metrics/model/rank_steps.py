"""Find the steps of a rank, and assign device work to them.

A step is a marker on the CPU. Device work belongs to the step that launched it, and may run after
the marker has ended. The copy of a marker on the device has another length and is never a step.
Work without a launch record (Triton kernels that `cuLaunchKernel` starts, copies of ROCm, work
queued before the recording began) is placed by the launched work around it.

A server copies the tokens that it sampled to the host once in each pass: without them it could
neither answer nor begin the next pass. The period of these copies is the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import MAX_TABLE_RATIO, first_rows
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING, Events, Group, RankTrace
from ccltui.parsers.discovery.captures import placement_in, stage_in
from ccltui.parsers.formats import format_of_trace

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


FIRST_MARKER = 1
"""Place of the first marker (`marker_places`)."""


class LikelyPlaces(Struct, frozen=True):
    """Place of the likeliest launch of each event, and a mask of those that are only guessed."""

    place: I64
    guessed: Bool


def marker_places(starts_ns: I64, ends_ns: I64, times_ns: I64) -> I64:
    """Return where each time lies among markers: 2i + 1 in marker i, 2i before it, int64.

    Args:
        starts_ns: start of each marker, ascending.
        ends_ns: end of each marker.
        times_ns: the times.
    """
    index = np.searchsorted(starts_ns, times_ns, side="right") - 1
    after = (index >= 0) & (times_ns >= ends_ns.take(index))
    return np.asarray(np.where(index >= 0, 2 * index + 1 + after, 0))


def likely_places(
    track: I32, launched_at: I64, started_at: I64, unlaunched: Bool, last_place: int
) -> LikelyPlaces:
    """Return the place of the launch of each event without a launch record.

    A stream runs its work in the order of the launches, so that the launched work before and after
    an event on its stream, or on the device where its stream lacks such, bounds its place. Inside
    these bounds it is the marker in which the event starts, moved back by as many markers as begin
    between the launch and the start of the launched work before it. It is a guess where the bounds
    differ and the device lags so or no marker holds the start.

    Args:
        track: stream of each event of the device, by start.
        launched_at: place of each launch (`marker_places`), of any value where ``unlaunched``.
        started_at: place of each start.
        unlaunched: mask of the events without a launch record.
        last_place: the place after the last marker.
    """
    rows = np.flatnonzero(unlaunched)
    before, after = (
        np.where(stream >= 0, stream, device)[rows]
        for stream, device in zip(
            _launched_around(track, ~unlaunched),
            _launched_around(np.zeros_like(track), ~unlaunched),
            strict=True,
        )
    )
    start = started_at[rows]
    earliest = np.where(before >= 0, launched_at[before], 0)
    # Nothing tells work of the first step from work that was launched before the recording.
    earliest = np.maximum(earliest, np.minimum(start, FIRST_MARKER))
    latest = np.where(after >= 0, launched_at[after], last_place)
    # After the last marker no marker tells by how many steps work is late.
    has_lag = (before >= 0) & (start < last_place)
    begun = (started_at[before] + 1) // 2 - (launched_at[before] + 1) // 2
    lag = np.where(has_lag, np.maximum(begun, 0), 0)
    place = np.minimum(np.maximum(start - 2 * lag, earliest), latest)
    is_told = (earliest >= latest) | (start == 0) | ((place == start) & (place % 2 == 1))
    return LikelyPlaces(place, ~is_told)


def _launched_around(track: I32, launched: Bool) -> tuple[I64, I64]:
    """Return the nearest launched rows of one track before and after each row, -1 for none."""
    order = np.argsort(track, kind="stable")
    first = np.searchsorted(track[order], track[order], side="left")
    end = np.searchsorted(track[order], track[order], side="right")
    at = np.arange(len(track))
    known = launched[order]
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, len(at))[::-1])[::-1]
    found = np.full((2, len(track)), -1, np.int64)
    found[0, order] = np.where(before >= first, order[before], -1)
    found[1, order] = np.where(after < end, order[np.minimum(after, len(at) - 1)], -1)
    return found[0], found[1]


NOT_LAUNCHED: Final = np.iinfo(np.int64).min
"""Launch time of device work without a launch record."""
NONE: Final = np.iinfo(np.int64).max
"""Start of the first kernel of a step that has none."""
OUTSIDE: Final = MISSING
"""Step of an event that no marker covers."""


class Step(Struct, frozen=True):
    """One step: its number, and the extent of its marker on the rank's own clock."""

    id: int
    start_ns: int
    end_ns: int

    @property
    def dur_ns(self) -> int:
        """Length of the marker."""
        return self.end_ns - self.start_ns


class Marker(Struct, frozen=True):
    """A convention for marking steps.

    Attributes:
        name: name of the convention in results.
        pattern: pattern of the names of markers.
        number: returns the step number in a name; None numbers the markers in order.
        at_least: least number of markers, for names that also occur outside of loops.
        among_operators: whether old files contain the markers among the operators.
        only_in: format of files in which the name marks a step; "" for all.
    """

    name: str
    pattern: re.Pattern[str]
    number: Callable[[re.Match[str]], int | None]
    at_least: int = 1
    among_operators: bool = False
    convention: str = ""  # `Format.step_marks` of the files where the name marks a step


def _number_in_name(match: re.Match[str]) -> int | None:
    return int(match.group(1)) if match.group(1) else None


def _no_number(_: re.Match[str]) -> int | None:
    return None


# "step 3", "train_step_3", "loader:iteration 7", "Iter#2"; never optimizer_step or backward_step.
_NVTX_STEP: Final = r"(?:\w+:)?(?i:(?:train(?:ing)?|global)[ _-]?)?(?i:step|iteration|iter)"

MARKERS: Final = (
    Marker(
        "ProfilerStep",
        re.compile(r"ProfilerStep(?: ?#(\d{1,18})|\*)"),  # more digits do not fit in an int64
        _number_in_name,
        among_operators=True,
    ),
    Marker("execute_context", re.compile(r"execute_(?:\d+_)?context_\d.*"), _no_number, at_least=2),
    Marker("run_batch", re.compile(r"run_batch\b.*"), _no_number, at_least=2),  # SGLang
    Marker("step[…]", re.compile(r"step\[[A-Z_]+\b[^\]]*\]"), _no_number, at_least=2),  # likewise
    Marker(
        "NVTX step",
        re.compile(f"{_NVTX_STEP}[ _#:=-]*([0-9]{{1,9}})"),
        _number_in_name,
        convention="nvtx",
    ),
    Marker("NVTX step", re.compile(_NVTX_STEP + "()"), _no_number, at_least=2, convention="nvtx"),
    Marker("XLA step", re.compile(r"(\d{1,18})"), _number_in_name, convention="xla"),
)


def steps_of(trace: RankTrace) -> tuple[tuple[Step, ...], str | None]:
    """Return the steps of a rank by start, and the marker used; ((), None) without markers.

    Decode passes of a server that marks none are steps, where they show (`DECODE_LOOP`).

    Markers are annotations; files of 2020 to 2022 contain those of the profiler among the
    operators. Of two markers with one number the longer is used: a step may be marked on two
    threads.
    """
    names: dict[Group, dict[int, str]] = {}
    convention = format_of_trace(trace).step_marks
    for marker in MARKERS:
        if marker.convention not in ("", convention):
            continue
        for group in _GROUPS if marker.among_operators else _GROUPS[:1]:
            events = trace.group(group)
            if group not in names:
                names[group] = {i: trace.text(i) for i in distinct(events.name)}
            steps = _marked(trace, events, names[group], marker)
            if steps:
                return steps, marker.name
    if not is_server(trace):
        return (), None
    passes = steps_among(passes_of(trace, launch_times(trace, launch_rows(trace))))
    if passes:
        return tuple(Step(one.id, one.start_ns, one.end_ns) for one in passes), DECODE_LOOP
    return (), None


DECODE_LOOP: Final = "decode loop"
"""Convention of a server whose passes are not marked: `passes_of`."""
LOOP_PERIOD: Final = "period of the decode loop"
"""What is the duration of a step there."""
_GROUPS: Final[tuple[Group, ...]] = ("annotations", "cpu_ops")


def profiler_steps(trace: RankTrace) -> tuple[tuple[Step, ...], str | None]:
    """Return `steps_of` where the profiler marks them among the annotations, else ((), None).

    They follow from the names, starts and durations of the annotations alone.
    """
    annotations, marker = trace.group("annotations"), MARKERS[0]
    names = {i: trace.text(i) for i in distinct(annotations.name)}
    steps = _marked(trace, annotations, names, marker)
    return steps, marker.name if steps else None


def _marked(
    trace: RankTrace, events: Events, names: Mapping[int, str], marker: Marker
) -> tuple[Step, ...]:
    matched = {i: m for i, text in names.items() if (m := marker.pattern.fullmatch(text))}
    if not matched:
        return ()
    rows = np.flatnonzero(any_name(trace.strings, events.name, list(matched)) & (events.dur_ns > 0))
    if len(rows) < marker.at_least:
        return ()
    return _steps(events, rows.tolist(), {i: marker.number(m) for i, m in matched.items()})


def _steps(events: Events, rows: list[int], numbers: dict[int, int | None]) -> tuple[Step, ...]:
    longest: dict[int, Step] = {}
    for ordinal, row in enumerate(rows):
        stated = numbers[int(events.name[row])]
        start = int(events.start_ns[row])
        step = Step(ordinal if stated is None else stated, start, start + int(events.dur_ns[row]))
        known = longest.get(step.id)
        if known is None or step.dur_ns > known.dur_ns:
            longest[step.id] = step
    return tuple(sorted(longest.values(), key=lambda step: step.start_ns))


def launch_rows(trace: RankTrace, chosen: I64 | None = None) -> I32:
    """Return the row of ``runtime`` that launched each row of ``gpu``, int32, -1 where unknown.

    ``chosen`` are the rows of ``gpu`` that are asked for; None for all.
    """
    work = trace.group("gpu").correlation
    work = work if chosen is None else work.take(chosen)
    return first_rows(trace.group("runtime").correlation, work)


def launch_times(trace: RankTrace, rows: I32) -> I64:
    """Return the launch time of each row of ``gpu``, int64 ns.

    ``rows`` is the result of `launch_rows`; where it is -1 the time is `NOT_LAUNCHED`.
    """
    starts = trace.group("runtime").start_ns
    if not len(starts):
        return np.full(len(rows), NOT_LAUNCHED)
    return np.where(rows >= 0, starts.take(rows), NOT_LAUNCHED)


class StepWork(Struct, frozen=True):
    """The step of each row of ``gpu``, and the extent of each step on the device.

    Attributes:
        steps: the steps.
        index: index into ``steps`` of each row, OUTSIDE where it belongs to none.
        uncorrelated: mask of the rows without a launch record.
        start_ns: first start of the work of each step.
        end_ns: last end of the work of each step, equal to the start where it has none.
        num_guessed: number of rows whose step neither their stream nor a marker determines.
    """

    steps: tuple[Step, ...]
    index: I32
    uncorrelated: Bool
    start_ns: I64
    end_ns: I64
    num_guessed: int = 0

    @property
    def ids(self) -> I64:
        """Step id of each row, OUTSIDE for rows of no step."""
        return self._ids.take(self.index)

    def ids_of(self, rows: I64) -> I64:
        """Return the step ids of some rows."""
        return self._ids.take(self.index.take(rows))

    @property
    def _ids(self) -> I64:
        """Id of each step, and OUTSIDE, which the index -1 finds."""
        return np.array([step.id for step in self.steps] + [OUTSIDE], np.int64)


def step_of_work(
    trace: RankTrace,
    steps: tuple[Step, ...],
    launched: Callable[[], I64] | None = None,
    steps_of_all: Callable[[tuple[Step, ...]], I32 | None] | None = None,
) -> StepWork:
    """Assign the device work of a rank to its steps.

    Work with a launch record belongs to the step whose marker covers the launch; the step of other
    work follows from the launched work around it and from its start (`likely_places`).

    Args:
        trace: the columns of the rank.
        steps: the steps of the rank.
        launched: returns the result of `launch_times`, which is needed where some work has no
            launch record; computed if None.
        steps_of_all: returns the result of `steps_of_launches`; computed if None.
    """
    found = _step_of_launched(trace, steps, steps_of_all)
    if found is not None:
        return found
    gpu = trace.group("gpu")
    times = launch_times(trace, launch_rows(trace)) if launched is None else launched()
    uncorrelated = times == NOT_LAUNCHED
    if not steps:
        nothing = np.empty(0, np.int64)
        index = np.full(len(gpu), OUTSIDE, np.int32)
        return StepWork((), index, uncorrelated, nothing, nothing)
    index = covering(steps, times).astype(np.int32)
    guessed = np.zeros(0, np.bool_)
    if uncorrelated.any():
        is_host_marked = format_of_trace(trace).step_marks != "xla"  # there devices mark steps
        index[uncorrelated], guessed = _without_launch(
            gpu, steps, times, uncorrelated, may_be_late=is_host_marked
        )
    start, end = _extents(gpu, index, len(steps))
    return StepWork(steps, index, uncorrelated, start, end, int(guessed.sum()))


def _step_of_launched(
    trace: RankTrace,
    steps: tuple[Step, ...],
    steps_of_all: Callable[[tuple[Step, ...]], I32 | None] | None = None,
) -> StepWork | None:
    """Do what `step_of_work` does in compiled passes, where all work has a launch record.

    A sixth of the time. None where it has not, or where nothing was compiled.
    """
    index = steps_of_launches(trace, steps) if steps_of_all is None else steps_of_all(steps)
    if index is None:
        return None
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    gpu = trace.group("gpu")
    first, last = _passes.extents(index, gpu.start_ns, gpu.dur_ns, len(steps))
    empty = first > last
    first[empty] = last[empty] = 0
    has_record = np.zeros(1, np.bool_)
    return StepWork(steps, index, np.broadcast_to(has_record, len(index)), first, last)


def steps_of_launches(trace: RankTrace, steps: tuple[Step, ...]) -> I32 | None:
    """Return the index of the step that launched each row of ``gpu``, OUTSIDE of none, int32.

    None where some work has no launch record, or where nothing was compiled.
    """
    gpu, runtime = trace.group("gpu"), trace.group("runtime")
    if not steps or not len(runtime) or not available():
        return None
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    starts = np.array([step.start_ns for step in steps], np.int64)
    ends = np.array([step.end_ns for step in steps], np.int64)
    launches = tuple(map(np.ascontiguousarray, (runtime.correlation, runtime.start_ns)))
    wanted, most = np.ascontiguousarray(gpu.correlation), MAX_TABLE_RATIO * len(runtime)
    found: I32 | None = _passes.steps_of_launches(wanted, launches, (starts, ends), most)
    return found


def _without_launch(
    gpu: Events,
    steps: tuple[Step, ...],
    launched: I64,
    uncorrelated: Bool,
    *,
    may_be_late: bool,
) -> tuple[I64, Bool]:
    """Return the step index of each event without a launch record, and which are guessed.

    Work after a marker that nothing assigns counts in the step of that marker if devices ``may be
    late``: they often end a step after the host, and hosts launch little between steps. After the
    last marker it counts for as long as a step takes.
    """
    starts = np.array([step.start_ns for step in steps], np.int64)
    ends = np.array([step.end_ns for step in steps], np.int64)
    launched_at = marker_places(starts, ends, launched)
    started_at = marker_places(starts, ends, gpu.start_ns)
    likely = likely_places(gpu.track, launched_at, started_at, uncorrelated, 2 * len(steps))
    index = np.where(likely.place % 2 == 1, likely.place // 2, OUTSIDE)
    guessed = likely.guessed & may_be_late
    index = np.where(guessed, (likely.place - 1) // 2, index)
    longest = max(int(np.diff(starts).max(initial=0)), steps[-1].dur_ns)
    too_late = gpu.start_ns[uncorrelated] >= steps[-1].end_ns + longest
    return np.where(too_late & guessed, OUTSIDE, index), guessed


FAR_AHEAD: Final = 0.5
"""Part of the step before, on the stream that computes most, that has passed when a step begins:
kernels of a stream that waits for nothing run ahead by several steps."""


def device_spans(
    trace: RankTrace, is_kernel: Bool, computes: Bool, work: StepWork
) -> tuple[I64, I64]:
    """Return begin and end of each step on the device, int64 ns; equal where it has no work.

    A step lasts from its first work to the first work of the next step with work, so that a
    device that waits between two steps is idle in the former. The last step lasts until all work
    launched so far has ended, and so does a step after which it is not known what the device did:

    * the number of the next marker is not the next number, because the profiler was off between
      the two (schedules that wait, warm up and record again) or the steps between have no marker;
    * the recording was stopped between the two markers (`cudaProfilerStop`).

    Work of a step that is still running when the next one begins is in the time of the next: the
    spans are disjoint. A copy that starts while the steps before still run is fetched ahead; such
    a step begins with its first kernel, of the stream that computes most where others run far ahead
    of that (`FAR_AHEAD`).

    Args:
        trace: the columns of the rank.
        is_kernel: mask of the rows of ``gpu`` that are kernels, not copies.
        computes: mask of the kernels that compute.
        work: result of `step_of_work`.
    """
    begin, end = work.start_ns.copy(), work.start_ns.copy()
    rows = np.flatnonzero(work.end_ns > work.start_ns)
    if not len(rows):
        return begin, end
    first, last = work.start_ns[rows], np.maximum.accumulate(work.end_ns[rows])
    ahead = np.append(False, first[1:] < last[:-1])
    if ahead.any():
        gpu = trace.group("gpu")
        kernels = _first_kernels(gpu, is_kernel, work)[rows]
        first = np.where(ahead & (kernels < NONE), kernels, first)
        earliest = first.min()
        main = _first_kernels(gpu, is_kernel & _on_main_stream(gpu, computes), work)[rows]
        main = np.where(main < NONE, main, first)
        half = main[:-1] + FAR_AHEAD * (main[1:] - main[:-1])
        first = np.where(ahead & np.append(False, first[1:] < half), main, first)
        first[0] = earliest
        first = np.maximum.accumulate(first)
    until = np.append(first[1:], last[-1])
    follows = np.append(_is_followed(trace, work.steps, rows), True)
    begin[rows], end[rows] = first, np.where(follows, until, np.minimum(until, last))
    return begin, end


_RECORDING_STOPS: Final = re.compile(r"(?:cu|cuda|hip)ProfilerStop")


def _is_followed(trace: RankTrace, steps: tuple[Step, ...], rows: I64) -> Bool:
    """Whether the device was recorded from each of some steps to the next of them."""
    ids = np.array([step.id for step in steps], np.int64)
    breaks = np.append(0, np.cumsum(np.diff(ids) != 1))
    runtime = trace.group("runtime")
    begin = np.searchsorted(runtime.start_ns, [step.end_ns for step in steps[:-1]])
    stop = np.searchsorted(runtime.start_ns, [step.start_ns for step in steps[1:]])
    for at in np.flatnonzero(stop > begin).tolist():  # calls between two markers: few or none
        names = distinct(runtime.name[begin[at] : stop[at]])
        if any(_RECORDING_STOPS.match(trace.text(i)) for i in names):
            breaks[at + 1 :] += 1
    of_rows = breaks[rows]
    return np.asarray(of_rows[1:] == of_rows[:-1])


def _on_main_stream(gpu: Events, computes: Bool) -> Bool:
    """Mask of the rows on the stream with the most time of kernels that compute."""
    time_ns = np.bincount(gpu.track[computes], gpu.dur_ns[computes])
    return np.asarray(gpu.track == time_ns.argmax()) if len(time_ns) else np.ones_like(computes)


def _first_kernels(gpu: Events, is_kernel: Bool, work: StepWork) -> I64:
    """Start of the first kernel of each step, int64 ns; the highest int64 where it has none."""
    first = np.full(len(work.steps), NONE)
    rows = np.flatnonzero(is_kernel & (work.index >= 0))[::-1]
    first[work.index[rows]] = gpu.start_ns[rows]  # of one place the last value stays: the earliest
    return first


def covering(steps: tuple[Step, ...], times_ns: I64) -> I64:
    """Return the index of the step whose marker covers each time, OUTSIDE where none does."""
    starts = np.array([step.start_ns for step in steps], np.int64)
    ends = np.array([step.end_ns for step in steps], np.int64)
    if len(steps) < len(times_ns) and not (times_ns[1:] < times_ns[:-1]).any():
        return _covering_ascending(starts, ends, times_ns)
    index = np.searchsorted(starts, times_ns, side="right") - 1
    return np.where((index >= 0) & (times_ns < ends.take(index)), index, OUTSIDE)


def _covering_ascending(starts: I64, ends: I64, times_ns: I64) -> I64:
    """Return `covering` of ascending times: steps are searched in the times, which are more."""
    begin = np.searchsorted(times_ns, starts)
    until = np.append(begin[1:], len(times_ns))
    stop = np.clip(np.searchsorted(times_ns, ends), begin, until)
    index = np.full(len(times_ns), OUTSIDE, np.int64)
    for number, (first, last) in enumerate(zip(begin.tolist(), stop.tolist(), strict=True)):
        index[first:last] = number
    return index


def launched_before_recording(gpu: Events, uncorrelated: Bool) -> Bool:
    """Mask of the work that was launched before the recording began.

    It is that without a launch record, where each stream ran it before all work with one: a stream
    runs its work in the order of the launches. Elsewhere records are missing for other reasons.

    Args:
        gpu: device work of a rank.
        uncorrelated: mask of its rows without a launch record.
    """
    if not uncorrelated.any():
        return uncorrelated
    track = np.maximum(gpu.track, 0)
    first = np.full(int(track.max(initial=0)) + 1, np.iinfo(np.int64).max)
    # Starts ascend, and of several values for one place the last is assigned: the earliest here.
    first[track[~uncorrelated][::-1]] = gpu.start_ns[~uncorrelated][::-1]
    without = track[uncorrelated]
    known = first[without] < np.iinfo(np.int64).max
    is_first = known.all() and (gpu.start_ns[uncorrelated] < first[without]).all()
    return uncorrelated if is_first else np.zeros_like(uncorrelated)


def _extents(gpu: Events, index: I32, num_steps: int) -> tuple[I64, I64]:
    first = np.full(num_steps, np.iinfo(np.int64).max)
    last = np.full(num_steps, np.iinfo(np.int64).min)
    edges = np.flatnonzero(np.diff(index, prepend=OUTSIDE - 1))
    if len(edges):  # work of one step comes in runs: one number of each is far less
        of_run = index.take(edges)
        inside = of_run >= 0
        of_run = of_run.compress(inside)
        np.minimum.at(first, of_run, np.minimum.reduceat(gpu.start_ns, edges).compress(inside))
        np.maximum.at(last, of_run, np.maximum.reduceat(gpu.end_ns, edges).compress(inside))
    empty = first > last
    first[empty] = last[empty] = 0
    return first, last
