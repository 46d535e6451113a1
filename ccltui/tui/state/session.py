"""Immutable snapshot of the loaded data, with a generation; replaced as ranks arrive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.state.job_findings import Step

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
        return sum(trace.read_share == 1 for trace in self.job.ranks) if self.job else 0

    @property
    def ranks_partly(self) -> int:
        """Number of ranks of which only the beginning is loaded."""
        return len(self.job.ranks) - self.ranks_loaded if self.job else 0

    @property
    def ranks_expected(self) -> int:
        """Number of ranks once everything is loaded."""
        if self.job is None:
            return len(self.files)
        parts = {trace.source.path: trace.source.parts for trace in self.job.ranks}
        merged = {path: self.job.ranks_in(path) for path in self.job.merged.paths}
        parts |= {path: len(ranks or ()) for path, ranks in merged.items()}
        parts |= {trace.source.path: 0 for trace in self.job.side}
        return sum(parts.get(path, 1) for path in self.files)

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
