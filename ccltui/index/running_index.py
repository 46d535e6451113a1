"""An index run that somebody else started: whether it runs, how far it is, and how to end it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ccltui.index.index_state import IndexState
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
    from ccltui.index.slurm_jobs import live_jobs  # noqa: PLC0415  (starts squeue)

    found = live_jobs(state)
    return None if found is None or not found.ids else f"jobs {', '.join(found.ids)}"


def cancel_index(run: RunningIndex) -> None:
    """End a run: its jobs are cancelled, and the command that waits for them ends.

    Raises:
        EngineError: Slurm does not answer.
    """
    run.state.cancel()
    if run.state.submission() is not None:
        from ccltui.index.slurm_jobs import cancel  # noqa: PLC0415  (starts scancel)

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
