"""Read files in the tasks of a Slurm job array, which sbatch submits.

No process stays behind: the job after the array submits what is missing once more and then matches
the ranks, whether or not anybody watches. A command that is started again finds its jobs by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from ccltui.index.index_file import killed
from ccltui.index.index_state import IndexState, Plan, Submission
from ccltui.index.saved_results import missing_keys
from ccltui.index.slurm_jobs import (
    MAX_ROUNDS,
    cancel,
    live_jobs,
    python_of_jobs,
    site_options,
    submit_round,
)
from ccltui.index.work_division import EngineEvent, EngineOptions, Message, Work

_LOOK_S: Final = 0.5  # at the records, which are files
_ASK_S: Final = 2.0  # the controller, which all users share
_ASK_LATER_S: Final = 10.0
_LATER_S: Final = 60.0
_ABSENT: Final = 2
"""Answers without a job before the run counts as ended: jobs are between submission and queue."""


class SlurmEngine:
    """A job array, several files a task; a dependent job submits failed tasks again and reduces."""

    name = "slurm"
    reduces = True

    def __init__(self, options: EngineOptions) -> None:
        self._options = options

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Submit, or continue with jobs in the queue; see `ccltui.index.work_division.Engine`."""
        state, plan = work.state, work.plan
        found = live_jobs(state)
        if found is not None and found.ids:
            ids = ", ".join(found.ids)
            yield Message(f"continues with what an earlier command submitted: jobs {ids}")
        else:
            yield Message(self._submit(state, plan, work.pending))
        watch = _Watch(state, plan, work.pending)
        while True:
            yield from watch.ended()
            gone = watch.has_no_job()
            if watch.is_done and (gone or watch.was_absent):  # it still computes metrics till then
                return
            if cancelled():
                state.cancel()
                cancel(state)
                yield from watch.ended()
                return
            if gone and not watch.is_done:
                again = advance(state, plan)
                if again is not None:
                    yield Message(again)
            yield from watch.waiting()
            time.sleep(_LOOK_S)

    def _submit(self, state: IndexState, plan: Plan, pending: tuple[int, ...]) -> str:
        site = () if self._options.site is None else site_options(self._options.site)
        submission = Submission(
            (*site, *self._options.sbatch), python_of_jobs(), per_task=self._options.ranks_per_task
        )
        return submit_round(state, plan, pending, submission)


def advance(state: IndexState, plan: Plan) -> str | None:
    """Submit what is missing, or the reduction; called where no array of the run is in the queue.

    After `MAX_ROUNDS` files without a record count as lost.

    Returns:
        One line on what was submitted; None where nothing is to be done.

    Raises:
        EngineError: Slurm refuses it.
        OSError: The state cannot be written.
    """
    submission = state.submission()
    if submission is None or state.is_cancelled:
        return None
    missing = missing_keys(state, plan)
    if missing and submission.rounds >= MAX_ROUNDS:
        for number in missing:
            state.write_record(killed(plan.files[number]))
        missing = []
    if not missing:
        return submit_round(state, plan, (), submission)
    following = msgspec.structs.replace(submission, rounds=submission.rounds + 1)
    return submit_round(state, plan, missing, following)


class _Watch:
    """What a run has come to, from its records and from the queue."""

    def __init__(self, state: IndexState, plan: Plan, pending: tuple[int, ...]) -> None:
        self._state = state
        self._digest = plan.digest
        self._open = {plan.files[number].key for number in pending}
        self._began = self._asked = time.monotonic()
        self._absent = 0
        self._reasons: tuple[str, ...] = ()
        self._said: tuple[str, ...] = ()
        self._rounds = 1

    @property
    def is_done(self) -> bool:
        """Whether the record of the job is there."""
        if self._open:
            return False
        job = self._state.job()
        return job is not None and job.digest == self._digest

    def ended(self) -> Iterator[EngineEvent]:
        """Return the records that are new, and that tasks were submitted again."""
        for key in sorted(self._open & self._state.recorded_keys()):
            record = self._state.record(key)
            if record is not None:
                self._open.discard(key)
                yield record
        submission = self._state.submission()
        if submission is not None and submission.rounds > self._rounds:
            self._rounds = submission.rounds
            left = len(self._open)
            yield Message(
                f"{left} files had no result and were submitted again, round {self._rounds}"
            )

    @property
    def was_absent(self) -> bool:
        """Whether the last answer of Slurm named no job of the run, or it gave none."""
        return self._absent > 0

    def has_no_job(self) -> bool:
        """Whether Slurm has no job of the run any more, asked at a moderate rate."""
        now = time.monotonic()
        period = _ASK_S if now - self._began < _LATER_S else _ASK_LATER_S
        if now - self._asked < period:
            return False
        self._asked = now
        found = live_jobs(self._state)
        if found is None:  # no answer is no reason to submit twice
            return self.is_done
        self._reasons = found.reasons if not found.running else ()
        self._absent = 0 if found.ids else self._absent + 1
        if self._absent < _ABSENT:
            return False
        self._absent = 0
        return True

    def waiting(self) -> Iterator[EngineEvent]:
        """Return why nothing runs, where that is new."""
        if self._reasons != self._said:
            self._said = self._reasons
            if self._said:
                yield Message(f"the jobs wait: {', '.join(self._said)}")
