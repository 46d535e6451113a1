"""Warnings and uncertain results, with advice where there is any, and panes that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui import slow_path
from ccltui.draw.palette import Ink
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers import numbers
from ccltui.parsers.columns import note_groups
from ccltui.parsers.device_times import lost_times
from ccltui.parsers.numbers import time_text
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.window import MissingRanks, ranges_text
from ccltui.tui.state.finding_rows import details
from ccltui.tui.state.pane import all_panes
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.parsers.job import Job
    from ccltui.parsers.plug_ins import Skipped

_skipped: list[Skipped] = []
_failed: dict[str, Skipped] = {}


def set_skipped(entries: list[Skipped]) -> None:
    """Set the entries that are not used."""
    _skipped[:] = entries


def add_failure(pane: str, failed: Skipped) -> None:
    """Add that a method of a pane has failed; the last failure of a pane is kept."""
    _failed[pane] = failed


def failure_of(pane: str) -> str:
    """Return why a pane has no picture; "" where nothing failed."""
    found = _failed.get(pane)
    return "" if found is None else found.text


def plugged_problems() -> tuple[str, ...]:
    """Return one line for each entry that is not used, and for each pane that failed."""
    names = {pane.name for pane in all_panes()}
    failed = (one for name, one in _failed.items() if name in names)
    return tuple(one.text for one in (*_skipped, *failed))


_ADVICE: Final[Mapping[str, str]] = {
    "truncated_trace": "Events before the end of the file are read. A file ends early where the "
    "process was killed or the disk was full while the profiler wrote: record it again.",
    "damaged_trace": "Rows may be missing or wrong. Copy the file again from where it was written, "
    "or export the report again with nsys.",
    "device_times": "Such events are recorded by faulty drivers or profilers. Those of one device "
    "or step are left out of its times; record again where they are many.",
    "partly_read": "The beginning of large files is shown while they are read. The numbers are "
    "those of that part and change when the whole ranks are there.",
    "malformed_event": "The other events of the file are read.",
    "missing_ranks": "Numbers cover only the ranks that are here. Copy the files of the others "
    "into the directory to cover all.",
    "rank_conflict": "Two files claim one rank: state with --rank-map which file is which rank.",
    "world_size_conflict": "Keep the files of one run in one directory.",
    "single_rank": "Open the directory that holds the files of all ranks.",
    "clock_unknown": "Durations can be compared, moments of different hosts cannot. Clocks are "
    "compared by collectives of all ranks of a group: record some of them.",
    "unmatched_collectives": "Record with a PyTorch that writes sequence numbers and groups of "
    "collectives (2.2 or later), the same steps on every rank.",
    "no_step_markers": "Call profiler.step() once a step, or give a window of time with t.",
    "read_elsewhere": "The command reads the ranks into the store, on a cluster with --engine "
    "slurm or dask; then this directory opens without reading.",
    "no_card": "Put a workload card beside the traces, or give --set name=value.",
    "card_invalid": "Numbers that need the card are not computed: correct the file.",
    "card_incomplete": "Give what is missing with --set name=value.",
    "no_gpu_events": "Record with ProfilerActivity.CUDA.",
    "no_process_groups": "Record with a PyTorch that writes process groups (2.2 or later).",
}

_RANKS_LISTED: Final = 4
_NORMAL: Final[Mapping[str, str]] = {
    "execution_trace": "The execution trace beside it describes calls that the trace does not.",
}
"""Notes of the readers that are no problem, with what they mean."""


class NoteRow(Struct, frozen=True):
    """One remark: its text with a sign, its ink, and advice, "" where there is none."""

    text: str
    ink: Ink
    advice: str = ""


def notes(scene: Scene) -> list[NoteRow]:
    """Return failed files, then notes of the readers; those that are no problem come last."""
    job = scene.session.job
    if job is None:
        problem = scene.session.problem
        return [NoteRow(f"x {problem}", Ink.ERROR)] if problem else []
    found = [NoteRow(f"x {failure.error}", Ink.ERROR) for failure in job.failures]
    if job.card_problem:
        text = f"x workload card: {job.card_problem}"
        found.append(NoteRow(text, Ink.ERROR, _ADVICE["card_invalid"]))
    found += [
        _of_reader("", note.code, f"{note.message}{_choice(job, note.code)}") for note in job.notes
    ]
    found += [NoteRow(f"! {text}", Ink.WARNING) for text in plugged_problems()]
    if slower := slow_path.summary():
        found.append(
            NoteRow(f"! {slower}", Ink.WARNING, f"For the faster one {slow_path.remedy()}")
        )
    for group in note_groups(job.ranks):
        names = listed([rank_name(trace.label) for trace in group.traces], _RANKS_LISTED)
        found.append(_of_reader(f"{names}: ", group.note.code, group.message))
    return sorted(found, key=lambda note: note.ink is Ink.DIM)


def _choice(job: Job, code: str) -> str:
    """Return which of several captures is open, and the pane that opens another."""
    if code != "several_captures":
        return ""
    return f"; {printable(job.capture.name)} is open, 5 Files opens another"


def _of_reader(sign: str, code: str, message: str) -> NoteRow:
    if code in _NORMAL:
        return NoteRow(f"{sign}{message}", Ink.DIM, _NORMAL[code])
    return NoteRow(f"! {sign}{message}", Ink.WARNING, _ADVICE.get(code, ""))


def remarks_on(result: Result) -> list[NoteRow]:
    """Return the reasons and warnings of a metric, with advice."""
    merged = merged_reasons(result.reasons)
    advice_of = {message: _ADVICE.get(code, "") for code, message in merged}
    advice_of |= {text: "" for text in result.warnings if text not in advice_of}
    return [NoteRow(f"! {text}", Ink.WARNING, advice) for text, advice in advice_of.items()]


def trust(scene: Scene) -> NoteRow:
    """Return what the numbers rest on: ranks, matches, clocks, message sizes, damaged files."""
    job = scene.session.job
    worlds = [result.inputs.get("world_size") for result in scene.findings.results.values()]
    world = next((size for size in worlds if isinstance(size, int)), None)
    ranks = len(scene.findings.lanes) or scene.session.ranks_loaded
    damage = [] if job is None else _damage(job)
    missing = MissingRanks(0, ()) if job is None else job.missing_ranks
    is_sample = job is not None and bool(job.unread_ranks)
    if is_sample:
        world = ranks + len(missing)
    lacks = world is not None and ranks < world
    of = f" of {world}" if world is not None else ""
    recorded = f"{ranks}{of} {'rank' if (world or ranks) == 1 else 'ranks'}"
    absent = "a sample without" if is_sample else "missing"
    recorded += f", {absent} {ranges_text(missing)}" if lacks and len(missing) else ""
    texts = (
        recorded if ranks else "",
        *_match_and_clocks(scene),
        _hidden_elsewhere(scene),
        *damage,
    )
    text = " · ".join(text for text in texts if text)
    return NoteRow(text, Ink.WARNING if damage or lacks else Ink.DIM)


def _match_and_clocks(scene: Scene) -> Iterator[str]:
    """Yield how surely collectives are matched, whether they have sizes, and the clocks' error."""
    match = details(scene, "straggler_lag").get("match") or {}
    sure = [f"{match[level]} {level}" for level in ("high", "medium", "low") if match.get(level)]
    if sure:
        yield f"matched {', '.join(sure)}"
    left = [f"{match[kind]} {kind}" for kind in ("mismatched", "incomplete") if match.get(kind)]
    yield ", ".join(left)
    bar = details(scene, "clock_offsets").get("residual_p95_us")
    if bar is not None:
        yield f"clocks ±{time_text(bar / 1000)}" if bar >= 1 else "clocks aligned"
    sizes = scene.findings.results.get("collective_volume")
    if sizes is not None and sizes.status == "unavailable" and sure:
        yield "no message sizes"


def _hidden_elsewhere(scene: Scene) -> str:
    """Return how many device events are counted here that other viewers do not draw."""
    count = details(scene, "findings").get("overlapping_events") or 0
    verb = "overlaps" if count == 1 else "overlap"
    what = numbers.counted(count, "device event")
    return f"{what} {verb} on a stream: Perfetto hides {'it' if count == 1 else 'them'}" * (
        count > 0
    )


def _damage(job: Job) -> list[str]:
    """Return how many files are damaged, by kind."""
    found = []
    if job.failures:
        found.append(f"{_files(len(job.failures))} cannot be read")
    doubtful = sum(map(lost_times, job.ranks))
    if doubtful:
        verb = "has an impossible time" if doubtful == 1 else "have impossible times"
        found.append(f"{numbers.counted(doubtful, 'device event')} {verb}")
    codes = [{note.code for note in trace.notes} for trace in job.ranks]
    for code, verb in (("truncated_trace", "truncated"), ("malformed_event", "damaged in places")):
        count = sum(code in one for one in codes)
        if count:
            found.append(f"{_files(count)} {'is' if count == 1 else 'are'} {verb}")
    return found


def _files(count: int) -> str:
    return numbers.counted(count, "file")
