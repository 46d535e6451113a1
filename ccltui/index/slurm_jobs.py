"""Index runs under way: submit, list and cancel their Slurm jobs, how far one is, how to end it."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.index.index_state import IndexState, Plan, PlannedFile, Submission
from ccltui.index.work_division import EngineError, tasks_of
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import Job
from ccltui.parsers.store.cache_place import default_cache_dir


class RunningIndex(Struct, frozen=True):
    """A run of ``ccltui index`` on a directory, as its state in the store shows it."""

    state: IndexState
    where: str  # the command that waits, or the jobs
    sizes: dict[str, int]  # bytes of each file, by path
    ended: frozenset[str]  # paths of files with a result

    def told(self) -> str:
        """Return one line on the progress."""
        size = sum(self.sizes[path] for path in self.ended)
        total = sum(self.sizes.values())
        return (
            f"ccltui index runs ({self.where}): {len(self.ended)} of {len(self.sizes)} files, "
            f"{size / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        )


def running_index(job: Job, path: str, store: Path | None) -> RunningIndex | None:
    """Return the run that fills the store with the ranks of a job, None where there is none.

    Args:
        job: As discovered; nothing is loaded.
        path: Its directory.
        store: Directory of the store, None for the user's.
    """
    directory = (default_cache_dir() if store is None else store).absolute()
    state = IndexState.of(directory, path, job.capture.name)
    if not state.directory.is_dir() or state.is_cancelled:
        return None
    try:
        plan = state.plan()
    except TraceError:
        return None
    done = state.job()
    where = state.waiting_command()
    if where is None:
        if done is not None and done.digest == plan.digest:
            return None
        where = _jobs(state)
    if where is None:
        return None
    known = state.recorded_keys()
    return RunningIndex(
        state,
        where,
        {one.path: one.size_bytes for one in plan.files},
        frozenset(one.path for one in plan.files if one.key in known),
    )


def _jobs(state: IndexState) -> str | None:
    """Return the jobs of a run whose command has ended; None where Slurm has none."""
    if state.submission() is None:
        return None

    found = live_jobs(state)
    return None if found is None or not found.ids else f"jobs {', '.join(found.ids)}"


def cancel_index(run: RunningIndex) -> None:
    """End a run: its jobs are cancelled, and the command that waits for them ends.

    Raises:
        EngineError: Slurm does not answer.
    """
    run.state.cancel()
    if run.state.submission() is not None:
        cancel(run.state)


@contextlib.contextmanager
def announced(state: IndexState, engine: str) -> Iterator[None]:
    """Show in the state that a command waits, until it ends."""
    import threading  # noqa: PLC0415  (needed here alone)

    ended = threading.Event()

    def touch() -> None:
        while True:
            with contextlib.suppress(OSError):
                state.announce(engine)
            if ended.wait(state.ANNOUNCE_S):
                return

    thread = threading.Thread(target=touch, name="announce", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        state.withdraw_announcement()


_VARIABLE: Final = "CCLTUI_SBATCH"
_SITE_TIMEOUT_S: Final = 60
# Profiles are bash. Those for analysis come first: reading needs no GPU. What the user exported for
# sbatch wins over the profile.
_PRINT: Final = r"""
set -eu
if [[ -r $CCLTUI_SBATCH/lib/site.sh ]]; then
    source "$CCLTUI_SBATCH/lib/site.sh"
    take_sbatch_variables
fi
source "$1" >&2
[[ ${SITE_ACCOUNT_NEEDED:-no} != yes || -n ${SITE_ANALYSIS_ACCOUNT:-${SITE_ACCOUNT:-}} ]] || {
    echo "no account: ${SITE_ACCOUNT_FROM:-set SITE_ACCOUNT}" >&2
    exit 3
}
one() { [[ -z $2 ]] || printf -- '--%s=%s\0' "$1" "$2"; }
one account "${SITE_ANALYSIS_ACCOUNT:-${SITE_ACCOUNT:-}}"
one partition "${SITE_ANALYSIS_PARTITION:-}"
one constraint "${SITE_ANALYSIS_CONSTRAINT:-}"
one qos "${SITE_ANALYSIS_QOS:-}"
"""


def site_options(profile: str) -> tuple[str, ...]:
    """Return the options of sbatch that a profile states for work without GPUs.

    Args:
        profile: Path of a profile, or the name of one in ``sites`` of the collection scripts, which
            are found by ``CCLTUI_SBATCH`` or beside the package in a checkout.

    Raises:
        EngineError: There is no such profile, or it cannot be read.
    """
    folder = Path(os.environ.get(_VARIABLE) or Path(__file__).resolve().parents[2] / "sbatch")
    path = Path(profile) if "/" in profile else folder / "sites" / f"{profile}.sh"
    if not path.is_file():
        there = ", ".join(sorted(one.stem for one in folder.glob("sites/*.sh"))) or "none found"
        raise EngineError(
            f"no site profile {path}: give its path, or one of: {there} "
            f"({_VARIABLE} names the folder of the collection scripts)"
        )
    try:
        done = subprocess.run(
            ["bash", "-c", _PRINT, "site", str(path.resolve())],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SITE_TIMEOUT_S,
            env={**os.environ, _VARIABLE: str(folder)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"the site profile {path} cannot be read: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise EngineError(f"the site profile {path} cannot be read: {last}")
    return tuple(option for option in done.stdout.split("\0") if option)


MAX_ROUNDS: Final = 4
"""Submissions of what is still missing, the first one included."""
_MEMORY_FACTOR: Final = 1.3
_LEAST_MEMORY: Final = 512 << 20
_REDUCE_BYTES_PER_TEXT_BYTE: Final = 0.15  # measured: 0.1 for 1,024 ranks
_SLOWEST_BYTES_PER_S: Final = 20 << 20  # a tenth of the rate on a local disk
_LEAST_MINUTES: Final = 10
_TIMEOUT_S: Final = 120
_REFUSED_LINES: Final = 3


class LiveJobs(Struct, frozen=True):
    """Jobs of a run in the queue: ids, and the number of tasks that run."""

    ids: tuple[str, ...]
    running: int
    reasons: tuple[str, ...]  # why others wait


def submit_round(
    state: IndexState, plan: Plan, missing: Sequence[int], submission: Submission
) -> str:
    """Submit an array for the files ``missing``, and the job after it that reduces.

    The plan of these tasks has a file of its own, which later commands do not change.

    Returns:
        One line on what was submitted.

    Raises:
        EngineError: Slurm refuses it.
        OSError: The state cannot be written.
    """
    tasks = tasks_of(plan.files, missing, submission.per_task)
    name = f"tasks-{uuid.uuid4().hex[:8]}"
    state.write_plan(replace(plan, tasks=tasks), name)
    after: tuple[str, ...] = ()
    told = "the reduction"
    if tasks:
        files = [plan.files[number] for number in missing]
        array = _sbatch(
            state,
            submission,
            f"--array=0-{len(tasks) - 1}",
            f"--output={state.logs}/%A_%a.log",
            f"--mem={_task_memory(files, submission.rounds) >> 20}M",
            f"--time={_minutes([[plan.files[n] for n in task] for task in tasks])}",
            script=_script(state, submission, name, '"$SLURM_ARRAY_TASK_ID"'),
        )
        after = (f"--dependency=afterany:{array}",)
        files_text = f"{len(missing)} file{'' if len(missing) == 1 else 's'}"
        told = f"array {array}: {files_text} in {len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    text_bytes = sum(one.text_bytes for one in plan.files)
    memory = _LEAST_MEMORY + int(text_bytes * _REDUCE_BYTES_PER_TEXT_BYTE)
    try:
        reduction = _sbatch(
            state,
            submission,
            *after,
            f"--output={state.logs}/%j.log",
            f"--mem={memory >> 20}M",
            f"--time={_minutes([plan.files])}",
            script=_script(state, submission, name, "reduce"),
        )
    except EngineError:
        cancel(state)  # nobody would continue after the array
        raise
    state.write_submission(submission)
    return f"submitted {told}; job {reduction} matches the ranks after it"


def live_jobs(state: IndexState) -> LiveJobs | None:
    """Return the jobs of the run in the queue, None where Slurm does not answer.

    They are found by name: a command that was killed after submitting left no other trace.
    """
    try:
        done = _run("squeue", "-h", "-r", f"--name={state.name}", "-o", "%F|%t|%r")
    except EngineError:
        return None
    if done.returncode:
        return None
    rows = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 2]
    ids = tuple(dict.fromkeys(row[0] for row in rows))
    running = sum(row[1] in ("R", "CG", "CF") for row in rows)
    reasons = tuple(
        sorted({r[2] for r in rows if r[1] == "PD" and r[2] not in ("None", "Dependency")})
    )
    return LiveJobs(ids, running, reasons)


def cancel(state: IndexState) -> None:
    """Cancel every job of the run. Raises EngineError."""
    _run("scancel", f"--name={state.name}", f"--user={os.getuid()}")


def _script(state: IndexState, submission: Submission, plan: str, what: str) -> str:
    words = [submission.python, "-m", "ccltui.index.index_task", str(state.directory), plan]
    # The folder that a job starts in may hold modules of any name.
    lines = ["#!/bin/bash", "export PYTHONSAFEPATH=1 OPENBLAS_NUM_THREADS=1"]
    return "\n".join([*lines, f"exec {shlex.join(words)} {what}", ""])


def _sbatch(state: IndexState, submission: Submission, *options: str, script: str) -> str:
    """Return the id of a submitted job. Raises EngineError with what Slurm printed."""
    common = [
        "--parsable",
        f"--job-name={state.name}",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=1",
        "--requeue",
        "--open-mode=append",
    ]
    done = _run("sbatch", *common, *options, *submission.options, text=script)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = "; ".join(lines[:_REFUSED_LINES]) or f"exit status {done.returncode}"
        raise EngineError(f"sbatch refused the job: {why}")
    return done.stdout.strip().partition(";")[0]


def _run(program: str, *options: str, text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [program, *options],
            check=False,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_TIMEOUT_S,
            env=_environment(),
        )
    except FileNotFoundError as error:
        raise EngineError(f"{program} is not installed here: the engine slurm needs it") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{program}: {error}") from error


def _environment() -> dict[str, str]:
    """Return the environment outside of a job, whose variables would describe the next one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name == "SLURM_CONF"
    }


def _task_memory(files: Sequence[PlannedFile], rounds: int) -> int:
    """Return the memory of a task, twice as much each round: the last one may have lacked it."""
    largest = max(one.peak_bytes for one in files)
    return max(int(largest * _MEMORY_FACTOR), _LEAST_MEMORY) << (rounds - 1)


def _minutes(tasks: Sequence[Sequence[PlannedFile]]) -> int:
    longest = max((sum(one.text_bytes for one in task) for task in tasks), default=0)
    return _LEAST_MINUTES + -(-longest // (60 * _SLOWEST_BYTES_PER_S))


def python_of_jobs() -> str:
    """Return the interpreter that jobs start: that of this process, on a shared file system."""
    return str(Path(sys.executable).absolute())
