"""Worker processes that may be started before it is known what they will read.

Starting one takes longer than discovery of a directory, so callers start a pool first. This
module imports no reader: a caller that only starts a pool does not pay for readers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct, field

from ccltui.parsers.errors import InternalError, defect_of, internal_error
from ccltui.parsers.ingest.rank_worker import (
    REPORT,
    Outcome,
    read_one,
    read_preview,
    ready,
    start_worker,
)
from ccltui.parsers.machine_limits import MAX_WORKERS, allowed_cpus

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from ccltui.parsers.found_files import FoundFile

R = TypeVar("R")

_POLL_S = 0.05
_SAFE_PATH = "PYTHONSAFEPATH"
_WOKEN = 2
"""Processes started ahead, where there are CPUs for them and for their parent."""
_STARTS = threading.RLock()
"""Held while processes are started."""
_NO_MORE_STARTS = threading.Event()
_START_ENDS_S = 1.0
_TAKEN_APART_S = 5.0
"""Seconds in which a broken pool fails its tasks, once its processes are told to end."""


class Done(Struct, frozen=True):
    """A file is finished; ``outcome`` is None where its worker died."""

    found: FoundFile
    outcome: Outcome | None


class Seen(Struct, frozen=True):
    """The preview of a file is stored; the rest is still to be read."""

    found: FoundFile
    outcome: Outcome


class Read(Struct, frozen=True):
    """Bytes read so far of the files that reported since the last poll, by path."""

    done_bytes: dict[str, int] = field(default_factory=dict)


class StopPipe:
    """Tells processes to stop: its end that they look at says so once the other one is closed.

    Not an event of multiprocessing, which has a lock: a process that was killed while it looked
    would hold that for ever, and the one that says stop would wait for it.
    """

    def __init__(self, context: BaseContext) -> None:
        self.looked_at, self._held = context.Pipe(duplex=False)

    def set(self) -> None:
        """Say stop; a second time does nothing."""
        if not self._held.closed:
            with contextlib.suppress(OSError):  # nobody is there to look at it
                self._held.send_bytes(b"stop")  # a process that was forked may hold this end, too
        self._held.close()

    @property
    def is_set(self) -> bool:
        """Whether stop was said here."""
        return self._held.closed


class _Reports:
    """Bytes read so far, which processes write into one pipe, each report at once and whole.

    Not a queue of multiprocessing, for the reason of `StopPipe`. Where nobody takes reports for
    long, later ones are lost: a reader never waits.
    """

    def __init__(self, context: BaseContext) -> None:
        self._taken, self.sender = context.Pipe(duplex=False)
        for end in (self._taken, self.sender):
            os.set_blocking(end.fileno(), False)

    def take(self) -> dict[int, int]:
        """Return the latest bytes of each file, by its number, since the last time."""
        latest: dict[int, int] = {}
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._taken.fileno(), REPORT.size << 10):
                latest.update(REPORT.iter_unpack(data))
        return latest

    def close(self) -> None:
        """Close both ends here; a second time does nothing."""
        self._taken.close()
        self.sender.close()


class Executor(ProcessPoolExecutor):
    """Also ends where a process dies within the moment in which another one is being started.

    Python 3.11 takes the pool apart meanwhile. It waits for the new process for ever then, which
    nobody told to end, or the start fails for want of a pipe, or a task is never given up.
    """

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Start a task; where a process has died its future says so, no exception does."""
        try:
            future = super().submit(fn, *args, **kwargs)
        except (BrokenProcessPool, OSError):
            if not self._broken:
                raise
        else:
            if not self._broken:
                return future
            self._give_up()
            if future.done():
                return future
        future = Future()
        future.set_exception(BrokenProcessPool(self._broken))
        return future

    def _give_up(self) -> None:
        """Fail every task that is left when the pool was taken apart amid the start of one.

        The thread that does so counts tasks meanwhile, and fails of one more.
        """
        self.terminate()
        thread: Any = self._executor_manager_thread
        if thread is not None:
            thread.join(_TAKEN_APART_S)
        for item in list(self._pending_work_items.values()):
            with contextlib.suppress(InvalidStateError):
                item.future.set_exception(BrokenProcessPool(self._broken))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let no further task begin, and end processes that are left of a broken pool."""
        if self._broken:
            self.terminate()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def terminate(self) -> None:
        """End every process, also those that are being started."""
        for process in list((self._processes or {}).values()):
            process.terminate()


class WorkerPool:
    """At most ``workers`` processes; every file has one to itself while it is read."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        with _safe_path():
            _start_tracker()
        self._reports = _Reports(context)
        self._stop = StopPipe(context)
        self._numbers = itertools.count()  # of files: none is reported for another one
        self._workers = workers
        self._executor = Executor(
            workers,
            mp_context=context,
            initializer=start_worker,
            initargs=(self._reports.sender, self._stop.looked_at),
        )

    @classmethod
    def awake(cls, jobs: int | None = None) -> Self:
        """A pool whose first processes are starting; ``jobs`` None means one a CPU allowed."""
        pool = cls(jobs or min(allowed_cpus(), MAX_WORKERS))
        try:
            with starting():
                for _ in range(min(pool._workers, _WOKEN, max(1, allowed_cpus() - 1))):
                    pool._executor.submit(ready)
        except BaseException:  # also a signal
            pool.close(wait=False)
            raise
        return pool

    def __enter__(self) -> Self:
        """Return the pool, which is closed in the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, also those that still read."""
        self.close()

    def close(self, *, wait: bool = True) -> None:
        """End every process, also those that still read; a second time does nothing."""
        self._stop.set()
        if not wait:
            # Those that are still starting would miss the semaphores, with a traceback each.
            self._executor.terminate()
        self._executor.shutdown(wait=wait, cancel_futures=True)
        self._stop.looked_at.close()
        self._reports.close()

    def run(
        self,
        files: Sequence[FoundFile],
        directories: tuple[Path, ...],
        limit: int,
        cancelled: Callable[[], bool],
        *,
        previews: Sequence[FoundFile] = (),
    ) -> Iterator[Done | Read | Seen]:
        """Read ``files`` in order, at most ``limit`` at once, into the first store with room.

        Previews of the files in ``previews`` go to the last of ``directories`` before that. Ends
        early when ``cancelled`` returns true. A process that dies breaks the pool: the files that
        were being read, and those not begun, are yielded without outcome.

        Raises:
            RuntimeError: The pool is closed.
        """
        if self._stop.is_set:
            raise RuntimeError("the pool is closed")
        waiting: dict[Future[Outcome], _Task] = {}
        queued = deque(_preview_task(found, directories[-1]) for found in previews)
        numbered = dict(zip(self._numbers, files, strict=False))
        queued.extend(_read_task(found, directories, at) for at, found in numbered.items())
        while queued or waiting:
            if cancelled():
                return
            while queued and len(waiting) < min(limit, self._workers):
                task = queued.popleft()
                with starting():
                    waiting[self._executor.submit(task.work, *task.arguments)] = task
            done, _ = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            sizes = self._reports.take()
            yield Read({numbered[at].path: size for at, size in sizes.items() if at in numbered})
            for future in done:
                task = waiting.pop(future)
                outcome = _outcome(future, task.found.path)
                if not task.is_preview:
                    yield Done(task.found, outcome)
                elif outcome is not None and outcome.error is None:
                    yield Seen(task.found, outcome)


class _Task(Struct, frozen=True):
    """A file, the function that a process runs on it, and whether that makes a preview."""

    found: FoundFile
    work: Callable[..., Outcome]
    arguments: tuple[Any, ...]
    is_preview: bool


def _preview_task(found: FoundFile, beginnings: Path) -> _Task:
    return _Task(
        found, read_preview, (found.real_path, found.path, found.kind, beginnings), is_preview=True
    )


def _read_task(found: FoundFile, directories: tuple[Path, ...], number: int) -> _Task:
    arguments = (found.real_path, found.path, found.kind, directories, found.companion)
    read = partial(read_one, number=number)
    return _Task(found, read, arguments, is_preview=False)


def _outcome(future: Future[Outcome], path: str) -> Outcome | None:
    try:
        return future.result()
    except BrokenProcessPool:
        return None
    except Exception as error:  # an error in a worker is a failure of its own file
        return _of_error(path, error)


def _of_error(path: str, error: Exception) -> Outcome:
    internal = InternalError(internal_error(error), path=path)
    internal.__cause__ = error
    return Outcome(error=str(internal), defect=defect_of(internal))


def _start_tracker() -> None:
    """Start the process in which Python keeps track of semaphores, without standard error.

    When this process is killed, it removes them and warns of a leak, which there is none then.
    """
    if getattr(resource_tracker._resource_tracker, "_fd", None) is not None:
        return
    try:
        kept = os.dup(2)
    except OSError:  # standard error is closed
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        resource_tracker.ensure_running()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def prepare_for_processes() -> None:
    """Start the process of `_start_tracker` where ``sys.stderr`` is an object of a screen.

    It would be handed the descriptor of that, and such an object has none. Standard error itself
    stays as it is: the screen may be written to it at the same time.
    """
    with contextlib.redirect_stderr(sys.__stderr__):
        resource_tracker.ensure_running()


def stop_starts() -> None:
    """Wait for starts of processes in other threads, a second at most, and let none begin after.

    For a process that is about to exit: one that is started by halves ends with a traceback.
    """
    _NO_MORE_STARTS.set()
    _STARTS.acquire(timeout=_START_ENDS_S)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Start processes without the caller's main module and with SIGINT blocked.

    Until they ignore the signal themselves, in `ignore_sigint`, they would end with a traceback;
    the caller handles it. They import nothing from the working directory either. One thread starts
    processes at a time, none after `stop_starts`.
    """
    if (
        _NO_MORE_STARTS.is_set()
    ):  # the lock alone could be taken again before the waiting thread wakes
        threading.Event().wait()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit it
    try:
        with _STARTS, _own_main_module(), _safe_path(), _whole():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Let handlers of SIGTERM and SIGHUP run after a start, which an exception of theirs would cut.

    The process would begin without what it is sent, and end with a traceback. These signals are
    not blocked, because the process would inherit that and could not be ended while it starts.
    """
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    mine = {one: handler for one, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        mine = {}  # Python runs handlers in the main thread, and interrupts no other
    came: list[signal.Signals] = []
    for one in mine:
        signal.signal(one, lambda number, _: came.append(signal.Signals(number)))
    try:
        yield
    finally:
        for one, handler in mine.items():
            signal.signal(one, handler)
        for one in came:
            signal.raise_signal(one)


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keep the working directory off the module search path of processes started here.

    It is often a directory of traces, and multiprocessing starts by ``python -c``, which looks
    there first. The commands set the variable for good; for other callers it is restored.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH, None)
        else:
            os.environ[_SAFE_PATH] = before


@contextlib.contextmanager
def _own_main_module() -> Iterator[None]:
    """Make processes started here import the module of the worker, not the caller's main module.

    That one may be a script without a ``__main__`` check, which would start workers of its own,
    or no file at all.
    """
    main = sys.modules["__main__"]
    stated = main.__spec__
    main.__spec__ = importlib.util.find_spec("ccltui.parsers.ingest.rank_worker")
    try:
        yield
    finally:
        main.__spec__ = stated
