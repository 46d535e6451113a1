"""What runs in the jobs of a cluster; each task imports the reading of files alone.

``python -m ccltui.index.index_task STATE PLAN TASK``, with ``reduce`` for TASK after all tasks.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from ccltui.index.index_file import cpu_seconds, index_file
from ccltui.index.index_state import IndexState
from ccltui.parsers.errors import TraceError
from ccltui.parsers.ingest.rank_worker import stop_with

_STOPPED: Final = 143


def run_task(state: IndexState, plan_name: str, number: int) -> int:
    """Read the files of one task and return the exit status; a failed file is a record, no failure.

    SIGTERM, which comes before a job is cancelled or requeued, ends the reading without a record.
    """
    stop = threading.Event()

    def on_terminate(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_terminate)
    stop_with(stop)
    plan = state.plan(plan_name)
    for index in plan.tasks[number]:
        record = index_file(state, plan.files[index], plan.store_path(), stop)
        if record is None or stop.is_set():
            return _STOPPED
        print(f"{record.path}: {record.error or 'read'}", flush=True)
    return 0


def run_reduce(state: IndexState, plan_name: str) -> int:
    """Submit what is missing once more, else match the ranks; return the exit status."""
    # The metrics take longer to import than all that reading needs.
    from ccltui.index.saved_results import missing_keys, reduce_job  # noqa: PLC0415
    from ccltui.index.slurm_engine import advance  # noqa: PLC0415
    from ccltui.index.work_division import EngineError  # noqa: PLC0415

    plan = state.plan(plan_name)
    missing = missing_keys(state, plan)
    if missing:
        try:
            again = advance(state, plan)
        except EngineError as error:
            # Some sites allow no submission from a compute node; then the waiting command submits.
            print(f"{len(missing)} files have no result, and {error}", flush=True)
            return 1
        print(again or "cancelled", flush=True)
        return 0
    if not state.is_cancelled:
        for one in reduce_job(state, plan):
            print(f"computes {one.what}, {one.done} of {one.total} metrics are there", flush=True)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run a task, or the step after all tasks, and return the exit status."""
    directory, plan_name, what = arguments
    state = IndexState(Path(directory))
    try:
        status = (
            run_reduce(state, plan_name)
            if what == "reduce"
            else run_task(state, plan_name, int(what))
        )
    except (OSError, TraceError) as error:
        print(f"ccltui: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"CPU-s {cpu_seconds():.2f}")  # with the start of Python, which records leave out
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
