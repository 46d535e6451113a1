"""Immutable snapshot of the loaded data and of its captures; replaced as ranks arrive."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.numbers import counted
from ccltui.tui.state.answers import ViewQuery

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.discovery.discover import Capture
    from ccltui.parsers.job import Job
    from ccltui.report.gates import Gate, Verdict
    from ccltui.tui.options import FollowSettings
    from ccltui.tui.state.answers import Findings, Step


A = TypeVar("A")
R = TypeVar("R")


def of_last(function: Callable[[A], R]) -> Callable[[A], R]:
    """Remember what a function returned of the last argument, while that is the same object.

    For what every frame asks for and only new facts change: of ten thousand ranks, counting them
    takes longer than the rest of a frame.
    """
    last: tuple[A, R] | None = None

    @wraps(function)
    def remembered(argument: A) -> R:
        nonlocal last
        known = last
        if known is None or known[0] is not argument:
            known = last = argument, function(argument)
        return known[1]

    return remembered


class Looked(Struct, frozen=True):
    """One look at the directory: when (seconds since 1970), what differs from the look before.

    ``waiting`` are the files that are not opened yet, and why. ``ended`` is why no further look
    follows, "" where one does.
    """

    at_s: float
    new: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    ended: str = ""

    @property
    def has_changes(self) -> bool:
        """Whether any file came, grew or went."""
        return bool(self.new or self.grown or self.gone)

    def told(self) -> str:
        """Return what differs, in words; "" where nothing does."""
        parts = ((self.new, "new"), (self.grown, "grown"), (self.gone, "gone"))
        return ", ".join(f"{len(paths)} {what}" for paths, what in parts if paths)


class Followed(Struct, frozen=True):
    """What the screen shows of a followed directory. ``chosen`` is the selection of the alerts."""

    alerts: tuple[Gate, ...] = ()
    chosen: ViewOptions = field(default_factory=ViewOptions)
    last: Looked | None = None
    changed: Looked | None = None  # the last look that found a difference
    verdicts: tuple[Verdict, ...] = ()  # of all alerts on the newest complete findings
    alerted: bool = False  # whether any alert ever became true

    @classmethod
    def of(cls, settings: FollowSettings | None, chosen: ViewOptions) -> Followed | None:
        """Return the state before the first look, None where nothing is followed."""
        return None if settings is None else cls(settings.alerts, chosen)

    def after_look(self, looked: Looked) -> Followed:
        """Return the state after a look."""
        changed = looked if looked.has_changes else self.changed
        return replace(self, last=looked, changed=changed)

    def judged(self, verdicts: tuple[Verdict, ...]) -> Followed:
        """Return the state after the alerts were judged on newer findings."""
        return replace(self, verdicts=verdicts, alerted=self.alerted or any(_holding(verdicts)))

    def became_true(self, before: Followed | None) -> list[Verdict]:
        """Return the alerts that hold and did not hold before."""
        known = set() if before is None else {one.gate.text for one in _holding(before.verdicts)}
        return [one for one in _holding(self.verdicts) if one.gate.text not in known]

    def told(self, width: int) -> str:
        """Return when the directory was last looked at, and what came; shorter where it is narrow.

        Args:
            width: Cells of the whole line.
        """
        if self.last is None:
            return "looking"
        if self.last.ended:
            return f"no longer followed: {self.last.ended}"
        parts = [f"looked {clock_time(self.last.at_s)}"]
        if self.last.has_changes:
            parts.append(self.last.told())
        elif self.changed is not None and width >= _WIDE:
            parts.append(f"unchanged since {clock_time(self.changed.at_s)}")
        if self.last.waiting and width >= _WIDE:
            waiting = len(self.last.waiting)
            parts.append(f"{counted(waiting, 'file')} {'waits' if waiting == 1 else 'wait'}")
        return ", ".join(parts)

    def alert_text(self) -> str:
        """Return the conditions that hold, "" where none does."""
        return "; ".join(one.gate.text for one in _holding(self.verdicts))


_WIDE = 100


def _holding(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    return [one for one in verdicts if one.tripped]


def clock_time(at_s: float) -> str:
    """Return the local time of day of a time since 1970, in s."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))


class AlertsQuery(ViewQuery["tuple[Verdict, ...]"], frozen=True):
    """Query for the alerts by the texts of their conditions, on the selection of the start."""

    keeps_last = True

    generation: int
    alerts: tuple[str, ...]
    chosen: ViewOptions

    def answer(self, view: View, findings: Findings) -> tuple[Verdict, ...]:
        """Judge the conditions; metrics that the findings lack are computed here."""
        from ccltui.metrics.registry import find  # noqa: PLC0415
        from ccltui.metrics.view.job_view import View as NewView  # noqa: PLC0415
        from ccltui.report.gates import judge, parse_gate  # noqa: PLC0415

        is_shown = view.options == self.chosen
        known = findings.results if is_shown else {}
        whole = view if is_shown else NewView(view.job, self.chosen, previous=view)
        verdicts = []
        for gate in map(parse_gate, self.alerts):
            metric = find(gate.metric)
            result = known[metric.name] if metric.name in known else metric.run(whole)
            verdicts.append(judge(gate, result))
        return tuple(verdicts)


class FileRow(Struct, frozen=True):
    """Cells of a row (name, kind, rank, size, state), and the capture that enter opens.

    ``rank`` is the number of the rank, or of the ranks of a capture.
    """

    cells: tuple[str, str, str, str, str]
    capture: str | None
    rank: int | None
    size_bytes: int
    ink: Ink = Ink.TEXT
    kind_of_files: str = ""  # of a capture: that of most of its files
    files: str = ""  # of a capture: their number in words


def capture_rows(session: Session) -> list[FileRow]:
    """Return the rows of captures, none where there is no choice."""
    job = session.job
    captures = () if job is None else job.discovery.captures
    if job is None or len(captures) < 2:
        return []
    return [_capture_row(job, capture) for capture in captures]


def _capture_row(job: Job, capture: Capture) -> FileRow:
    """Return the row of a capture: number of loaded ranks, and whether it is the open one."""
    name = capture.name or "(the directory itself)"
    of = "" if capture.world_size is None else f" of {capture.world_size}"
    size_bytes = sum(file.size_bytes for file in capture.files)
    size = numbers.decimal_size(size_bytes)
    opened = capture.name == job.capture.name
    state = "open" if opened else "enter opens it"
    if not capture.complete:
        state += ", ranks are missing"
    cells = (name, "capture", f"{len(capture.ranks)}{of}", size, state)
    target, ink = (None, Ink.STRONG) if opened else (capture.name, Ink.TEXT)
    kinds = Counter(file.kind.replace("_", " ") for file in capture.files).most_common(1)
    kind = kinds[0][0] if kinds else ""
    files = numbers.counted(len(capture.files), "file")
    return FileRow(cells, target, len(capture.ranks), size_bytes, ink, kind, files)


Phase = Literal["opening", "loading", "ready", "stopped", "failed"]
FileStatus = Literal["queued", "reading", "done", "failed"]


class FileState(Struct, frozen=True):
    """One trace file and its loading state."""

    label: str
    total_bytes: int
    done_bytes: int = 0
    status: FileStatus = "queued"
    problem: str = ""


class Session(Struct, frozen=True):
    """The job as far as it is loaded. ``generation`` grows whenever results become stale.

    Results from generation ``since`` on lack only ranks that were loaded later: they may be shown
    until newer ones arrive.
    """

    path: str
    phase: Phase = "opening"
    job: Job | None = None
    filter: ViewOptions = field(default_factory=ViewOptions)  # the part of the job that is shown
    files: Mapping[str, FileState] = field(default_factory=dict)
    problem: str = ""
    generation: int = 0
    has_runs: bool = False  # whether a folder is a run
    has_cluster: bool = False  # whether a file has values about machines
    has_reports: bool = False  # whether reports are made of a file of nsys
    has_hangs: bool = False  # whether a file is of a recorder that tells where a job hangs
    has_hours: bool = False  # whether a file has records of hours of collectives
    since: int = 0
    elsewhere: str = ""  # the run of ccltui index that reads the files, and how far it is

    def accepts(self, generation: int) -> bool:
        """Return whether results of a generation belong to this capture and this filter."""
        return self.since <= generation <= self.generation

    @property
    def ranks_loaded(self) -> int:
        """Number of ranks that are completely loaded."""
        return _ranks_loaded(self)

    @property
    def ranks_partly(self) -> int:
        """Number of ranks of which only the beginning is loaded."""
        return len(self.job.ranks) - self.ranks_loaded if self.job else 0

    @property
    def ranks_expected(self) -> int:
        """Number of ranks once everything is loaded."""
        return _ranks_expected(self)

    @property
    def done_bytes(self) -> int:
        """Bytes of the files read so far."""
        return sum(state.done_bytes for state in self.files.values())

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(state.total_bytes for state in self.files.values())

    @property
    def busy(self) -> bool:
        """Whether files are still being read."""
        return self.phase in ("opening", "loading")

    def anew(self) -> Session:
        """Return a session of the same path with nothing loaded, to open another capture."""
        generation = self.generation + 1
        everything = self.filter.changed(window=None, steps=None, ranks=None)
        return Session(self.path, filter=everything, generation=generation, since=generation)

    def opened(self, job: Job) -> Session:
        """Return the session after discovery: the files to load are known."""
        files = {
            found.path: FileState(
                label=found.path if found.rank is None else str(found.rank),
                total_bytes=found.size_bytes,
            )
            for found in job.capture.files
        }
        # This imports numpy, which is loaded by now.
        from ccltui.parsers.discovery.run_settings import (  # noqa: PLC0415
            has_cluster,
            has_hangs,
            has_hours,
            has_runs,
        )

        found = job.discovery.files
        return replace(
            self,
            job=job,
            files=files,
            phase="loading",
            elsewhere="",
            has_runs=has_runs(found),
            has_cluster=has_cluster(found),
            has_hangs=has_hangs(found),
            has_hours=has_hours(found),
            has_reports=any(
                file.format.reports and file.format.to_sqlite is None for file in found
            ),
        )

    def progressed(self, done_bytes: Mapping[str, int], elsewhere: str = "") -> Session:
        """Return the session with new numbers of bytes read, and what else reads the files."""
        files = dict(self.files)
        for path, done in done_bytes.items():
            if path in files and files[path].status in ("queued", "reading"):
                files[path] = replace(files[path], done_bytes=done, status="reading")
        return replace(self, files=files, elsewhere=elsewhere)

    def with_job(self, job: Job, problems: Mapping[str, str]) -> Session:
        """Return the session after files are read, begun or failed.

        Earlier results become stale unless all of them failed without removing a rank.

        Args:
            job: The job with them.
            problems: Why each file failed, "" for a file that did not, by path.
        """
        files, begun = dict(self.files), _begun(job)
        for path, problem in problems.items():
            if path in files and (problem or path not in begun):
                total = files[path].total_bytes
                status: FileStatus = "failed" if problem else "done"
                files[path] = replace(files[path], done_bytes=total, status=status, problem=problem)
        fewer = self.job is not None and len(job.ranks) < len(self.job.ranks)
        is_same = all(problems.values()) and not fewer
        generation = self.generation if is_same else self.generation + 1
        return replace(self, job=job, files=files, generation=generation)

    def followed(self, job: Job) -> Session:
        """Return the session of a job that was read again, whole, after its files changed."""
        after, read = self.opened(job), job.read_paths
        files = {
            path: replace(state, done_bytes=state.total_bytes, status="done")
            if path in read
            else state
            for path, state in after.files.items()
        }
        for failure in job.failures:
            if failure.path in files:
                state = files[failure.path]
                files[failure.path] = replace(state, status="failed", problem=failure.error)
        generation = self.generation + 1
        return replace(after, files=files, phase="ready", problem="", generation=generation)

    def finished(self, *, stopped: bool) -> Session:
        """Return the session after loading has ended or was stopped."""
        return replace(self, phase="stopped" if stopped else "ready")

    def failed(self, problem: str) -> Session:
        """Return the session after nothing could be opened."""
        return replace(self, phase="failed", problem=problem)

    def filtered(self, chosen: ViewOptions) -> Session:
        """Return the session with another filter; nothing is loaded again."""
        generation = self.generation + 1
        return replace(self, filter=chosen, generation=generation, since=generation)


def _begun(job: Job) -> set[str]:
    """Return the files of which only the beginning is loaded."""
    return {trace.source.path for trace in job.ranks if trace.read_share < 1}


def measured_steps(steps: Sequence[Step], chosen: ViewOptions) -> list[Step]:
    """Return the steps that numbers cover; of a window those that begin in it."""
    first, last = (-math.inf, math.inf) if chosen.steps is None else chosen.steps
    inside = [step for step in steps if first <= step.id <= last]
    if chosen.window is None:
        return inside
    start, end = chosen.window.start_ns, chosen.window.end_ns
    return [
        step
        for step in inside
        if (start is None or step.start_ns >= start) and (end is None or step.start_ns < end)
    ]


@of_last
def _ranks_loaded(session: Session) -> int:
    return sum(trace.read_share == 1 for trace in session.job.ranks) if session.job else 0


@of_last
def _ranks_expected(session: Session) -> int:
    job = session.job
    if job is None:
        return len(session.files)
    parts = {trace.source.path: trace.source.parts for trace in job.ranks}
    merged = {path: job.ranks_in(path) for path in job.merged.paths}
    parts |= {path: len(ranks or ()) for path, ranks in merged.items()}
    parts |= {trace.source.path: 0 for trace in job.side}
    return sum(parts.get(path, 1) for path in session.files)
